"""One run as series, condensed to what a screen can show. In: moments, one a cycle, and marks. Out: columns of numbers.

Cores, bytes, seconds, scores 0 to 100; NaN: not known.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

POINTS = 1500  # of a series: a screen has no more columns
NAN = math.nan


class Moment(Struct, frozen=True, kw_only=True):
    """One cycle. `limit`: of BE together; `level`: a rank from 0; `p99` by service, `slo` by service."""

    time: float
    node: float = NAN
    ls: float = NAN
    be: float = NAN
    limit: float = NAN
    memory: float = NAN
    cpu_score: float = NAN
    memory_score: float = NAN
    io_score: float = NAN
    level: float = NAN
    p99: dict[str, float] = {}


class Mark(Struct, frozen=True):
    """Something done or something that happened, at a time, with its reason."""

    time: float
    kind: str
    text: str


def mean(values: Sequence[float]) -> float:
    """Return the mean of what is known."""
    known = [value for value in values if value == value]  # noqa: PLR0124 - NaN is not equal to itself
    return sum(known) / len(known) if known else NAN


def largest(values: Sequence[float]) -> float:
    """Return the largest of what is known."""
    return max((value for value in values if value == value), default=NAN)  # noqa: PLR0124


# Of what is dangerous when it is high, no peak may be lost.
FOLDS: dict[str, Callable[[Sequence[float]], float]] = {
    "node": mean,
    "ls": mean,
    "be": mean,
    "limit": mean,
    "memory": largest,
    "cpu_score": largest,
    "memory_score": largest,
    "io_score": largest,
    "level": largest,
}


class Track:
    """One run. `columns()` and `marks()` are condensed; `step` is how many cycles are one point then."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._times = array("d")
        self._values = {field: array("f") for field in FOLDS}
        self._p99: dict[str, array[float]] = {}
        self._marks: list[Mark] = []

    def add(self, moment: Moment, marks: Iterable[Mark] = ()) -> None:
        """Take one cycle in; time rises."""
        before = len(self._times)
        self._times.append(moment.time)
        for field, values in self._values.items():
            values.append(getattr(moment, field))
        for service in moment.p99.keys() - self._p99.keys():
            self._p99[service] = array("f", [NAN] * before)
        for service, series in self._p99.items():
            series.append(moment.p99.get(service, NAN))
        self._marks += marks

    def __len__(self) -> int:
        return len(self._times)

    @property
    def step(self) -> int:
        return max(1, math.ceil(len(self._times) / POINTS))

    @property
    def length(self) -> float:
        """Seconds from the first cycle to the last."""
        return self._times[-1] - self._times[0] if self._times else 0.0

    def times(self) -> list[float]:
        """Return the time of each point: of its first cycle."""
        return list(self._times[:: self.step])

    def column(self, field: str) -> list[float]:
        """Return a series by its name in `Moment`."""
        return self._condensed(self._values[field], FOLDS[field])

    def services(self) -> list[str]:
        """Return the services, the one with the highest p99 first."""
        return sorted(self._p99, key=lambda name: (-_known(largest(self._p99[name])), name))

    def p99(self, service: str) -> list[float]:
        """Return a service's series, in seconds: the largest of each point's cycles."""
        return self._condensed(self._p99[service], largest)

    def marks(self) -> list[tuple[Mark, int]]:
        """Return the last mark of each kind and point, and how many of the kind the point has."""
        found: dict[tuple[int, str], tuple[Mark, int]] = {}
        width = self.length / POINTS or 1.0
        for mark in self._marks:
            key = (int((mark.time - self._times[0]) / width), mark.kind)
            found[key] = (mark, found[key][1] + 1 if key in found else 1)
        return list(found.values())

    def _condensed(self, values: array[float], fold: Callable[[Sequence[float]], float]) -> list[float]:
        step = self.step
        return list(values) if step == 1 else [fold(values[begin : begin + step]) for begin in range(0, len(values), step)]


def _known(value: float) -> float:
    return -1.0 if math.isnan(value) else value
