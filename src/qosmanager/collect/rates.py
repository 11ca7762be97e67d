"""Counters made into rates: over real elapsed time, none across a reset or a gap (specification, section 3)."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

LEAST = 0.5  # seconds: what one pod or the node does in less than this says little of what it goes on doing
WINDOW = 0.95  # seconds: a throttling window holds at least this, and at least two samples, however short the cycle
FIRST = "a rate needs two samples"
RESET = "the counter began anew"
ABSURD = "the counter rose faster than any machine counts"
MOST_CORES = 8192.0  # the most CPUs that a Linux kernel can have
GAP = "a rate across a gap in measuring says nothing about now"
T = TypeVar("T")


def rise(now: float | None, before: float | None) -> float | None:
    """Return by how much a counter has risen; None when either end is unknown, or when it fell: then it began anew."""
    if now is None or before is None or now < before:
        return None
    return now - before


class Trail(Generic[T]):
    """The last readings of a source: as many as are needed for a rate over at least half a second, however short the cycles."""

    __slots__ = ("_past", "newest")

    def __init__(self) -> None:
        self._past: list[tuple[float, T]] = []
        self.newest: tuple[float, T] | None = None  # the last reading and its time

    def begin(self, now: float, least: float) -> tuple[float, T] | None:
        """Return the newest reading that is `least` seconds old, else the oldest; None: there is none."""
        past = self._past
        if not past:
            return None
        for reading in reversed(past):
            if now - reading[0] >= least:
                return reading
        return past[0]

    def add(self, now: float, reading: T) -> None:
        """Keep a reading; those that no rate begins at any more are dropped."""
        past = self._past
        while len(past) > 1 and now - past[1][0] >= LEAST:
            del past[0]
        self.newest = now, reading
        past.append(self.newest)

    def clear(self) -> None:
        """Begin anew."""
        self._past.clear()
        self.newest = None


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
