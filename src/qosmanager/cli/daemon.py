"""The agent as a process: reload, signals, log, and how it leaves (specification, sections 6, 7 and 9).

In: the parts that cli/run.py wired together. Out: cycles until a signal, then either every original back or BE limits on a lease.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from qosmanager.cli.signals import Signals
from qosmanager.config.parse import Labels, load_settings
from qosmanager.config.settings import Settings
from qosmanager.documents.files import read_kept_text
from qosmanager.documents.problem import DocumentError, read_all
from qosmanager.documents.workloads import load_workloads
from qosmanager.engine.runner import Runner
from qosmanager.execute.actuator import Actuator
from qosmanager.execute.resource_executor import Adopted
from qosmanager.http.board import Board
from qosmanager.linux.lock import LockHeldError
from qosmanager.model.actions import Receipt, Result
from qosmanager.model.count import counted
from qosmanager.model.cpu_list import parse_cpus
from qosmanager.model.qos import Plugin
from qosmanager.model.record import CycleRecord
from qosmanager.model.state import State
from qosmanager.model.workload import WorkloadRule
from qosmanager.views.log_lines import Severity, log_lines, pairs

_LOG = logging.getLogger("qosmanager")
_NOT_BACK = (Result.FAILED, Result.REFUSED)


class Mark(NamedTuple):
    """What changes when a file does. `swapped`: where a link beside it leads that is swapped as one (a mounted ConfigMap), "": none."""

    inode: int
    size: int
    changed: int
    swapped: str


def _unlabelled() -> Labels | None:
    """The node's labels where no cluster tells them."""


class Written(NamedTuple):
    """What a person has written, read: see `Sources`."""

    settings: Settings
    rules: tuple[WorkloadRule, ...]
    shadow: Settings | None


class Seen(NamedTuple):
    """What is told from what it was before: a mark for each file that a person writes (None: it is not there), and the node's labels."""

    marks: tuple[Mark | None, ...]
    labels: Labels | None


class Sources(Struct, frozen=True):
    """The files that a person writes: the configuration (None: the defaults), the workload files, and another configuration that is only
    decided (None: none is). `labels` tells the node's labels, by which nodeStrategies are chosen (None: not known)."""

    config: Path | None
    workloads: tuple[Path, ...]
    shadow: Path | None = None
    labels: Callable[[], Labels | None] = _unlabelled

    def settings(self) -> Settings:
        """Read the configuration. Raises DocumentError."""
        return Settings() if self.config is None else _read_settings(self.config, self.labels())

    def shadow_settings(self) -> Settings | None:
        """Read the other configuration. Raises DocumentError."""
        return None if self.shadow is None else _read_settings(self.shadow, self.labels())

    def read(self) -> Written:
        """Read all of it. Raises DocumentError with the problems of all files."""
        files = (partial(_read_rules, path) for path in self.workloads)
        settings, shadow, *rules = read_all(self.settings, self.shadow_settings, *files)
        return Written(settings, tuple(chain.from_iterable(rules)), shadow)

    def seen(self) -> Seen:
        """Return what changes when a file or the labels do."""
        return Seen(tuple(_mark(path) for path in (self.config, self.shadow, *self.workloads) if path is not None), self.labels())


class ObservedSources(Sources, frozen=True):
    """The same for a dry run."""

    def settings(self) -> Settings:
        return Sources.settings(self).observing()

    def shadow_settings(self) -> Settings | None:
        """Read the other configuration: compared with one that only observes, it observes too. Raises DocumentError."""
        settings = Sources.shadow_settings(self)
        return None if settings is None else settings.observing()


class Reporter:
    """Tells of each cycle: in the log, and on the board that HTTP reads."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._previous: CycleRecord | None = None

    def cycle_done(self, record: CycleRecord, settings: Settings) -> None:
        for severity, line in log_lines(record, self._previous):
            _LOG.log(severity, line)
        self._board.publish(record, settings)
        self._previous = record

    def cycle_failed(self, error: Exception) -> None:
        self._board.event("cycle_failed", "node", f"{type(error).__name__}: {error}")


class ProblemWatch:
    """Says what of the declarations and of the node cannot be followed, once when it begins and once when it is over."""

    def __init__(self, board: Board, problems: Callable[[], tuple[str, ...]]) -> None:
        self._board = board
        self._problems = problems
        self._known: dict[str, str] = {}

    def look(self) -> None:
        problems = {_concern(problem): problem for problem in self._problems()}
        if problems.keys() == self._known.keys():
            return
        for concern, problem in problems.items():
            if concern not in self._known:
                _LOG.warning(pairs("Problem", problem=problem))
                self._board.event("problem", "declarations", problem)
        for concern, problem in self._known.items():
            if concern not in problems:
                _LOG.info(pairs("ProblemOver", problem=problem))
        self._known = problems


class StateKeeper:
    """Sees that lock and journal are there: without them a kill would leave limits that nobody knows of, or a second agent come."""

    def __init__(self, renew: Callable[[], bool], again: Callable[[], None]) -> None:
        """`renew`: see `Acting`; `again` writes down whatever else others look for in the state directory."""
        self._renew = renew
        self._again = again
        self._fault = ""

    def look(self) -> None:
        try:
            if self._renew():
                _LOG.warning(pairs("StateRenewed", problem="somebody removed the lock or the journal; they are there again"))
                self._again()
            fault = ""
        except (OSError, LockHeldError) as error:
            fault = str(error)
        if fault and fault != self._fault:
            _LOG.error(pairs("StateLost", problem=fault))
        self._fault = fault


def _concern(problem: str) -> str:
    """Return who has which problem, without the words of a source that tells it differently each time ("shop/api: URL: words")."""
    return ": ".join(problem.split(": ")[:2])


class Reloader:
    """Takes the files anew after SIGHUP or when one has changed; a refused file leaves what is in force in force."""

    def __init__(
        self,
        sources: Sources,
        board: Board,
        use_settings: Callable[[Settings], None],
        use_rules: Callable[[tuple[WorkloadRule, ...]], None],
        begins: Callable[[], None],
    ) -> None:
        """`begins` is told that the files are about to be read anew, whatever comes of it. Set `use_shadow` where there is somebody to take
        another configuration anew, `refused` where somebody else is to hear of a file that is refused, and `in_force` to what was seen
        before they were read first: what changed since then is a change."""
        self.use_shadow: Callable[[Settings], None] | None = None
        self.refused: Callable[[str], None] | None = None
        self._begins = begins
        self._sources = sources
        self._board = board
        self._use_settings = use_settings
        self._use_rules = use_rules
        self.in_force = self._last = sources.seen()
        self.asked = False

    def look(self) -> None:
        """Reload when asked to, when the node's labels have changed, or when a file has and is whole."""
        seen = self._sources.seen()
        whole, self._last = all(map(_is_whole, self._last.marks, seen.marks)), seen
        if not self.asked and seen.labels == self.in_force.labels and (seen.marks == self.in_force.marks or not whole):
            return
        self.asked, self.in_force = False, seen
        self._begins()
        try:
            settings, rules, shadow = self._sources.read()
        except DocumentError as error:
            for problem in error.problems:
                _LOG.error(pairs("ReloadRefused", problem=problem))
            text = "; ".join(str(problem) for problem in error.problems)
            self._board.event("reload_refused", "configuration", text)
            if self.refused is not None:
                self.refused(text)
            return
        self._use_settings(settings)
        self._use_rules(rules)
        if self.use_shadow is not None and shadow is not None:
            self.use_shadow(shadow)
        _LOG.info(pairs("Reloaded", workloads=len(rules)))
        self._board.event("reloaded", "configuration", counted(len(rules), "workload declaration"))


def taken_over(adopted: Adopted, now: float, settings: Settings, *, evicted: bool) -> State:
    """Return the state to go on with after a predecessor: its own where it left one, with what is really in force in it. `now`: monotonic
    seconds; `evicted`: whether one has evicted anybody since the machine started.

    Its bursts are ended, and may not begin again before their cooldown is over. One that has evicted and left no state, for it was killed
    or put all back, may have done so for the CPU a moment ago: that cools down too. Nobody drives its evictions any more: a victim that is
    still here is a pod like any other.
    """
    left = State()
    if evicted:
        left = State(cooldown_until={Plugin.CPU_EVICT.value: now + settings.cpu_evict.evict_cooldown})
    if adopted.state is not None:
        try:
            left = msgspec.json.decode(adopted.state, type=State)
        except msgspec.DecodeError:
            _LOG.warning(pairs("Adopt", problem="the predecessor's state cannot be read; starting afresh with its limits"))
    ended = {burst.pod for burst in left.bursts if not burst.observed} | {receipt.pod for receipt in adopted.receipts if receipt.pod}
    cooling = left.burst_cooldown_until | dict.fromkeys(sorted(ended), now + settings.cpu_burst.burst_cooldown)
    state = replace(left, burst_cooldown_until=cooling, bursts=(), watches=(), pending=(), terminating_since={}, be_observed=False)
    if left.be_observed:
        # What was only observed has not held BE, and is not "suppression was tried".
        state = replace(state, suppress_level=None, suppress_since=None, below_since=None, floor_since=None)
        state = replace(state, objective=left.objective.of_services())
    return replace(state, be_limit=_limit_in_force(adopted, left), be_cpus=adopted.be_cpus)


def _limit_in_force(adopted: Adopted, left: State) -> float | None:
    """Return the cores that BE has: under policy cpuset the CPUs alone say so, and only the state knows the limit they stand for."""
    if adopted.be_limit is not None or adopted.be_cpus is None:
        return adopted.be_limit
    if left.be_cpus == adopted.be_cpus and left.be_limit is not None and not left.be_observed:
        return left.be_limit
    try:
        return float(len(parse_cpus(adopted.be_cpus)))
    except ValueError:
        return None  # the hands refuse such a set, and say so


def run_until_signal(runner: Runner, signals: Signals, reloader: Reloader, looks: tuple[Callable[[], None], ...]) -> int:
    """Run cycles until SIGTERM or SIGINT; SIGHUP reloads; `looks` are called after each cycle. Return the signal's number."""

    def between() -> None:
        reloader.asked, signals.reload_asked = reloader.asked or signals.reload_asked, False
        reloader.look()
        for look in looks:
            look()

    signals.stop(runner)
    runner.run(between)
    return signals.caught


def leave(actuator: Actuator, on_stop: str, state: State) -> bool:
    """Stop as section 9 says; tell whether all went well."""
    if on_stop == "lease":
        receipts = actuator.leave(state=msgspec.json.encode(state))
        _log_receipts("Leave", receipts)
        return not any(receipt.result in _NOT_BACK for receipt in receipts)
    receipts = actuator.restore_all()
    _log_receipts("Restore", receipts)
    return not any(receipt.result in _NOT_BACK for receipt in receipts)


def _log_receipts(event: str, receipts: tuple[Receipt, ...]) -> None:
    back = sum(receipt.result in (Result.APPLIED, Result.UNCHANGED) for receipt in receipts)
    for receipt in receipts:
        if receipt.result in _NOT_BACK or receipt.result is Result.DRIFTED:
            _LOG.log(Severity.WARNING, pairs(event, target=receipt.target, result=receipt.result.value, detail=receipt.detail))
    if receipts:  # a run that wrote nothing, such as a dry one, has nothing to tell
        _LOG.info(pairs(event, files=len(receipts), back=back))


def _read_settings(path: Path, labels: Labels | None) -> Settings:
    return load_settings(read_kept_text(path), str(path), labels)


def _read_rules(path: Path) -> tuple[WorkloadRule, ...]:
    return load_workloads(read_kept_text(path), str(path))


def _mark(path: Path) -> Mark | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return Mark(status.st_ino, status.st_size, status.st_mtime_ns, _swapped(path))


def _swapped(path: Path) -> str:
    """Return where kubelet's link leads: it writes a volume's files into a new directory and then swaps the link to it."""
    try:
        return os.readlink(path.parent / "..data")
    except OSError:
        return ""


def _is_whole(before: Mark | None, now: Mark | None) -> bool:
    """Whether a file can be read as it is: a file that is being written may be empty for a moment, which would be a valid one (no pods, all
    defaults); so it has to have stood still for one look, unless it came to be as one by a link."""
    if now is None or before is None or now == before:
        return now == before
    return now.swapped not in ("", before.swapped)
