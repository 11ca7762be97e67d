"""Standing property: the kernel, if it must kill, kills BE processes first (specification, section 5.6).

In: BE groups and the wanted oom_score_adj. Out: receipts, one per group with something raised or refused. Values are only ever raised;
originals are in the journal before that, per process; a process born since of a raised one gets the group's original back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from qosmanager.execute.ledger import Ledger
from qosmanager.execute.tree import below
from qosmanager.execute.writing import GONE
from qosmanager.model.actions import Receipt, Result
from qosmanager.model.count import counted
from qosmanager.model.plain import plain
from qosmanager.ports import KernelFiles, OomEntry

_PERIOD = 10.0  # seconds between two looks for new processes; what a raised one forks is born raised


class OomScores(Protocol):
    """oom_score_adj of processes. Every method raises OSError; ESRCH or ENOENT mean the process is gone."""

    def identity(self, pid: int) -> str:
        """`pid:starttime`, which no later process has."""

    def read(self, pid: int) -> int: ...

    def write(self, identity: str, value: int) -> None:
        """Write, if the process still is the one of this identity; else OSError(ESRCH)."""


class _Raise(Struct, frozen=True):
    """A group's entry as it is to be, and who has a lower score now: identity -> score."""

    entry: OomEntry
    lower: dict[str, int]


def _hierarchies(kernel: KernelFiles) -> list[str]:
    """Where processes are looked for, in this order; a v1 group need not have its processes in each of them."""
    return [name for name in ("memory", "cpu", "cpuacct", "cpuset", "unified") if kernel.version(name) is not None] or ["unified"]


def _holder(kernel: KernelFiles, group: str) -> str:
    """The hierarchy in which a group has processes; the first, while it has none."""
    there = _hierarchies(kernel)
    return next((name for name in there if next(group_pids(kernel, group, name), None) is not None), there[0])


def _controller(kernel: KernelFiles, entry: OomEntry) -> str:
    return entry.controller or _hierarchies(kernel)[0]


def group_pids(kernel: KernelFiles, group: str, controller: str) -> Iterator[int]:
    """Processes of a group and the groups below it; what vanishes meanwhile is left out."""
    for each in (group, *below(kernel, controller, group)):
        try:
            yield from kernel.pids(controller, each)
        except OSError:
            continue


class BeOomScores:
    """Raises the BE processes' oom_score_adj and puts it back."""

    def __init__(self, kernel: KernelFiles, scores: OomScores, ledger: Ledger) -> None:
        self._kernel = kernel
        self._scores = scores
        self._ledger = ledger
        self._seen: dict[str, dict[int, str]] = {}  # group -> pid -> identity, at the last look
        self._due: dict[str, float] = {}  # group -> when it is looked at next
        self._value: int | None = None

    def keep(self, groups: Collection[str], value: int | None, now: float) -> list[Receipt]:
        """Raise what is new in each group, every 10 s; put groups back that are BE no longer."""
        if value != self._value:
            self._value, self._due = value, {}
        stays = set(groups) if value is not None else set()
        receipts = [receipt for group in sorted(self._ledger.oom.keys() - stays) for receipt in self.put_back(group)]
        if value is None:
            return receipts
        known, self._due = self._due, {}
        self._seen = {group: seen for group, seen in self._seen.items() if group in stays}
        found: list[_Raise] = []
        for number, group in enumerate(groups):
            due = known.get(group)
            if due is None or due <= now:
                found += self._look(group, value)
                # Not all in one cycle: a hundred at once would show. On a grid between the cycles, so that they stay spread.
                rounds = 0 if due is None else (now - due) // _PERIOD + 1
                due = now + _PERIOD * (number % 10 + 0.5) / 10 if due is None else due + _PERIOD * rounds
            self._due[group] = due
        return receipts + self._write(found)

    def _look(self, group: str, value: int) -> list[_Raise]:
        """What there is to be raised in a group: one, or nothing."""
        entry = self._ledger.oom.get(group)
        if entry is not None and entry.value != value:
            self.put_back(group)
            if group in self._ledger.oom:
                return []  # some still hold the old value: it must not be taken for their own
            entry = None
        controller = _holder(self._kernel, group) if entry is None else _controller(self._kernel, entry)
        try:
            inode = self._kernel.inode(controller, group)
        except OSError as error:
            if error.errno in GONE and entry is not None:
                self.put_back(group)
            return []
        if entry is not None and entry.inode != inode:
            self.put_back(group)  # made anew, perhaps with its processes elsewhere
            return [] if group in self._ledger.oom else self._look(group, value)
        present = self._present(group, controller)
        last = self._seen.get(group)
        known = set(last.values()) if last is not None else set(entry.processes if entry is not None else ())
        self._seen[group] = present
        new = self._scores_of(set(present.values()) - known)
        lower = {identity: score for identity, score in new.items() if score < value}
        if not lower:
            return []
        if entry is None:
            # A first look: who already is at the value was so before us, and stays so.
            original = min(lower.values())
            entry = OomEntry(group=group, inode=inode, value=value, original=original, processes=new, controller=controller)
        else:
            there = set(present.values())
            kept = {identity: score for identity, score in entry.processes.items() if identity in there}
            entry = replace(entry, processes=kept | lower)
        return [_Raise(entry, lower)]

    def _present(self, group: str, controller: str) -> dict[int, str]:
        """Return who is there. A pid that was there at the last look is taken for the same process: the kernel hands pids out in turn, so
        that in 10 s none comes again."""
        last = self._seen.get(group, {})
        found: dict[int, str] = {}
        for pid in group_pids(self._kernel, group, controller):
            try:
                found[pid] = last.get(pid) or self._scores.identity(pid)
            except (OSError, ValueError):
                continue
        return found

    def _scores_of(self, identities: set[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for identity in sorted(identities):
            try:
                found[identity] = self._scores.read(int(identity.partition(":")[0]))
            except (OSError, ValueError):
                continue
        return found

    def _write(self, found: list[_Raise]) -> list[Receipt]:
        """Raise, all with one save of the journal before it."""
        if not found:
            return []
        before = dict(self._ledger.oom)
        self._ledger.oom |= {each.entry.group: each.entry for each in found}
        try:
            self._ledger.save()
        except OSError as error:
            self._ledger.oom = before
            for each in found:
                self._seen.pop(each.entry.group, None)
            detail = f"nothing was written, because the journal cannot be: {error}"
            return [Receipt(target=_target(each.entry), result=Result.REFUSED, detail=detail) for each in found]
        return [self._raise(each) for each in found]

    def _raise(self, found: _Raise) -> Receipt:
        entry, count = found.entry, len(found.lower)
        refused = [problem for identity in found.lower if (problem := _try(self._scores, identity, entry.value))]
        if refused:
            return Receipt(target=_target(entry), result=Result.REFUSED, detail=f"{len(refused)} of {count}: {refused[0]}")
        original, value = str(entry.original), str(entry.value)
        return Receipt(target=_target(entry), result=Result.APPLIED, before=original, after=value, detail=counted(count, "process"))

    def put_back(self, group: str) -> list[Receipt]:
        """Give a group's processes their own values back, where they still hold ours; what cannot be stays in the journal."""
        receipts = put_back(self._kernel, self._scores, self._ledger.oom[group])
        if not any(receipt.result is Result.FAILED for receipt in receipts):
            del self._ledger.oom[group]
        self._seen.pop(group, None)
        return receipts

    def adopt(self, entry: OomEntry) -> None:
        """Take over what a predecessor raised; a group that is no longer the same is found out at the next look."""
        self._ledger.oom[entry.group] = entry


def put_back(kernel: KernelFiles, scores: OomScores, entry: OomEntry) -> list[Receipt]:
    """Put one group's originals back, compare-and-set. Where the group is no longer the same, processes that were in it may live on in
    others, or in another hierarchy: they are known by their identities."""
    target = _target(entry)
    controller = _controller(kernel, entry)
    try:
        lost = "" if kernel.inode(controller, entry.group) == entry.inode else "the group was made anew"
    except OSError as error:
        if error.errno not in GONE:
            return [Receipt(target=target, result=Result.FAILED, detail=f"the group cannot be looked at: {error.strerror}")]
        lost = "the group is gone"
    pids = (int(each.partition(":")[0]) for each in sorted(entry.processes)) if lost else group_pids(kernel, entry.group, controller)
    problems: list[str] = []
    count = 0
    for pid in pids:
        try:
            identity = scores.identity(pid)
            if scores.read(pid) != entry.value or (lost and identity not in entry.processes):
                continue
        except (OSError, ValueError):
            continue
        original = entry.processes.get(identity, entry.original)
        if original != entry.value:
            count += 1
            problems += [problem] if (problem := _try(scores, identity, original)) else []
    if problems:
        return [Receipt(target=target, result=Result.FAILED, detail=f"{len(problems)} of {count}: {problems[0]}")]
    if lost and not count:
        return [Receipt(target=target, result=Result.GONE, detail=lost)]
    detail = counted(count, "process")
    return [Receipt(target=target, result=Result.APPLIED, before=str(entry.value), after=str(entry.original), detail=detail)]


def _target(entry: OomEntry) -> str:
    return plain(f"oom_score_adj of {entry.group}")


def _try(scores: OomScores, identity: str, value: int) -> str:
    """Write one; return what went wrong, "" also for a process that is gone."""
    try:
        scores.write(identity, value)
    except (FileNotFoundError, ProcessLookupError):
        return ""
    except OSError as error:
        return f"process {identity.partition(':')[0]}: {error.strerror}"
    return ""
