"""The machine's clocks (the `Clock` port)."""

from __future__ import annotations

import time


class LinuxClock:
    """Monotonic time for rates and timers: it never jumps, and CLOCK_BOOTTIME counts the time a machine sleeps, so that a gap is seen."""

    def monotonic(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wall(self) -> float:
        return time.time()
