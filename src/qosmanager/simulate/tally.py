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

_MOVED = 0.01  # share of a limit by which a move is one
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
    """A whole run. Seconds, cores, core-hours, percent; None: there was no service, or none with an SLO."""

    seconds: float
    median_p99: float | None  # of the cycles' largest p99
    worst_p99: float | None
    over_slo: float | None  # seconds in which some service was above its SLO
    within_slo: float | None  # percent of the pods' seconds
    given_up: int  # requests
    be_core_hours: float
    node_use: float
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
        self.bursts: list[tuple[float, float, str, float]] = []  # begin, end, pod's key, highest limit
        self.reversals: list[float] = []
        self.leaks: dict[str, float] = {}  # pod's key -> when it was first named as leaking
        self._open: dict[str, tuple[float, float]] = {}
        self._last = (math.nan, 0)  # BE limit, direction of its last move

    def add(self, cycle: Cycle) -> None:
        """Take one cycle in."""
        truth, record = cycle.truth, cycle.record
        self.time.append(truth.time)
        self.seconds.append(truth.seconds)
        self.node.append(truth.node_cpu)
        self.ls.append(truth.ls_cpu)
        self.be.append(truth.be_cpu)
        self.limit.append(math.nan if truth.be_limit is None else truth.be_limit)
        self.level.append(-1 if record is None else record.plan.level.rank)
        self._add_services(truth)
        self._add_bursts(truth)
        self._add_move(truth)
        if truth.happenings:
            self.happenings += [(truth.time, what, key) for what, key in truth.happenings]
        if record is None:
            return
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
            self.bursts.append((begin, truth.time, key, highest))
        for key, cores in truth.bursts.items():
            begin, highest = self._open.get(key, (truth.time, 0.0))
            self._open[key] = (begin, max(highest, cores))

    def _add_move(self, truth: Truth) -> None:
        before, direction = self._last
        limit = truth.be_limit
        if limit is None:
            return
        if math.isnan(before):
            self._last = (limit, 0)
            return
        if abs(limit - before) <= _MOVED * before:
            return
        now = 1 if limit > before else -1
        if direction == -now:
            self.reversals.append(truth.time)
        self._last = (limit, now)

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
        return Totals(
            seconds=seconds,
            median_p99=statistics.median(p99) if p99 else None,
            worst_p99=max(p99) if p99 else None,
            over_slo=over if has_slo and measured else None,
            within_slo=100 * (1 - above / measured) if has_slo and measured else None,
            given_up=round(self.given_up),
            be_core_hours=_sum(self.be, self.seconds) / 3600,
            node_use=_sum(self.node, self.seconds) / seconds,
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


def _sum(values: Sequence[float], seconds: Sequence[float]) -> float:
    return sum(value * length for value, length in zip(values, seconds, strict=True))


def _workload_of(loaded: Loaded) -> dict[str, str]:
    return {f"{spec.namespace}/{name}": spec.name for spec in loaded.scenario.workloads for name in spec.pods}
