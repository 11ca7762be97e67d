"""ResourceExecutor: the only writer of cgroup files (specification, section 9).

In: one ordered plan per cycle, where the pods lie, their readings. Out: receipts. It keeps what BE is to be held at and applies that to the
groups that hold BE now, so that pods may come and go; it watches every file it owns, and puts originals back when a reason ends.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct
from msgspec.structs import replace

from qosmanager.execute.batch_knobs import BatchKnobs, Disks
from qosmanager.execute.be_cpus import BeCpus
from qosmanager.execute.be_groups import BeGroups
from qosmanager.execute.be_limit import BeLimit
from qosmanager.execute.bursts import burst_family
from qosmanager.execute.dialect import (
    BURST_NAMES,
    CPUS_NAME,
    PERIOD_NAME,
    QUOTA_NAMES,
    cpus_file,
    quota_file,
)
from qosmanager.execute.drift import DriftCounter
from qosmanager.execute.family import Family, Hands
from qosmanager.execute.holding import Holding
from qosmanager.execute.ledger import LEASE, Boot, Ledger, holds_ours, inside, sound
from qosmanager.execute.oom_scores import BeOomScores, OomScores
from qosmanager.execute.repetition import Repetition
from qosmanager.execute.service_knobs import ServiceKnobs
from qosmanager.execute.tree import cpu_version, group_limit
from qosmanager.execute.watch import Watch
from qosmanager.execute.writing import Trouble
from qosmanager.model.actions import (
    Action,
    Evict,
    Knob,
    Plan,
    Receipt,
    RestoreBeCpuLimit,
    RestoreBeCpuset,
    RestoreCpuLimit,
    Result,
    SetBeCpuLimit,
    SetBeCpuset,
    SetCpuLimit,
    Standing,
)
from qosmanager.model.cpu_list import parse_cpus
from qosmanager.model.plain import plain
from qosmanager.model.qos import Mode, is_latency_sensitive
from qosmanager.model.snapshot import Snapshot
from qosmanager.model.workload import CgroupFile, Placement, Workload
from qosmanager.ports import Journal, JournalEntry, KernelFiles

_LIMIT_NAMES = QUOTA_NAMES | BURST_NAMES | {PERIOD_NAME}
_TURNS = 10
_GOES_ON = "what was to hold BE instead is not in force: this goes on holding it"


class Adopted(Struct, frozen=True, kw_only=True):
    """What a predecessor left: its engine's state (JSON; None: it had no time to leave one), what BE is held at, and what
    became of its entries (its bursts are ended)."""

    state: bytes | None = None
    be_limit: float | None = None
    be_cpus: str | None = None
    receipts: tuple[Receipt, ...] = ()


class _Cycle(Struct, frozen=True, kw_only=True):
    """What one call of apply works with."""

    placement: Placement
    be: BeGroups
    usage: dict[str, float | None]
    standing: Standing
    now: float


class ResourceExecutor:
    """Owns every kernel file that it has written, until the original is back."""

    def __init__(self, kernel: KernelFiles, journal: Journal, scores: OomScores, boot: Boot, disks: Disks | None = None) -> None:
        """`disks` None: nothing is known of their schedulers, and BE gets no I/O weight."""
        self._kernel = kernel
        self._ledger = Ledger(journal, boot, kernel.identity())
        self._hands = Hands(kernel, self._ledger)
        self._be_limit = BeLimit(kernel, self._ledger)
        self._be_cpus = BeCpus(kernel, self._ledger)
        self._oom = BeOomScores(kernel, scores, self._ledger)
        self._drifts = DriftCounter()
        self._repetition = Repetition()
        self._watched = Watch(kernel)
        self._turn = 0
        self._batch = BatchKnobs(self._hands, disks)
        self._services = ServiceKnobs(self._hands)
        self._limit = Holding(_LIMIT_NAMES, self._hands)
        self._cpus = Holding(frozenset({CPUS_NAME}), self._hands)

    # -- one cycle -----------------------------------------------------------------------------------------------------------

    def apply(self, plan: Plan, placement: Placement, snapshot: Snapshot, now: float) -> tuple[Receipt, ...]:
        """Do a plan's actions but evictions, then what the held limits ask for. `now` is monotonic seconds. Never raises OSError."""
        usage = {pod.key: pod.cpu.usage for pod in snapshot.pods}
        cycle = _Cycle(placement=placement, be=BeGroups.of(placement), usage=usage, standing=plan.standing, now=now)
        receipts = self._watch(now) + self._end_ownerless(plan, placement) + self._act_in_turn(plan, cycle)
        # What an action has just tried is not tried twice in a cycle.
        tried = {type(action) for action in plan.actions if action.mode is Mode.ENFORCE}
        follow_ups = [] if tried & {SetBeCpuLimit, RestoreBeCpuLimit} else self._hold_limit(cycle)
        follow_ups += [] if tried & {SetBeCpuset, RestoreBeCpuset} else self._hold_cpus(cycle)
        follow_ups += self._batch.keep(plan.standing, placement, now)
        follow_ups += self._services.keep(plan.standing, placement, now)
        follow_ups += self._oom.keep(cycle.be.pods, plan.standing.oom_score_adj, now)
        follow_ups += self._store()
        noticed = {receipt.target for receipt in receipts if receipt.result is Result.DRIFTED}
        receipts += [receipt for receipt in follow_ups if _news(receipt) and not (_done(receipt) and receipt.target in noticed)]
        return tuple(receipt for receipt in receipts if self._repetition.first(receipt, now) or receipt.action is not None)

    def _act_in_turn(self, plan: Plan, cycle: _Cycle) -> list[Receipt]:
        receipts: list[Receipt] = []
        held = True  # whether all that this plan has set to hold BE is in force
        for index, action in enumerate(plan.actions):
            if isinstance(action, Evict):
                continue
            if isinstance(action, RestoreBeCpuLimit | RestoreBeCpuset) and not held:
                receipts.append(Receipt(target=target(action), result=Result.REFUSED, action=index, detail=_GOES_ON))
                continue
            done, decisive = self._act(action, cycle), self._decisive(action, cycle.be)
            receipts += _answers(index, action, done, decisive)
            held &= not decisive or _holds(done, decisive)
        return receipts

    def _act(self, action: Action, cycle: _Cycle) -> list[Receipt]:
        if action.mode is not Mode.ENFORCE:
            return [Receipt(target=target(action), result=Result.RECORDED, pod=getattr(action, "pod", None), detail=action.mode.value)]
        match action:
            case SetCpuLimit():
                found = burst_family(self._kernel, self._ledger, action, cycle.placement)
                return [found] if isinstance(found, Receipt) else self._hands.carry_out([found])
            case RestoreCpuLimit():
                receipts = self._end_burst(action.pod)
                return receipts or [_nothing_to_do(action)]
            case SetBeCpuLimit():
                return self._set_limit(action, cycle) or [_nothing_to_do(action)]
            case RestoreBeCpuLimit():
                self._ledger.be_limit = None
                return self._hold_limit(cycle) or [_nothing_to_do(action)]
            case SetBeCpuset():
                return self._set_cpus(action, cycle) or [_nothing_to_do(action)]
            case RestoreBeCpuset():
                self._ledger.be_cpus = None
                return self._hold_cpus(cycle) or [_nothing_to_do(action)]
            case Evict():
                raise AssertionError("evictions are the Evictor's")

    # -- what is owned, watched ----------------------------------------------------------------------------------------------

    def _watch(self, now: float) -> list[Receipt]:
        """Compare every owned file with what we wrote."""
        receipts: list[Receipt] = []
        self._watched.forget_others(self._ledger.entries)
        self._turn = (self._turn + 1) % _TURNS
        for number, entry in enumerate(tuple(self._ledger.entries.values())):
            # What protects LS opens nothing when it is changed: a tenth of it in each cycle.
            if (entry.protects and number % _TURNS != self._turn) or self._watched.is_untouched(entry):
                continue
            if entry.file not in self._ledger.entries:
                continue  # its burst was dropped a moment ago
            text = self._hands.present(entry)
            if isinstance(text, Trouble):
                receipts.append(self._lost(entry, text))
            elif not holds_ours(entry, text):
                receipts += self._drifted(entry, text, now)
        return receipts

    def _lost(self, entry: JournalEntry, why: Trouble) -> Receipt:
        if why.result is Result.GONE:
            self._release(entry.file)
        pod = None if entry.protects else entry.pod
        return Receipt(target=str(entry.file), result=why.result, pod=pod, before=entry.written[-1], detail=why.detail)

    def _drifted(self, entry: JournalEntry, text: str, now: float) -> list[Receipt]:
        ours = entry.written[-1]
        if entry.protects:
            self._release(entry.file)
            self._services.leave(entry)
            detail = f"changed by somebody else from {ours!r}; that is its own now, and left as it is"
            return [Receipt(target=str(entry.file), result=Result.DRIFTED, before=text, after=text, detail=detail)]
        if entry.pod is None:
            self._look_again(entry.file)
            detail = self._drifts.words(self._drifts.count(entry.file, now))
            return [Receipt(target=str(entry.file), result=Result.DRIFTED, before=text, after=ours, detail=f"{detail}; put back")]
        # kubelet resized the pod: its value is the new original, and the burst is over for the pod's other files too.
        self._release(entry.file)
        detail = f"changed by somebody else from {ours!r}; that is its own limit now, the burst is dropped"
        drifted = Receipt(target=str(entry.file), result=Result.DRIFTED, pod=entry.pod, before=ours, after=text, detail=detail)
        return [drifted, *self._end_burst(entry.pod)]

    def _release(self, file: CgroupFile) -> None:
        self._ledger.forget(file)
        self._drifts.forget(file)
        self._look_again(file)

    def _look_again(self, file: CgroupFile) -> None:
        if file.name in _LIMIT_NAMES:
            self._limit.forget()
            self._be_limit.forget()
        elif file.name == CPUS_NAME:
            self._cpus.forget()
        else:
            self._batch.forget()

    def _end_ownerless(self, plan: Plan, placement: Placement) -> list[Receipt]:
        """End what was raised for a pod that is no LS pod in that group any more (a reload took it away, and its group stays), or of which
        the engine knows no burst (a raise that failed could not be undone, or one that ended not be put back)."""
        known = {*plan.raised, *(action.pod for action in plan.actions if isinstance(action, SetCpuLimit | RestoreCpuLimit))}
        ownerless = {
            entry.pod
            for entry in self._ledger.entries.values()
            if _is_burst(entry) and entry.pod is not None and not (entry.pod in known and _is_raised_for(entry, placement.workloads))
        }
        return [receipt for pod in sorted(ownerless) for receipt in self._end_burst(pod)]

    def _end_burst(self, pod: str) -> list[Receipt]:
        return self._hands.put_back([entry for entry in self._ledger.entries.values() if _is_burst(entry) and entry.pod == pod], pod)

    # -- what BE is held at --------------------------------------------------------------------------------------------------

    def _decisive(self, action: Action, be: BeGroups) -> frozenset[str]:
        """The files of which one is enough for what BE is to be held at to be in force."""
        if isinstance(action, SetBeCpuLimit):
            return frozenset(str(quota_file(cpu_version(self._kernel), group)) for group in be.holders)
        return frozenset(str(cpus_file(group)) for group in be.holders) if isinstance(action, SetBeCpuset) else frozenset()

    def _set_limit(self, action: SetBeCpuLimit, cycle: _Cycle) -> list[Receipt]:
        before = self._ledger.be_limit
        self._ledger.be_limit = action.cores
        self._limit.forget()
        receipts = self._hold_limit(cycle)
        if before is not None and before < action.cores and not _holds(receipts, self._decisive(action, cycle.be)):
            # The engine takes the old one for the one in force: a fall may come late, a rise that nobody asks for any more must not.
            self._ledger.be_limit = before
        return receipts

    def _set_cpus(self, action: SetBeCpuset, cycle: _Cycle) -> list[Receipt]:
        if refused := self._be_cpus.refused(cycle.be):
            return refused
        before = self._ledger.be_cpus
        self._ledger.be_cpus = action.cpus
        self._cpus.forget()
        receipts = self._hold_cpus(cycle)
        if not _holds(receipts, self._decisive(action, cycle.be)):
            # The engine goes on with the old ones, or with a quota: these must not come late.
            self._ledger.be_cpus = before
        return receipts

    def _hold_limit(self, cycle: _Cycle) -> list[Receipt]:
        """Write the BE limit where it is to be written now, and put back where it no longer is."""
        cores, be = self._ledger.be_limit, cycle.be
        divided = {} if cores is None else self._be_limit.divide(cores, be, cycle.usage, cycle.now)

        def work(groups: Collection[str]) -> dict[str, Family | Receipt]:
            return {group: self._be_limit.family(group, divided[group], be.holders[group]) for group in groups}

        return self._limit.keep((divided, be), divided, work, cycle.now)

    def _hold_cpus(self, cycle: _Cycle) -> list[Receipt]:
        exclusive, text = frozenset(cycle.standing.exclusive_cpus), self._ledger.be_cpus
        try:
            wanted = None if text is None else parse_cpus(text)
        except ValueError as error:
            self._ledger.be_cpus = None
            return [Receipt(target=CPUS_NAME, result=Result.REFUSED, detail=str(error))]

        def work(groups: Collection[str]) -> dict[str, Family | Receipt]:
            self._hands.carry_out(self._be_cpus.newborn())
            return self._be_cpus.families(wanted, exclusive, groups, cycle.be)

        return self._cpus.keep((wanted, exclusive, cycle.be), cycle.be.holders, work, cycle.now)

    def _store(self) -> list[Receipt]:
        try:
            self._ledger.flush()
        except OSError as error:
            return [Receipt(target="journal", result=Result.REFUSED, detail=f"the journal cannot be written: {error}")]
        return []

    def own_limit(self, group: str) -> float | None:
        """The CPU limit in cores that a group had before we changed it (infinity: none); None: we have not."""
        if quota_file(cpu_version(self._kernel), group) not in self._ledger.entries:
            return None
        found = group_limit(self._kernel, self._ledger, group)
        return None if isinstance(found, Trouble) else found.own.cores

    def allowed_cpus(self, groups: Collection[str]) -> frozenset[int]:
        """The CPUs that all these BE groups may have, our sets left aside; empty: not known, or none."""
        return self._be_cpus.allowed(groups)

    def knobs(self) -> tuple[Knob, ...]:
        """How each standing property stands in the kernel; empty before the first cycle."""
        return (*self._batch.knobs, *self._services.knobs)

    # -- from start to stop --------------------------------------------------------------------------------------------------

    def adopt(self) -> Adopted:
        """Take over what a predecessor of this boot left, where it still holds; end its bursts, write nothing else. Raises JournalError."""
        record = self._ledger.load()
        if record is None:
            return Adopted()
        receipts: list[Receipt] = []
        for entry in record.entries:
            if not sound(entry):
                detail = f"left alone: what the journal holds of it is not understood (original {entry.original!r})"
                receipts.append(Receipt(target=str(entry.file), result=Result.FAILED, pod=entry.pod, detail=detail))
                continue
            text = self._hands.present(entry)
            if isinstance(text, Trouble):
                receipts.append(Receipt(target=str(entry.file), result=text.result, pod=entry.pod, detail=text.detail))
                if text.result is not Result.GONE:
                    self._ledger.entries[entry.file] = entry
            elif holds_ours(entry, text):
                self._ledger.entries[entry.file] = replace(entry, written=(text,))
            else:
                detail = f"left alone: holds {text!r}, not ours ({entry.written[-1]!r})"
                receipts.append(Receipt(target=str(entry.file), result=Result.DRIFTED, pod=entry.pod, after=text, detail=detail))
        for scores in record.oom:
            if inside(scores.group):
                self._oom.adopt(scores)
            else:
                detail = "left alone: the journal names no group below the cgroup root"
                receipts.append(Receipt(target=plain(f"oom_score_adj of {scores.group or '/'}"), result=Result.FAILED, detail=detail))
        self._ledger.be_limit, self._ledger.be_cpus = record.be_limit, record.be_cpus
        receipts += self._end_bursts()
        return Adopted(state=record.state, be_limit=record.be_limit, be_cpus=record.be_cpus, receipts=tuple(receipts))

    def _end_bursts(self) -> tuple[Receipt, ...]:
        """Put the own limits of all LS pods back."""
        pods = sorted({entry.pod for entry in self._ledger.entries.values() if _is_burst(entry) and entry.pod is not None})
        return tuple(receipt for pod in pods for receipt in self._end_burst(pod))

    def leave(self, lease: float = LEASE, state: bytes | None = None) -> tuple[Receipt, ...]:
        """A clean stop: bursts end; BE limits stay for `lease` seconds, for a successor. OSError is a receipt."""
        receipts = self._end_bursts()
        try:
            self._ledger.save(lease=lease, state=state)
        except OSError as error:
            return (*receipts, Receipt(target="journal", result=Result.FAILED, detail=f"the journal cannot be written: {error}"))
        return receipts

    def restore_all(self) -> tuple[Receipt, ...]:
        """Put every original back; what cannot be stays in the journal."""
        self._hands.carry_out(self._be_cpus.newborn())
        receipts = self._hands.put_back(list(self._ledger.entries.values()))
        for group in sorted(self._ledger.oom):
            receipts += self._oom.put_back(group)
        self._ledger.be_limit = self._ledger.be_cpus = None
        self._limit.forget()
        self._cpus.forget()
        self._batch.forget()
        return (*receipts, *self._store())


def target(action: Action) -> str:
    """The name of what an action is about: its pod, or all of BE."""
    pod: str | None = getattr(action, "pod", None)
    return pod or "BE"


def _answers(index: int, action: Action, receipts: list[Receipt], decisive: frozenset[str]) -> list[Receipt]:
    """Mark receipts as an action's. What some pods' groups hold BE at is in force: those that cannot are told of by themselves."""
    in_part = isinstance(action, SetBeCpuLimit | SetBeCpuset) and _holds(receipts, decisive)
    return [receipt if in_part and _troubled(receipt) else replace(receipt, action=index) for receipt in receipts]


def _nothing_to_do(action: Action) -> Receipt:
    pod = getattr(action, "pod", None)
    return Receipt(target=target(action), result=Result.UNCHANGED, pod=pod, detail="no file has to change")


def _holds(receipts: list[Receipt], decisive: frozenset[str]) -> bool:
    """Whether a value is in force: one of the decisive files holds it, or nothing stood in the way."""
    held = any(receipt.target in decisive and receipt.result in (Result.APPLIED, Result.UNCHANGED) for receipt in receipts)
    return held or not any(_troubled(receipt) for receipt in receipts)


def _is_burst(entry: JournalEntry) -> bool:
    """Whether an entry is of a file of an LS pod's raised limit."""
    return entry.pod is not None and not entry.protects


def _is_raised_for(entry: JournalEntry, workloads: Mapping[str, Workload]) -> bool:
    """Whether the pod of an entry still is an LS pod with this group."""
    workload = workloads.get(entry.pod or "")
    return workload is not None and is_latency_sensitive(workload.qos) and f"{entry.file.group}/".startswith(f"{workload.cgroup}/")


def _troubled(receipt: Receipt) -> bool:
    return receipt.result in (Result.REFUSED, Result.FAILED)


def _news(receipt: Receipt) -> bool:
    return receipt.result is not Result.UNCHANGED


def _done(receipt: Receipt) -> bool:
    return receipt.result is Result.APPLIED
