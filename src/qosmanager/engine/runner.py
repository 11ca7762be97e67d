"""The pace: a cycle each period until told to stop, settings taken anew when they change (specification, sections 2 and 6)."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import Protocol

from qosmanager.config.settings import Settings
from qosmanager.engine.cycle import Edge, Turn, run_cycle
from qosmanager.engine.fast_path import FastPath, Silence, Ways
from qosmanager.model.fast_path import FastPathUse
from qosmanager.model.record import CycleRecord
from qosmanager.model.state import State
from qosmanager.model.workload import Placement
from qosmanager.ports import Jump

_LOG = logging.getLogger("qosmanager")
_CYCLE, _BETWEEN = "cycle failed, limits stay as they are", "what is done between cycles failed, they go on"
_FREEZE_AFTER = 10  # cycles: by then what lives as long as the agent is there


class Listener(Protocol):
    """Who is told of each cycle; called between cycles, so it must be quick."""

    def cycle_done(self, record: CycleRecord, settings: Settings) -> None: ...

    def cycle_failed(self, error: Exception) -> None: ...


class Runner:
    """Runs cycles on the caller's thread. `stop` and `use` may be called from any thread or signal handler."""

    def __init__(self, edge: Edge, settings: Settings, state: State, listener: Listener, ways: Ways | None = None) -> None:
        """`ways`: what the fast path reaches; None: each cycle comes in its turn."""
        self._fast = FastPath(ways or Ways(Silence(), lambda: Placement(workloads={}), lambda _: None), edge.clock, edge.hands.unsettled)
        self._edge = edge
        self._settings = settings
        self._listener = listener
        self._stopping = False
        self._last_errors: dict[str, str] = {}
        self._due: float | None = None  # when the next cycle should begin; None: at any time
        self.state = state
        self.number = 0

    def stop(self) -> None:
        """Let the cycle that runs end, and begin no other."""
        self._stopping = True
        self._fast.wake()

    def use(self, settings: Settings) -> None:
        """Take other settings from the next cycle on."""
        self._settings = settings

    def run(self, between: Callable[[], None]) -> None:
        """Run until `stop`. `between` is called after each cycle (reload, housekeeping)."""
        clock = self._edge.clock
        due = clock.monotonic()
        frozen = False
        while not self._stopping:
            self.once()
            self._look_around(between)
            if not frozen and self.number >= _FREEZE_AFTER:
                frozen = True
                # What has survived so far is there to stay: full collections then need not walk it in the middle of a cycle.
                gc.collect()
                gc.freeze()
            due += self._settings.sync_period
            self._due = due
            # Missed cycles are not made up for: the next one begins at once, and the schedule anew from it.
            due = max(due, clock.monotonic())
            while not self._stopping and (jump := self._fast.wait(due)) is not None:
                self.once(jump)

    def once(self, jump: Jump | None = None) -> CycleRecord | None:
        """Run one cycle, before its turn because of `jump`; None when it failed. A failure is reported once until it changes or a cycle
        succeeds."""
        settings = self._settings
        self.number += 1
        turn = Turn(number=self.number, lag=self._lag()) if jump is None else Turn(number=self.number, cause=jump.reason)
        self._fast.began()
        try:
            record = run_cycle(self._edge, turn, self.state, settings)
            self.state = record.state
            self._listener.cycle_done(record, settings)
            self._fast.after(record, settings)
        except Exception as error:  # noqa: BLE001  whatever fails, the next cycle runs and limits that are set stay
            self._fast.failed()
            self._fail(_CYCLE, error)
            return None
        self._last_errors.pop(_CYCLE, None)
        return record

    @property
    def fast_path(self) -> FastPathUse:
        """What the fast path does and costs; from any thread."""
        return self._fast.use

    def _lag(self) -> float:
        """Return how late this cycle begins, in seconds."""
        return 0.0 if self._due is None else max(0.0, self._edge.clock.monotonic() - self._due)

    def _look_around(self, between: Callable[[], None]) -> None:
        try:
            between()
        except Exception as error:  # noqa: BLE001  an agent that ends here would leave its limits behind with nobody to lift them
            self._fail(_BETWEEN, error)
        else:
            self._last_errors.pop(_BETWEEN, None)

    def _fail(self, what: str, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        if text != self._last_errors.get(what):
            _LOG.error('msg="%s" cycle=%d error=%s', what, self.number, text, exc_info=error)
        self._last_errors[what] = text
        self._listener.cycle_failed(error)
