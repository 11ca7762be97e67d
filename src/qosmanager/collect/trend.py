"""Slopes and growth from history (specification, section 3): pure arithmetic over points (seconds, value)."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, sqrt
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


def leak_growth(minima: Sequence[float], threshold: float) -> float:
    """Return the growth of a leaking pod in bytes/min, 0 when it is no leak.

    `minima` holds the smallest rss (bytes) of each of the last 30 minutes, oldest first, NaN where it was not measured; `threshold` is
    `memoryGrowthThreshold` in bytes/min. The minima of three successive 10-minute windows must each rise by more than 0.8 x threshold.
    """
    if len(minima) < 3 * LEAK_WINDOW:
        return 0.0
    lows: list[float] = []
    for start in range(len(minima) - 3 * LEAK_WINDOW, len(minima), LEAK_WINDOW):
        window = [value for value in minima[start : start + LEAK_WINDOW] if not isnan(value)]
        if len(window) < ENOUGH_MINUTES:
            return 0.0
        lows.append(min(window))
    least = LEAK_SHARE * threshold * LEAK_WINDOW
    if lows[1] - lows[0] > least and lows[2] - lows[1] > least:
        return (lows[2] - lows[0]) / (2 * LEAK_WINDOW)
    return 0.0
