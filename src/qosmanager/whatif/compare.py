"""Runs a recording's demand under several configurations (docs/record.md). In: what was observed. Out: totals side by side.

Each configuration is run for each bound of the demand, so that each figure is a range; and the recorded configuration is run too, so that
the model's own error is to be seen beside what was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from qosmanager.config.settings import Settings
from qosmanager.model.qos import QoS, is_latency_sensitive
from qosmanager.model.record import CycleRecord
from qosmanager.model.snapshot import Pod
from qosmanager.simulate.run import Cycle, ServiceTruth, Truth, managed
from qosmanager.simulate.tally import Tally, Totals
from qosmanager.whatif.demand import Observed
from qosmanager.whatif.held import held_at
from qosmanager.whatif.rebuild import Bound, rebuild


class Run(Struct, frozen=True):
    """One simulation: a configuration, its name, and which demand is assumed."""

    name: str
    settings: Settings
    bound: Bound


class Outcome(Struct, frozen=True, kw_only=True):
    """One configuration: what it came to, by the demand that was assumed."""

    name: str
    totals: dict[Bound, Totals]


def runs(configurations: dict[str, Settings]) -> tuple[Run, ...]:
    """Return the runs that a comparison of these configurations takes; none needs another."""
    return tuple(Run(name, settings, bound) for name, settings in configurations.items() for bound in Bound)


def simulate(observed: Observed, run: Run, seed: int, watch: Callable[[Cycle], None]) -> Totals:
    """Do one run; `watch` is told of each of its cycles."""
    loaded = rebuild(observed, run.bound)
    tally = Tally(loaded, run.settings)
    for cycle in managed(loaded, run.settings, seed):
        tally.add(cycle)
        watch(cycle)
    return tally.totals(has_slo=observed.has_slo)


def outcomes(done: Iterable[tuple[Run, Totals]]) -> tuple[Outcome, ...]:
    """Put what the runs came to side by side, each configuration where its first run is."""
    found: dict[str, dict[Bound, Totals]] = {}
    for run, totals in done:
        found.setdefault(run.name, {})[run.bound] = totals
    return tuple(Outcome(name=name, totals=totals) for name, totals in found.items())


class Measured:
    """The recording itself, added up by the rules of a simulated run."""

    def __init__(self, settings: Settings) -> None:
        self._tally = Tally(None, settings)

    def add(self, now: float, seconds: float, record: CycleRecord) -> Cycle:
        """Take in a cycle that was `seconds` long, at `now` of the recording's own time; return it as the simulator would tell it."""
        cycle = Cycle(truth=_truth(record, now, seconds), record=record)
        self._tally.add(cycle)
        return cycle

    def totals(self, observed: Observed) -> Totals:
        """Return what it came to. There is at least one cycle with a length."""
        return self._tally.totals(has_slo=observed.has_slo)


def _truth(record: CycleRecord, now: float, seconds: float) -> Truth:
    snapshot, state = record.snapshot, record.state
    services = tuple(ServiceTruth(pod.key, pod.latency.p99, pod.latency.slo) for pod in snapshot.pods if pod.latency.p99 is not None)
    return Truth(
        time=now,
        seconds=seconds,
        node_cpu=snapshot.node.cpu_usage,
        ls_cpu=_used(pod for pod in snapshot.pods if is_latency_sensitive(pod.qos)),
        be_cpu=_used(pod for pod in snapshot.pods if pod.qos is QoS.BE),
        be_pods=sum(pod.qos is QoS.BE for pod in snapshot.pods),
        be_limit=held_at(state),
        memory_available=snapshot.node.memory_available,
        services=services,
        bursts={burst.pod: burst.limit for burst in state.bursts if not burst.observed},
        given_up=0.0,
        happenings=(),
    )


def _used(pods: Iterable[Pod]) -> float | None:
    """Return the CPU of all of them in cores; None while one of them is not measured."""
    total = 0.0
    for pod in pods:
        if pod.cpu.usage is None:
            return None
        total += pod.cpu.usage
    return total
