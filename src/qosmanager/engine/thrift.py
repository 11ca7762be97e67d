"""Self-protection: over its own budget the agent reads less, step by step, and comes back step by step.

In: what the process used and how late each cycle began. Out: `OwnUse`, and the step to whoever reads. No clock of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from qosmanager.model.own_use import STEPS, OwnUse
from qosmanager.ports import OwnMeter

CPU = 0.03  # cores, mean of the window
RSS = 256 * 1024 * 1024  # bytes
LAG = 0.5  # periods
WINDOW = 30.0  # seconds over budget until a step is taken
CALM = 60.0  # seconds within it until one is taken back
MOST_CALM = 960.0  # where coming back brought the trouble back, each time twice as long, up to this


class _Look(NamedTuple):
    time: float
    cpu: float  # seconds used so far
    rss: int | None
    lag: float


class Thrift:
    """Looks once a cycle. `spare` is told how many of STEPS are in force whenever that changes."""

    def __init__(self, meter: OwnMeter, spare: Callable[[int], None]) -> None:
        self._meter = meter
        self._spare = spare
        self._looks: deque[_Look] = deque()
        self._step = 0
        self._reason = ""
        self._calm_since: float | None = None
        self._calm = CALM
        self._came_back: float | None = None
        self.last = OwnUse()  # what the last look returned

    def look(self, now: float, lag: float, period: float) -> OwnUse:
        """Take in one cycle that began `lag` seconds late at `now` (monotonic); `period` in seconds."""
        cpu, rss = self._meter.read()
        before = self._looks[-1] if self._looks else None
        self._looks.append(_Look(now, cpu, rss, lag))
        over = self._over(now, period)
        if over:
            self._take_step(over, now)
        elif self._step:
            self._come_back(now)
        used = (cpu - before.cpu) / (now - before.time) if before is not None and now > before.time else None
        self.last = OwnUse(cpu=used, rss=rss, lag=lag, thrift=self._step, reason=self._reason)
        return self.last

    def _over(self, now: float, period: float) -> str:
        """Return which budget was exceeded throughout the last 30 s, or "" (also before they are over)."""
        looks = self._looks
        while len(looks) > 1 and looks[1].time <= now - WINDOW:
            looks.popleft()
        first, last = looks[0], looks[-1]
        span = last.time - first.time
        if span < WINDOW:
            return ""
        cores = (last.cpu - first.cpu) / span
        if cores > CPU:
            return f"{cores:.3f} cores used, allowed {CPU:g}"
        # The smallest of the window: one late cycle, or a night asleep, is no trouble that lasts.
        lag = min(look.lag for look in looks)
        if lag > LAG * period:
            return f"cycles begin {lag:.2f} s late, allowed {LAG * period:g}"
        held = min((look.rss or 0) for look in looks)
        return f"{held >> 20} MiB held, allowed {RSS >> 20}" if held > RSS else ""

    def _take_step(self, over: str, now: float) -> None:
        if self._came_back is not None:
            self._calm = min(MOST_CALM, self._calm * 2) if now - self._came_back < MOST_CALM else CALM
        self._came_back = self._calm_since = None
        self._reason = over
        self._move(min(len(STEPS), self._step + 1))

    def _come_back(self, now: float) -> None:
        if self._calm_since is None:
            self._calm_since = now
        if now - self._calm_since < self._calm:
            return
        self._calm_since = self._came_back = now
        self._move(self._step - 1)
        if not self._step:
            self._reason = ""

    def _move(self, step: int) -> None:
        # Each step is judged by a window of its own.
        last = self._looks[-1]
        self._looks.clear()
        self._looks.append(last)
        if step != self._step:
            self._step = step
            self._spare(step)
