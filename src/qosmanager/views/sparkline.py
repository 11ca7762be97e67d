"""A series of numbers as one line of block characters. In: values (NaN: none). Out: text, a column for each, or for several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

_BARS = "▁▂▃▄▅▆▇█"


def condensed(values: Sequence[float], columns: int) -> list[float]:
    """Return at most `columns` numbers, each the largest of those that fall into it, so that no peak is lost; NaN where there is none."""
    if len(values) <= columns:
        return list(values)
    edges = [round(place * len(values) / columns) for place in range(columns + 1)]
    parts = (values[low:high] for low, high in pairwise(edges))
    return [max((value for value in part if not math.isnan(value)), default=math.nan) for part in parts]


def sparkline(values: Sequence[float], top: float) -> str:
    """Return a character for each value: the lowest bar is 0, the highest `top` and above; a blank where there is no number."""
    return "".join(" " if math.isnan(value) else _bar(value, top) for value in values)


def _bar(value: float, top: float) -> str:
    share = value / top if top > 0 else 0.0
    return _BARS[max(0, min(len(_BARS) - 1, int(share * len(_BARS))))]
