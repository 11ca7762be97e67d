"""A service's demand by time of day, learned and judged (specification, section 3: forecast). Pure.

In: the demand of one quarter of an hour after the other. Out: what a quarter is expected to bring, and how wrong that has been. Newer days
count for more, one odd day for little.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeVar

from msgspec import Struct

QUARTER = 900.0  # seconds
QUARTERS = 96  # a day
MOST_ERROR = 0.3  # share; above it nothing is foretold
DAYS = 2  # that a quarter of the day must have been seen
_NEW = 0.3  # weight of the newest day, once there are more than three
_ODD = 2.0  # times its level, up or down: what a day can say at most
_JUDGED = 1 / 16  # weight of the last quarter's error: some four hours
_MOST_CORES = 1e6  # of one service on one node
_MOST_DAYS = 1000
_LAST = 1 << 31  # quarter: some 60,000 years on
_LEAST = 0.25  # cores: an error of less than this share of it is none
_OF_DEPLOYMENT = re.compile(r"-[0-9a-f]{6,10}-[a-z0-9]{5}$")
T = TypeVar("T")
_OF_SET = re.compile(r"-(?:[0-9]+|[a-z0-9]{5})$")


class Profile(Struct, frozen=True, gc=False):
    """`levels`: cores by quarter of the day (UTC), `days`: how many days each rests on; `error`: mean share by which what was expected was
    wrong, None before anything was; `seen`: number of the last quarter since the epoch."""

    levels: tuple[float, ...] = (0.0,) * QUARTERS
    days: tuple[int, ...] = (0,) * QUARTERS
    error: float | None = None
    seen: int = 0

    def expected(self, quarter: int) -> float | None:
        """What a quarter (number since the epoch) is to bring, in cores; None while too few days are known."""
        place = quarter % QUARTERS
        return self.levels[place] if self.days[place] >= DAYS else None

    @property
    def is_whole(self) -> bool:
        """Whether it can be worked with, wherever it was read: a value for each quarter, and none that cannot be."""
        within = 0 <= min(self.levels, default=0) <= max(self.levels, default=0) <= _MOST_CORES
        counted = 0 <= min(self.days, default=0) <= max(self.days, default=0) <= _MOST_DAYS
        judged = 0 <= self.seen <= _LAST and (self.error is None or self.error >= 0)
        return len(self.levels) == len(self.days) == QUARTERS and within and counted and judged

    @property
    def is_trusted(self) -> bool:
        """Whether what was expected has been right of late."""
        return self.error is not None and round(self.error - MOST_ERROR, 9) <= 0

    def after(self, quarter: int, cores: float) -> Profile:
        """Return the profile with one more quarter (number since the epoch) in it."""
        place = quarter % QUARTERS
        level, days = self.levels[place], self.days[place]
        error = self.error
        if days >= DAYS:
            wrong = abs(cores - level) / max(level, _LEAST)
            error = wrong if error is None else error + _JUDGED * (wrong - error)
            cores = min(max(cores, level / _ODD), max(level, _LEAST) * _ODD)
        level += max(_NEW, 1 / (days + 1)) * (cores - level)
        return Profile(_with(self.levels, place, level), _with(self.days, place, min(days + 1, _MOST_DAYS)), error, quarter)


@lru_cache(4096)
def service_of(namespace: str, name: str, owner: str | None) -> str:
    """Return the name that all pods of a service share, now and tomorrow: without what a controller appends to it."""
    if owner in ("ReplicaSet", "Deployment"):
        name = _OF_DEPLOYMENT.sub("", name)
    elif owner in ("StatefulSet", "DaemonSet"):
        name = _OF_SET.sub("", name)
    return f"{namespace}/{name}"


def _with(values: tuple[T, ...], place: int, value: T) -> tuple[T, ...]:
    return (*values[:place], value, *values[place + 1 :])
