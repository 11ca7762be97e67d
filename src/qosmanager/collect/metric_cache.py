"""MetricCache: bounded history in compact arrays (specification, section 3; architecture: cost is design).

In: values with their monotonic time. Out: recent points (5 minutes, one a second at most), minutes (24 hours), and LS CPU by hour of day
(7 days). A time without values is a gap: nothing is made up for it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from math import ceil, isnan, nan

SECONDS = 300
MINUTES = 24 * 60
DAYS = 7
HOUR = 3600


class Recent:
    """The last 5 minutes, at most one point a second: values that fall into one second become their mean."""

    __slots__ = ("_count", "_next", "_second", "_times", "_values")

    def __init__(self) -> None:
        self._times = array("d")
        self._values = array("d")
        self._next = 0  # where the oldest point lies, once the ring is full
        self._count = 0  # values in the newest point
        self._second: int | None = None  # that of the newest point

    def add(self, time: float, value: float) -> None:
        """Add a value; time never goes back."""
        second = int(time)
        if second == self._second:
            newest = self._next - 1
            self._count += 1
            self._times[newest] += (time - self._times[newest]) / self._count
            self._values[newest] += (value - self._values[newest]) / self._count
            return
        self._second, self._count = second, 1
        if len(self._times) < SECONDS:
            self._times.append(time)
            self._values.append(value)
            self._next = len(self._times) % SECONDS
        else:
            self._times[self._next] = time
            self._values[self._next] = value
            self._next = (self._next + 1) % SECONDS

    def since(self, time: float) -> tuple[array[float], array[float]]:
        """Return times and values of the points at or after `time`, oldest first."""
        times = self._times[self._next :] + self._times[: self._next] if len(self._times) == SECONDS else self._times
        values = self._values[self._next :] + self._values[: self._next] if len(self._values) == SECONDS else self._values
        begin = bisect_left(times, time)
        return times[begin:], values[begin:]

    def values(self, since: float) -> array[float]:
        """Return the values of the points at or after `since`, oldest first."""
        if not self._times or self._times[self._next % len(self._times)] < since:
            return self.since(since)[1]
        return self._values[self._next :] + self._values[: self._next]  # all of them: their times need not be gone through

    def mean(self, since: float) -> float | None:
        """Return the mean of the points at or after `since`; None: there are none."""
        values = self.values(since)
        return sum(values) / len(values) if values else None

    def size(self) -> int:
        """Bytes held."""
        return (len(self._times) + len(self._values)) * self._times.itemsize


class Minutes:
    """One number a minute over 24 hours; a subclass says how a minute's values become one."""

    __slots__ = ("_count", "_folded", "_minute", "_values")

    def __init__(self) -> None:
        self._values = array("f")  # oldest first; the newest is the minute before `_minute`
        self._minute: int | None = None
        self._folded = 0.0
        self._count = 0

    def add(self, time: float, value: float) -> float | None:
        """Add a value; return the number of the minute that is over with it, if one is."""
        minute = int(time // 60)
        if minute == self._minute:
            self._count += 1
            self._folded = self.fold(self._folded, value, self._count)
            return None
        ended = self._close(minute) if self._minute is not None else None
        self._minute, self._folded, self._count = minute, value, 1
        return ended

    def _close(self, minute: int) -> float:
        assert self._minute is not None
        self._values.append(self._folded)
        self._values.extend([nan] * min(MINUTES, minute - self._minute - 1))
        # In lots, so that not each minute moves the whole day.
        if len(self._values) > MINUTES + 60:
            del self._values[: len(self._values) - MINUTES]
        return self._folded

    @staticmethod
    def fold(folded: float, value: float, count: int) -> float:
        """Join a minute's number so far with its `count`-th value: here the mean."""
        return folded + (value - folded) / count

    def last(self, count: int) -> array[float]:
        """Return up to `count` complete minutes, oldest first, NaN for a minute without a value."""
        return self._values[max(0, len(self._values) - min(count, MINUTES)) :]

    def largest(self) -> float | None:
        """Return the largest of the last 24 hours; None: no minute is complete."""
        return max((value for value in self.last(MINUTES) if not isnan(value)), default=None)

    def size(self) -> int:
        """Bytes held."""
        return len(self._values) * self._values.itemsize


class Minima(Minutes):
    """The smallest value of each minute."""

    __slots__ = ()

    @staticmethod
    def fold(folded: float, value: float, count: int) -> float:  # noqa: ARG004 - the signature is the base's
        return min(folded, value)


class DailyPeaks:
    """LS CPU by hour of day: 1-minute means of the last 7 days. Hours are those of UTC."""

    __slots__ = ("_hours",)

    def __init__(self) -> None:
        self._hours: dict[int, array[float]] = {}

    def add(self, wall: float, minute_mean: float) -> None:
        """Add one minute's mean (cores) that ended at `wall` (epoch seconds)."""
        hour = int(wall // HOUR)
        if hour not in self._hours:
            # A clock that was set may have left hours in the future: they are as wrong as those too old.
            self._hours = {kept: values for kept, values in self._hours.items() if hour - DAYS * 24 < kept <= hour}
            self._hours[hour] = array("f")
        if len(self._hours[hour]) < 60:
            self._hours[hour].append(minute_mean)

    def at(self, wall: float) -> tuple[float, float] | None:
        """Return the largest and the 95th percentile (nearest rank) of this hour of day; None: nothing known."""
        hour = int(wall // HOUR) % 24
        known = sorted(value for kept, values in self._hours.items() if kept % 24 == hour for value in values)
        if not known:
            return None
        return known[-1], known[ceil(0.95 * len(known)) - 1]

    def size(self) -> int:
        """Bytes held."""
        return sum(len(values) * values.itemsize for values in self._hours.values())


class PodHistory:
    """What is kept of one pod: CPU usage (cores), minima of rss (bytes), and p99 (seconds) where it has a source."""

    __slots__ = ("p99", "rss", "usage")

    def __init__(self) -> None:
        self.usage = Recent()
        self.rss = Minima()
        self.p99: Recent | None = None

    def add_usage(self, time: float, cores: float) -> None:
        self.usage.add(time, cores)

    def add_p99(self, time: float, seconds: float) -> None:
        if self.p99 is None:
            self.p99 = Recent()
        self.p99.add(time, seconds)

    def size(self) -> int:
        """Bytes held."""
        return self.usage.size() + self.rss.size() + (self.p99.size() if self.p99 else 0)


class MetricCache:
    """History of the node and of each pod that is there; the history of a pod that is gone goes with it."""

    def __init__(self) -> None:
        self.cpu_percent_without_be = Recent()
        self.memory_available = Recent()
        self.ls_rss = Recent()
        self.cpu_minutes = Minutes()  # cores of the node
        self.ls_minutes = Minutes()  # cores of the LS pods
        self.peaks = DailyPeaks()
        self._pods: dict[str, PodHistory] = {}

    def pod(self, key: str) -> PodHistory:
        """Return a pod's history, empty for a new one."""
        history = self._pods.get(key)
        if history is None:
            history = self._pods[key] = PodHistory()
        return history

    def drop(self, key: str) -> None:
        """Forget a pod."""
        self._pods.pop(key, None)

    def __len__(self) -> int:
        return len(self._pods)

    def size(self) -> int:
        """Bytes of values held (without the objects around them)."""
        node = (self.cpu_percent_without_be, self.memory_available, self.ls_rss, self.cpu_minutes, self.ls_minutes, self.peaks)
        return sum(series.size() for series in node) + sum(history.size() for history in self._pods.values())
