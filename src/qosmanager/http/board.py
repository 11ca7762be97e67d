"""What the cycle's thread hangs out for the server's thread to read.

In: each finished cycle's record, and events that no record holds. Out: the latest record, decisions, metrics, the loop's health.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct

from qosmanager.config.settings import Settings
from qosmanager.http.answers import Health
from qosmanager.model.record import CycleRecord
from qosmanager.views.beside import Beside
from qosmanager.views.decisions import Decisions
from qosmanager.views.metrics import Metrics
from qosmanager.views.reports import paused_text
from qosmanager.views.status import About

MISSED_PERIODS = 5  # a loop that has finished no cycle for so many periods is not healthy


class Latest(Struct, frozen=True):
    """The last cycle, the settings it ran under, and when it was hung out (monotonic seconds)."""

    record: CycleRecord
    settings: Settings
    at: float


class Board:
    """One writer (the loop), any number of readers. The reference to the latest cycle is swapped whole."""

    def __init__(self, about: About, settings: Settings) -> None:
        self.about = about
        self.decisions = Decisions()
        self.metrics = Metrics(about, settings)
        self._settings = settings
        self._started = time.monotonic()
        self._latest: Latest | None = None

    @property
    def beside(self) -> Beside:
        """What runs beside the cycles."""
        return self.metrics.beside()

    def show(self, beside: Callable[[], Beside]) -> None:
        """From now on, ask this for what runs beside the cycles; asked from any thread."""
        self.metrics.beside = beside

    @property
    def latest(self) -> Latest | None:
        """The last finished cycle; None before the first."""
        return self._latest

    def publish(self, record: CycleRecord, settings: Settings) -> None:
        """Hang out a finished cycle."""
        self.metrics.settings = self._settings = settings
        self.metrics.observe(record)
        self.decisions.observe(record)
        self._latest = Latest(record, settings, time.monotonic())

    def event(self, kind: str, about: str, reason: str) -> None:
        """Hang out something that no cycle's record holds, for example ("reload_refused", path, what is wrong)."""
        self.metrics.event(kind)
        self.decisions.event(time.time(), kind, about, reason)

    def health(self) -> Health:
        """Tell whether the loop runs: some cycle finished within the last 5 periods (or the agent has just started)."""
        latest = self._latest
        age = time.monotonic() - (latest.at if latest else self._started)
        allowed = MISSED_PERIODS * self._settings.sync_period
        what = f"cycle {latest.record.number} finished" if latest else "started, no cycle finished yet,"
        return Health(age <= allowed, f"{what} {age:.1f} s ago, allowed {allowed:.1f} s")

    def readiness(self) -> Health:
        """Tell whether decisions rest on fresh data: the loop runs, the node's sample is fresh. A paused agent is ready, and says so."""
        latest, health = self._latest, self.health()
        if latest is None or not health.ok:
            return Health(False, health.reason)
        snapshot, limit = latest.record.snapshot, latest.settings.stale_after
        if snapshot.node.cpu_usage is None:
            return Health(False, snapshot.missing.get("node.cpu_usage", "the node's CPU usage is not measured"))
        fresh = snapshot.node_age <= limit
        paused = f"paused {paused_text(latest.record)}; " if snapshot.paused else ""
        return Health(fresh, f"{paused}node sample is {snapshot.node_age:.1f} s old, allowed {limit:.1f} s")
