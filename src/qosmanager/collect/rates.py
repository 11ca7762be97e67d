"""Counters made into rates: over real elapsed time, none across a reset or a gap (specification, section 3)."""

from __future__ import annotations

from collections import deque

WINDOW = 0.95  # seconds: a throttling window holds at least this, and at least two samples, however short the cycle
FIRST = "a rate needs two samples"
RESET = "the counter began anew"
ABSURD = "the counter rose faster than any machine counts"
MOST_CORES = 8192.0  # the most CPUs that a Linux kernel can have
GAP = "a rate across a gap in measuring says nothing about now"


def rise(now: float | None, before: float | None) -> float | None:
    """Return by how much a counter has risen; None when either end is unknown, or when it fell: then it began anew."""
    if now is None or before is None or now < before:
        return None
    return now - before


class ThrottleWindow:
    """Throttled periods / periods of one group over the shortest window of at least a second."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int, int]] = deque()

    def add(self, time: float, periods: int, throttled: int, gap: float) -> float | None:
        """Add a sample and return the ratio, None while no window is complete. A group without a period in it was not throttled."""
        samples = self._samples
        if samples and (time - samples[-1][0] > gap or periods < samples[-1][1] or throttled < samples[-1][2]):
            samples.clear()
        samples.append((time, periods, throttled))
        while len(samples) > 2 and samples[1][0] <= time - WINDOW:
            samples.popleft()
        begin, first_periods, first_throttled = samples[0]
        if time - begin < WINDOW:
            return None
        elapsed = periods - first_periods
        return (throttled - first_throttled) / elapsed if elapsed else 0.0
