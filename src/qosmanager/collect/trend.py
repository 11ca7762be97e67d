"""Slopes and growth from history (specification, section 3): pure arithmetic over points (seconds, value)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import isnan, nan, sqrt
from operator import mul

MINIMUM_SPAN = 60.0  # seconds of history before a slope means anything
LEAK_WINDOW = 10  # minutes
LEAK_SHARE = 0.8  # of the threshold
ENOUGH_MINUTES = 5  # of a window that must be measured, for a minimum over less says little


def slope(times: Sequence[float], values: Sequence[float]) -> float:
    """Return the significant rise of a series, in its unit per minute.

    Least squares slope minus twice its standard error, at least 0; 0 while the points span less than 60 s or are fewer than three.
    """
    count = len(times)
    if count < 3 or times[-1] - times[0] < MINIMUM_SPAN:
        return 0.0
    middle = sum(times) / count
    mean = sum(values) / count
    aways = [time - middle for time in times]
    offs = [value - mean for value in values]
    squares: float = sum(map(mul, aways, aways))
    products: float = sum(map(mul, aways, offs))
    spread: float = sum(map(mul, offs, offs))
    rate = products / squares
    # Rounding can leave the residual of a perfect line a little below zero.
    error = sqrt(max(0.0, spread - rate * products) / (count - 2) / squares)
    return max(0.0, rate - 2 * error) * 60


def leak_rates(minima: Sequence[float], threshold: float) -> tuple[float, float] | None:
    """Return by how much a leaking pod grew from the first of three windows to the second, and from that to the third, in bytes/min; None
    when it is no leak.

    `minima` holds the smallest rss (bytes) of each of the last minutes, oldest first, NaN where it was not measured; `threshold` is
    `memoryGrowthThreshold` in bytes/min. The minima of the last three 10-minute windows must each rise by more than 0.8 x threshold, and
    to more than the pod has held before: after a restart it comes back to where it was.
    """
    lows = _lows(minima)
    least = LEAK_SHARE * threshold * LEAK_WINDOW
    if len(lows) < 3 or not (lows[-2] - lows[-3] > least and lows[-1] - lows[-2] > least):
        return None
    if any(after >= lows[-1] and after - before <= least for before, after in pairwise(lows[:-3])):
        return None
    return (lows[-2] - lows[-3]) / LEAK_WINDOW, (lows[-1] - lows[-2]) / LEAK_WINDOW


def _lows(minima: Sequence[float]) -> list[float]:
    """Return the smallest value of each whole 10-minute window back from the end, oldest first; NaN, which nothing is above or below, where
    half of one is missing."""
    lows: list[float] = []
    for start in range(len(minima) % LEAK_WINDOW, len(minima), LEAK_WINDOW):
        window = [value for value in minima[start : start + LEAK_WINDOW] if not isnan(value)]
        lows.append(min(window) if len(window) >= ENOUGH_MINUTES else nan)
    return lows
