"""A run added up (docs/simulate.md). In: its cycles, one by one. Out: series of one number a cycle, happenings, and `Totals`."""

from __future__ import annotations

import math
import statistics
from array import array
from collections.abc import Sequence

from msgspec import Struct

from qosmanager.config.settings import Settings
from qosmanager.simulate.load import Loaded
from qosmanager.simulate.run import Cycle, Truth
from qosmanager.views.effects import evicted

_MB = 1_000_000


class ServiceSeries:
    """Of some services, by cycle: the largest p99 of their pods in seconds (NaN: no request), how many are above the SLO, how many were
    measured."""

    def __init__(self) -> None:
        self.p99 = array("f")
        self.over = array("H")
        self.measured = array("H")

    def add(self, p99: float, over: int, measured: int) -> None:
        self.p99.append(p99)
        self.over.append(over)
        self.measured.append(measured)


class Totals(Struct, frozen=True, kw_only=True):
    """A whole run. Seconds, cores, core-hours, percent; None: there was no service, or none with an SLO; nothing was measured."""

    seconds: float
    median_p99: float | None  # of the cycles' largest p99
    worst_p99: float | None
    over_slo: float | None  # seconds in which some service was above its SLO
    within_slo: float | None  # percent of the pods' seconds
    given_up: int  # requests
    be_core_hours: float | None  # None: never measured; a time in which it was not counts like the mean of the others
    node_use: float | None
    be_unmeasured: float = 0.0  # seconds in which some BE pod was not measured
    evictions: int
    oom_kills: int
    reversals: int
    most_reversals: int  # within a minute


class Tally:
    """Takes cycles in; series are by cycle. Levels are ranks, -1 where there is no agent; a limit that is none is NaN.

    `services`: of all together under None, and of each workload that an expectation is about: a number for each of hundreds of pods in each
    cycle of a month is not kept.
    """

    def __init__(self, loaded: Loaded | None, settings: Settings) -> None:
        """`loaded` None: the pods are of no scenario."""
        self._spec_of = {} if loaded is None else _workload_of(loaded)
        asked = () if loaded is None else loaded.scenario.expect
        self.services: dict[str | None, ServiceSeries] = {name: ServiceSeries() for name in {None, *(each.workload for each in asked)}}
        self._leak = settings.memory_evict.memory_growth_threshold * _MB
        self.time = array("d")
        self.seconds = array("f")
        self.node = array("f")
        self.ls = array("f")
        self.be = array("f")
        self.limit = array("f")
        self.level = array("b")
        self.given_up = 0.0
        self.happenings: list[tuple[float, str, str]] = []  # time, what, pod's key
        self.reversals: list[float] = []
        self.leaks: dict[str, float] = {}  # pod's key -> when it was first named as leaking
        self._ended: list[tuple[float, float, str, float]] = []  # bursts
        self._open: dict[str, tuple[float, float]] = {}
        self._reversed: tuple[float, ...] | None = None  # when the engine's last reversal was, by its own clock

    def add(self, cycle: Cycle) -> None:
        """Take one cycle in."""
        truth, record = cycle.truth, cycle.record
        self.time.append(truth.time)
        self.seconds.append(truth.seconds)
        for series, value in ((self.node, truth.node_cpu), (self.ls, truth.ls_cpu), (self.be, truth.be_cpu), (self.limit, truth.be_limit)):
            series.append(math.nan if value is None else value)
        self.level.append(-1 if record is None else record.plan.level.rank)
        self._add_services(truth)
        self._add_bursts(truth)
        if truth.happenings:
            self.happenings += [(truth.time, what, key) for what, key in truth.happenings]
        if record is None:
            return
        self._add_reversal(truth, record.state.reversals[-1:])
        if record.plan.actions:
            self.happenings += [(truth.time, "evicted", pod) for pod, _ in evicted(record)]
        for pod in record.snapshot.pods:
            growth = pod.memory.growth
            if growth and growth > self._leak and pod.key not in self.leaks:
                self.leaks[pod.key] = truth.time

    def _add_services(self, truth: Truth) -> None:
        self.given_up += truth.given_up
        for workload, series in self.services.items():
            found = [
                (service.p99, service.slo)
                for service in truth.services
                if service.p99 is not None and (workload is None or self._spec_of[service.key] == workload)
            ]
            over = sum(slo is not None and p99 > slo for p99, slo in found)
            series.add(max((p99 for p99, _ in found), default=math.nan), over, len(found))

    def _add_bursts(self, truth: Truth) -> None:
        for key in self._open.keys() - truth.bursts.keys():
            begin, highest = self._open.pop(key)
            self._ended.append((begin, truth.time, key, highest))
        for key, cores in truth.bursts.items():
            begin, highest = self._open.get(key, (truth.time, 0.0))
            self._open[key] = (begin, max(highest, cores))

    def _add_reversal(self, truth: Truth, latest: tuple[float, ...]) -> None:
        """Count a reversal of the BE limit where the engine counted one (section 10), if the limit is in force."""
        if self._reversed is not None and latest != self._reversed and truth.be_limit is not None:
            self.reversals.append(truth.time)
        self._reversed = latest

    @property
    def bursts(self) -> list[tuple[float, float, str, float]]:
        """Begin, end, pod's key and highest limit of each; one that runs has come to the end of the run."""
        now = self.time[-1] if self.time else 0.0
        return self._ended + [(begin, now, key, highest) for key, (begin, highest) in self._open.items()]

    def of_workload(self, key: str) -> str:
        """Return the name of the workload that a pod is of."""
        return self._spec_of[key]

    def totals(self, *, has_slo: bool) -> Totals:
        """Return what it came to."""
        services = self.services[None]
        p99 = [value for value in services.p99 if not math.isnan(value)]
        seconds = sum(self.seconds)
        over = sum(length for length, count in zip(self.seconds, services.over, strict=True) if count)
        measured, above = sum(services.measured), sum(services.over)
        whats = [what for _, what, _ in self.happenings]
        be = _mean(self.be, self.seconds)
        return Totals(
            seconds=seconds,
            median_p99=statistics.median(p99) if p99 else None,
            worst_p99=max(p99) if p99 else None,
            over_slo=over if has_slo and measured else None,
            within_slo=100 * (1 - above / measured) if has_slo and measured else None,
            given_up=round(self.given_up),
            be_core_hours=None if be is None else be * seconds / 3600,
            node_use=_mean(self.node, self.seconds),
            be_unmeasured=sum(length for value, length in zip(self.be, self.seconds, strict=True) if math.isnan(value)),
            evictions=whats.count("evicted"),
            oom_kills=whats.count("oom-killed"),
            reversals=len(self.reversals),
            most_reversals=most_within(self.reversals, 60.0),
        )


def most_within(moments: Sequence[float], length: float) -> int:
    """Return the largest number of moments that lie within one time of this length."""
    most = first = 0
    for place, moment in enumerate(moments):
        while moment - moments[first] >= length:
            first += 1
        most = max(most, place - first + 1)
    return most


def _mean(values: Sequence[float], seconds: Sequence[float]) -> float | None:
    """Return the mean over the time in which there is a value; None: there is none."""
    known = [(value * length, length) for value, length in zip(values, seconds, strict=True) if not math.isnan(value)]
    return sum(value for value, _ in known) / sum(length for _, length in known) if known else None


def _workload_of(loaded: Loaded) -> dict[str, str]:
    return {f"{spec.namespace}/{name}": spec.name for spec in loaded.scenario.workloads for name in spec.pods}
