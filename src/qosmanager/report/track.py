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


class _Series:
    """One number a cycle, condensed as they come."""

    def __init__(self, fold: Callable[[Sequence[float]], float], points: int, cycles: int) -> None:
        """`points` and `cycles` of the point that is not whole yet passed before it began."""
        self._fold = fold
        self.points = array("f", [NAN] * points)
        self._cycles = [NAN] * cycles

    def add(self, value: float, step: int) -> None:
        self._cycles.append(value)
        if len(self._cycles) == step:
            self.points.append(self._fold(self._cycles))
            self._cycles.clear()

    def halve(self) -> None:
        points = self.points
        self.points = array("f", map(self._fold, zip(points[::2], points[1::2], strict=True)))

    @property
    def values(self) -> list[float]:
        return [*self.points, self._fold(self._cycles)] if self._cycles else list(self.points)


class Track:
    """One run, condensed while it is taken in: however long it is, at most POINTS numbers a series are kept. `step` is how many cycles are
    one point."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.step = 1
        self._count = 0  # cycles
        self._last = 0.0
        self._times = array("d")  # of each point's first cycle
        self._values = {field: _Series(fold, 0, 0) for field, fold in FOLDS.items()}
        self._p99: dict[str, _Series] = {}
        self._marks: dict[tuple[int, str], tuple[Mark, int]] = {}

    def add(self, moment: Moment, marks: Iterable[Mark] = ()) -> None:
        """Take one cycle in; time rises."""
        if self._count == POINTS * self.step:
            self._halve()
        point, cycles = divmod(self._count, self.step)
        if not cycles:
            self._times.append(moment.time)
        for field, series in self._values.items():
            series.add(getattr(moment, field), self.step)
        for service in moment.p99.keys() - self._p99.keys():
            self._p99[service] = _Series(largest, point, cycles)
        for service, series in self._p99.items():
            series.add(moment.p99.get(service, NAN), self.step)
        for mark in marks:
            self._mark(point, mark, 1)
        self._count += 1
        self._last = moment.time

    def _mark(self, point: int, mark: Mark, count: int) -> None:
        _, before = self._marks.get((point, mark.kind), (mark, 0))
        self._marks[point, mark.kind] = (mark, before + count)

    def _halve(self) -> None:
        """Make one point of two. POINTS is even, and all of them are whole."""
        self.step *= 2
        self._times = self._times[::2]
        for series in (*self._values.values(), *self._p99.values()):
            series.halve()
        marks, self._marks = self._marks, {}
        for (point, _), (mark, count) in marks.items():
            self._mark(point // 2, mark, count)

    @property
    def length(self) -> float:
        """Seconds from the first cycle to the last."""
        return self._last - self._times[0] if self._times else 0.0

    def times(self) -> list[float]:
        """Return the time of each point: of its first cycle."""
        return list(self._times)

    def column(self, field: str) -> list[float]:
        """Return a series by its name in `Moment`."""
        return self._values[field].values

    def services(self) -> list[str]:
        """Return the services, the one with the highest p99 first."""
        return sorted(self._p99, key=lambda name: (-_known(largest(self._p99[name].values)), name))

    def p99(self, service: str) -> list[float]:
        """Return a service's series, in seconds: the largest of each point's cycles."""
        return self._p99[service].values

    def marks(self) -> list[tuple[Mark, int]]:
        """Return the last mark of each kind and point, and how many of the kind the point has."""
        return list(self._marks.values())


def _known(value: float) -> float:
    return -1.0 if math.isnan(value) else value
