"""What the service manager is told of the cycles: ready with the first, alive as long as they really finish (sd_notify(3))."""

from __future__ import annotations

import time
from typing import Protocol

from qosmanager.config.settings import Settings
from qosmanager.engine.runner import Listener
from qosmanager.http.board import MISSED_PERIODS
from qosmanager.model.count import counted
from qosmanager.model.record import CycleRecord
from qosmanager.views.figures import short

_SIGNS = 4  # of life in the time that the manager waits for one


class Manager(Protocol):
    """The service manager."""

    @property
    def watchdog(self) -> float | None: ...

    def ready(self, status: str) -> None: ...

    def reloading(self) -> None: ...

    def alive(self, status: str) -> None: ...

    def allow(self, seconds: float) -> None: ...


class Supervised:
    """Passes each cycle on to a listener, and tells the service manager. A failed cycle is no sign of life."""

    def __init__(self, listener: Listener, manager: Manager) -> None:
        self._listener = listener
        self._manager = manager
        self._longest = manager.watchdog or 0.0
        self._ready = False
        self._due = 0.0
        self._told = ""

    def cycle_done(self, record: CycleRecord, settings: Settings) -> None:
        self._listener.cycle_done(record, settings)
        now, news = time.monotonic(), _news(record)
        status = f"cycle {record.number}: {news}"
        if not self._ready:
            self._ready = True
            # As patient as /healthz, for a period may be longer than what the unit says.
            self._manager.allow(max(self._longest, MISSED_PERIODS * settings.sync_period))
            self._manager.ready(status)
        if now >= self._due or news != self._told:
            self._told = news
            self._due = now + (self._manager.watchdog or 40.0) / _SIGNS
            self._manager.alive(status)

    def cycle_failed(self, error: Exception) -> None:
        self._listener.cycle_failed(error)

    def reloading(self) -> None:
        """Tell that the files are read anew; the next finished cycle ends it."""
        self._manager.reloading()
        self._ready = False


def _news(record: CycleRecord) -> str:
    """Return what `systemctl status` shows of a cycle; once it changes it is told at once."""
    state, paused = record.state, "paused, " if record.snapshot.paused else ""
    held = state.be_cpus or (f"{short(state.be_limit)} cores" if state.be_limit is not None else "no limit")
    pods = counted(len(record.snapshot.pods), "pod")
    held += " (only observed)" if state.be_observed else ""
    return f"{paused}level {record.assessment.effective_level.value}, BE {held}, {pods}"
