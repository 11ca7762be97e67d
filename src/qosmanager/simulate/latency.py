"""Latency of the requests of one second, out of the queue they waited in (docs/simulate.md).

A request takes what it waits (in the queue, for a CPU that another group has, for something elsewhere) and its service time, which is
exponential. The distribution is a list of (seconds, requests), made only in a second in which somebody waited.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from math import log

SLICE = 0.009  # seconds that a request waits on average when it has to wait for another group's time slice
MEDIAN, TAIL = 0.5, 0.99
Points = list[tuple[float, float]]

# Borders of the strata of an exponential distribution: fine where the 99th percentile looks for it.
_BORDERS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.985, 0.99, 0.9925, 0.995, 0.998, 0.9995, 1.0)
_STRATA = tuple((-log(1 - (low + high) / 2), high - low) for low, high in pairwise(_BORDERS))
_LATE = tuple((-log(1 - middle), 0.25) for middle in (0.125, 0.375, 0.625, 0.875))


def alone(service_time: float, share: float) -> float:
    """Return the quantile of a service time by itself, in seconds."""
    return -service_time * log(1 - share)


@lru_cache(maxsize=4096)
def bodies(service_time: float, late: float) -> tuple[tuple[float, float], ...]:
    """Return the distribution of (seconds, share) of requests that find no queue; `late` of them wait for a time slice."""
    whole = [(service_time * factor, share * (1 - late)) for factor, share in _STRATA]
    if late <= 0:
        return tuple(whole)
    whole += [(service_time * factor + SLICE * wait, share * part * late) for factor, share in _STRATA for wait, part in _LATE]
    whole.sort()
    thinned: list[tuple[float, float]] = []
    below = mass = weighted = 0.0
    borders = iter(_BORDERS[1:])
    border = next(borders)
    for seconds, share in whole:
        mass, weighted = mass + share, weighted + share * seconds
        if below + mass >= border:
            thinned.append((weighted / mass, mass))
            below, mass, weighted = below + mass, 0.0, 0.0
            border = next((each for each in borders if each > below), 1.0)
    return (*thinned, (weighted / mass, mass)) if mass > 0 else tuple(thinned)


class Second:
    """The requests of one second: how many waited how long. `late`: the share of them that waited for a slice."""

    __slots__ = ("at_once", "late", "waits")

    def __init__(self) -> None:
        self.at_once = 0.0  # requests that found no queue
        self.waits: Points = []
        self.late = 0.0

    def points(self, service_time: float, elsewhere: float, timeout: float) -> Points:
        """Return the distribution, sorted; a request that takes longer than `timeout` is given up then."""
        found = bodies(round(service_time, 6), round(self.late, 3))
        waits = [*self.waits, (0.0, self.at_once)] if self.at_once > 0 else self.waits
        return sorted((min(wait + elsewhere + body, timeout), number * share) for wait, number in waits for body, share in found)


@lru_cache(maxsize=4096)
def calm_quantile(service_time: float, late: float, share: float) -> float:
    """Return the quantile where nobody finds a queue, in seconds."""
    return quantile(list(bodies(service_time, late)), share)


def quantile(points: Points, share: float) -> float:
    """Return the value below which this share of the requests lies; between two points in a straight line."""
    aim = share * sum(number for _, number in points)
    below = 0.0
    last = (0.0, 0.0)  # requests, seconds
    for seconds, number in points:
        # A point stands for what lies around it: half of it counts as below.
        middle = below + number / 2
        if middle >= aim:
            requests, value = last
            return value + (seconds - value) * (aim - requests) / (middle - requests) if middle > requests else seconds
        below += number
        last = (middle, seconds)
    return points[-1][0]
