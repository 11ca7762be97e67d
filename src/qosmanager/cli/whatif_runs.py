"""The simulated runs of `qosmanager whatif`, each in a process of its own. No other command needs them.

In: what each run is to do. Out: what each came to, in the same order; how many run at one time changes nothing in it.
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

    return Done(simulate(work.observed, work.run, work.seed, watch), track)


def _track(title: str | None) -> Track | None:
    if title is None:
        return None
    from qosmanager.report.track import Track  # noqa: PLC0415 - an extra

    return Track(title)


class _Processes:
    """A process for each run, some of them at one time. Each tells by a pipe how far it is, and at last what came of it."""

    def __init__(self, works: Sequence[Work], jobs: int, moved: Moved) -> None:
        self._works = works
        self._jobs = jobs
        self._moved = moved
        self._running: dict[Connection, tuple[int, SpawnProcess]] = {}

    def results(self) -> list[Done]:
        waiting = deque(range(len(self._works)))
        done: dict[int, Done] = {}
        try:
            while len(done) < len(self._works):
                while waiting and len(self._running) < self._jobs:
                    self._start(waiting.popleft())
                for pipe in wait(list(self._running)):
                    if isinstance(pipe, Connection):
                        self._hear(pipe, done)
        finally:
            for _, process in self._running.values():
                process.kill()
                process.join()
        return [done[number] for number in range(len(self._works))]

    def _start(self, number: int) -> None:
        reader, writer = _SPAWN.Pipe(duplex=False)
        process = _SPAWN.Process(target=_child, args=(writer, self._works[number]), daemon=True)
        with _interrupt_for_parent():
            process.start()
            self._running[reader] = number, process
        writer.close()  # the child has the only other end: when it ends, the pipe does

    def _hear(self, pipe: Connection, done: dict[int, Done]) -> None:
        number, process = self._running[pipe]
        try:
            told = pipe.recv()
        except EOFError:
            process.join()
            raise CannotRunError(f"{self._named(number)} {_ending(process.exitcode)}", code=1) from None
        if isinstance(told, float):
            self._moved(told)
        elif isinstance(told, Done):
            done[number] = told
            process.join()
            pipe.close()
            del self._running[pipe]
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


def _child(pipe: Connection, work: Work) -> None:
    with suppress(BrokenPipeError):  # nobody waits for it any more, so it ends
        try:
            pipe.send(_do(work, pipe.send))
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told where somebody reads it
            pipe.send(f"{type(error).__name__}: {error}")
