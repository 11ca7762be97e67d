"""A recording's own time. In: its cycles in their order. Out: seconds in which cycles were recorded."""

from __future__ import annotations

from qosmanager.record.decoder import Recorded


class Elapsed:
    """Adds up the time between cycles. A stretch without a cycle counts as one period: nothing is known of it. `seconds` have passed in
    all; `gaps` is how many stretches were left out."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.gaps = 0
        self._before: Recorded | None = None

    def add(self, cycle: Recorded) -> float:
        """Return the seconds since the cycle before, 0 for the first one."""
        before, self._before = self._before, cycle
        if before is None:
            return 0.0
        away = cycle.wall - before.wall
        if cycle.number > before.number and cycle.time is not None and before.time is not None:
            away = cycle.time - before.time  # the same run of the agent: by the clock that nobody sets
        if not 0 < away <= cycle.settings.stale_after:
            self.gaps += 1
            away = cycle.settings.sync_period
        self.seconds += away
        return away
