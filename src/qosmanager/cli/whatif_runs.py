"""The simulated runs of `qosmanager whatif`, side by side in processes of their own. No other command needs them.

In: what each run is to do. Out: what each came to, in the same order; how many run at one time changes nothing in it. The standard pools do
not do: multiprocessing's waits for ever for a process that was killed, and that of concurrent.futures ends no run that has begun.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import TYPE_CHECKING

from msgspec import Struct

from qosmanager.cli.errors import CannotRunError
from qosmanager.cli.report_page import follow
from qosmanager.simulate.run import Cycle
from qosmanager.simulate.tally import Totals
from qosmanager.whatif.compare import Run, simulate
from qosmanager.whatif.demand import Observed

if TYPE_CHECKING:
    from qosmanager.report.track import Track

_TOLD = 200  # cycles after which a run says how far it is
_SPAWN = multiprocessing.get_context("spawn")  # a bar that is drawn has a thread, which a fork would break

Moved = Callable[[float], None]
"""Is told of so many more simulated seconds."""


class Work(Struct, frozen=True, kw_only=True):
    """One run to do. `track`: title of the track to draw of it; None: it is not drawn."""

    observed: Observed
    run: Run
    seed: int
    track: str | None = None


class Done:
    """What a run came to, and its track, if it was to be drawn."""

    def __init__(self, totals: Totals, track: Track | None) -> None:
        self.totals = totals
        self.track = track


def do_all(works: Sequence[Work], jobs: int, moved: Moved) -> list[Done]:
    """Do all runs, `jobs` of them at one time. Raises CannotRunError when one of several at a time ends before it is done. However this is
    left, no process stays behind."""
    if jobs == 1:
        return [_do(work, moved) for work in works]
    return _Processes(works, jobs, moved).results()


def _do(work: Work, moved: Moved) -> Done:
    track = _track(work.track)
    cycles, seconds = 0, 0.0

    def watch(cycle: Cycle) -> None:
        nonlocal cycles, seconds
        cycles += 1
        seconds += cycle.truth.seconds
        if track is not None:
            follow(track, cycle, work.observed.memory)
        if cycles % _TOLD == 0:
            moved(seconds)
            seconds = 0.0

    totals = simulate(work.observed, work.run, work.seed, watch)
    moved(seconds)
    return Done(totals, track)


def _track(title: str | None) -> Track | None:
    if title is None:
        return None
    from qosmanager.report.track import Track  # noqa: PLC0415 - an extra

    return Track(title)


class _Processes:
    """Some processes that do one run after the other. Each tells by its pipe how far it is, and at last what came of the run."""

    def __init__(self, works: Sequence[Work], jobs: int, moved: Moved) -> None:
        self._works = works
        self._jobs = min(jobs, len(works))
        self._moved = moved
        self._waiting = deque(range(len(works)))
        self._processes: dict[Connection, SpawnProcess] = {}
        self._at_work: dict[Connection, int] = {}
        self._done: dict[int, Done] = {}

    def results(self) -> list[Done]:
        try:
            for pipe in [self._started() for _ in range(self._jobs)]:
                self._give(pipe)  # which waits until the process has begun: all others have, meanwhile
            while self._at_work:
                for end in wait(list(self._at_work)):
                    if isinstance(end, Connection):
                        self._hear(end)
        finally:
            for pipe, process in self._processes.items():
                process.kill()
                process.join()
                pipe.close()
        return [self._done[number] for number in range(len(self._works))]

    def _started(self) -> Connection:
        pipe, its_end = _SPAWN.Pipe()
        process = _SPAWN.Process(target=_child, args=(its_end,), daemon=True)
        with _interrupt_for_parent():
            process.start()
            self._processes[pipe] = process
        its_end.close()  # the child has the only one: when it ends, the pipe does
        return pipe

    def _give(self, pipe: Connection) -> None:
        """Give a process the next run that waits, if there is one."""
        if self._waiting:
            self._at_work[pipe] = self._waiting.popleft()
            with suppress(ConnectionError):  # it is gone; that is heard next
                pipe.send(self._works[self._at_work[pipe]])

    def _hear(self, pipe: Connection) -> None:
        number = self._at_work[pipe]
        try:
            told = pipe.recv()
        except (EOFError, ConnectionError):
            process = self._processes[pipe]
            process.join()
            raise CannotRunError(f"{self._named(number)} {_ending(process.exitcode)}", code=1) from None
        if isinstance(told, float):
            self._moved(told)
        elif isinstance(told, Done):
            self._done[number] = told
            del self._at_work[pipe]
            self._give(pipe)
        else:
            raise CannotRunError(f"{self._named(number)} failed: {told}; with --jobs 1 it says where", code=1)

    def _named(self, number: int) -> str:
        run = self._works[number].run
        return f"the run of {run.name!r} with the demand of case `{run.bound.value}`"


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"was ended by signal {-code} before it was done; if memory is short, fewer --jobs take less"
    return f"ended with exit code {code} before it was done"


@contextmanager
def _interrupt_for_parent() -> Iterator[None]:
    """Start a process with Ctrl-C held back, for good there and for a moment here: of the two only this one says so, and ends the other."""
    resource_tracker.ensure_running()  # it would let Ctrl-C through again where it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _child(pipe: Connection) -> None:
    with suppress(EOFError, ConnectionError):  # nobody waits for it any more, so it ends
        while True:
            pipe.send(_answer(pipe.recv(), pipe.send))


def _answer(work: Work, moved: Moved) -> Done | str:
    """Do a run; what it failed with is told where somebody reads it."""
    try:
        return _do(work, moved)
    except ConnectionError:
        raise
    except Exception as error:  # noqa: BLE001 - as above, whatever it is
        return f"{type(error).__name__}: {error}"
