"""Latency of the requests of one second, out of the queue they waited in (docs/simulate.md).

A request takes what it waits (in the queue, for a CPU that another group has, for something elsewhere) and its service time, which is
exponential. The distribution is a list of (seconds, requests), made only in a second in which somebody waited.
"""

from __future__ import annotations

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


class Second:
    """The requests of one second: how many waited how long. `late`: the share of them that waited for a slice."""

    __slots__ = ("at_once", "late", "waits")

    def __init__(self) -> None:
        self.at_once = 0.0  # requests that found no queue
        self.waits: Points = []
        self.late = 0.0

    def points(self, service_time: float, elsewhere: float, timeout: float) -> Points:
        """Return the distribution, sorted; a request that takes longer than `timeout` is given up then."""
        bodies = [(service_time * factor + elsewhere, share * (1 - self.late)) for factor, share in _STRATA]
        if self.late > 0:
            bodies += [
                (service_time * factor + elsewhere + SLICE * wait, share * part * self.late)
                for factor, share in _STRATA
                for wait, part in _LATE
            ]
        waits = [*self.waits, (0.0, self.at_once)] if self.at_once > 0 else self.waits
        return sorted((min(wait + body, timeout), number * share) for wait, number in waits for body, share in bodies)


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
