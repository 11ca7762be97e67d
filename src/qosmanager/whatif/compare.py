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


class Outcome(Struct, frozen=True, kw_only=True):
    """One configuration: what it came to, by the demand that was assumed."""

    name: str
    totals: dict[Bound, Totals]


Watcher = Callable[[str, Bound, Cycle], None]
"""Is told of each simulated cycle: the configuration's name, the bound, the cycle."""


def compare(observed: Observed, configurations: dict[str, Settings], seed: int, watch: Watcher) -> tuple[Outcome, ...]:
    """Run each configuration, by its name."""
    outcomes = []
    for name, settings in configurations.items():
        totals = {}
        for bound in Bound:
            loaded = rebuild(observed, bound)
            tally = Tally(loaded, settings)
            for cycle in managed(loaded, settings, seed):
                tally.add(cycle)
                watch(name, bound, cycle)
            totals[bound] = tally.totals(has_slo=observed.has_slo)
        outcomes.append(Outcome(name=name, totals=totals))
    return tuple(outcomes)


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
