"""A histogram in Prometheus' text format, and quantiles of what was added between two readings of it.

In: the text of an endpoint. Out: cumulative counts by upper bound, summed over all label sets; the quantile as Prometheus'
histogram_quantile computes it. Lines that are not understood are left out, as by every scraper.
"""

from __future__ import annotations

import re
from math import inf, isfinite

# Possessive and inside one line: a hostile text of a mebibyte must not cost more than its length.
LABELS = r'\{((?:[^"}\n]|"(?:[^"\\\n]|\\.)*+")*+)\}[ \t]+(\S+)'
_BOUND = re.compile(r'(?:^|,)\s*le="([^"]*)"')


class HistogramReader:
    """Finds one histogram in the text of an endpoint."""

    def __init__(self, name: str) -> None:
        self._line = re.compile("^" + re.escape(name) + "_bucket" + LABELS, re.MULTILINE)

    def read(self, text: str) -> dict[float, float]:
        """Return the cumulative count by upper bound in seconds, all above 0: no time is less. Raises ValueError when the histogram is not
        there, has no +Inf, or nothing else: then it says of no value how large it is."""
        counts: dict[float, float] = {}
        for match in self._line.finditer(text):
            bound = _BOUND.search(match[1])
            try:
                upper, count = float(bound[1] if bound else "nan"), float(match[2])
            except ValueError:
                continue
            if upper > 0 and isfinite(count):
                counts[upper] = counts.get(upper, 0.0) + count
        if inf not in counts:
            raise ValueError("no such histogram with a +Inf bucket")
        if len(counts) == 1:
            raise ValueError("the histogram has no bucket below +Inf")
        return counts


def added(before: dict[float, float], now: dict[float, float]) -> dict[float, float] | None:
    """Return what was counted between two readings, by upper bound; None: the buckets are others, or a counter began anew."""
    if before.keys() != now.keys():
        return None
    rises = {bound: now[bound] - before[bound] for bound in now}
    return None if min(rises.values()) < 0 else rises


def quantile(share: float, cumulative: dict[float, float]) -> float | None:
    """Return the value below which `share` (0 to 1) of the observations lie, linear inside its bucket; None: no observation. Bounds are
    above 0.

    In the +Inf bucket it is the largest finite bound: all that is known is that the value is above it.
    """
    bounds = sorted(cumulative)
    total = cumulative[bounds[-1]]
    if total <= 0:
        return None
    rank = share * total
    lower, below = 0.0, 0.0
    for bound in bounds:
        count = max(below, cumulative[bound])  # a scrape in the middle of an update may show a dent
        if count >= rank:
            if bound == inf:
                return lower
            return lower + (bound - lower) * ((rank - below) / (count - below)) if count > below else bound
        lower, below = bound, count
    return lower
