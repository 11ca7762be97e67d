"""Readings on a grid: what makes a recording small, applied before anything is decided (docs/record.md).

In: a snapshot as measured. Out: the same with every reading at a whole number of steps, fine enough that no threshold of the
specification notices: a thousandth of a core, a page of memory, some thousandths of a percent. What is declared stays as it is.

Steps are powers of two: then adding a large number and taking it away again rounds, and the sum, read as a whole number, counts steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ldexp, ulp
from typing import Any, NamedTuple

from msgspec.structs import replace

from qosmanager.model.snapshot import NOT_OBSERVED, Node, Pod, PodLatency, PodMemory, PodObserved, Snapshot
from qosmanager.model.workload import Placement
from qosmanager.ports import Readings


class Grid(NamedTuple):
    """A reading: its field, whether it is a whole number, and the number whose sum with a value ends at the value's steps, for a float's
    last bit is one step there."""

    field: str
    shift: float
    whole: bool = False

    @property
    def step(self) -> float:
        """The size of one step."""
        return ulp(self.shift)

    def value(self, reading: float | None) -> float | None:
        """Return the nearest value on the grid."""
        if reading is None:
            return None
        nearest = (reading + self.shift) - self.shift
        return int(nearest) if self.whole else nearest


def _grid(field: str, power: int) -> Grid:
    """Return the grid whose step is 2 to this power."""
    return Grid(field, ldexp(1.5, 52 + power))


def _whole(field: str, power: int) -> Grid:
    return _grid(field, power)._replace(whole=True)


_CORES, _PERCENT, _SECONDS, _LATENCIES = -10, -8, -10, -17
_KIB, _PAGE = 10, 12

CYCLE = (
    _whole("number", 0),
    _grid("wall", _SECONDS),
    _grid("time", _SECONDS),
    _grid("node_age", _SECONDS),
    _whole("paused", 0),
)
TIME, NODE_AGE = CYCLE[2:4]
OWN = (_grid("cpu", -13), _whole("rss", _PAGE), _grid("lag", _SECONDS))
STAGE = _grid("stage", -10)  # of a millisecond
NODE = (
    _grid("cpu_usage", _CORES),
    _grid("cpu_trend", _CORES),
    _grid("load1", _PERCENT),
    _whole("memory_available", _KIB),
    _grid("memory_available_trend", _KIB),
    _whole("swap_used", _KIB),
    _grid("pgscan_direct", -3),
    _grid("pgscan_kswapd", -3),
    _grid("memory_psi_full", _PERCENT),
    _grid("io_psi_some", _PERCENT),
    _grid("iowait", _PERCENT),
    _grid("disk_util", _PERCENT),
    _grid("net_util", _PERCENT),
    _grid("ls_memory_growth", _CORES),
    _grid("cpu_psi_some", _PERCENT),
    _grid("cpu_psi_full", _PERCENT),
    _grid("memory_psi_some", _PERCENT),
    _grid("io_psi_full", _PERCENT),
    _grid("context_switches", 0),
    _grid("softirq", _PERCENT),
    _grid("steal", _PERCENT),
    _grid("ls_cpu_peak", _CORES),
    _grid("ls_cpu_p95", _CORES),
    _grid("cpu_peak_24h", _CORES),
)
CPU = (_grid("usage", _CORES), _grid("usage_mean", _CORES), _grid("wait", _CORES), _grid("throttled", _CORES))
MEMORY = (_whole("rss", _PAGE), _grid("growth", 0))
LATENCY = (_grid("p99", _LATENCIES), _grid("trend", _PERCENT), _grid("median", _LATENCIES))
OBSERVED = (
    _grid("io_read", _KIB),
    _grid("io_write", _KIB),
    _grid("cpu_psi_some", _PERCENT),
    _grid("memory_psi_full", _PERCENT),
    _grid("io_psi_some", _PERCENT),
)

_CORES_SHIFT = CPU[0].shift
_IN_PAGE = (1 << _PAGE) - 1


class Quantiser:
    """Puts one snapshot after the other on the grid; a reading that is the same object as in the snapshot before is looked at once."""

    def __init__(self) -> None:
        self._measured: Sequence[Pod] = ()
        self._pods: Sequence[Pod] = ()

    def take(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot on the grid. Doing it twice changes nothing more."""
        measured = snapshot.pods
        pods = list(map(_pod, measured, self._measured, self._pods))
        pods.extend(_pod(pod, pod, None) for pod in measured[len(pods) :])
        self._measured, self._pods = measured, pods
        return replace(
            snapshot,
            node=_node(snapshot.node),
            pods=tuple(pods),
            time=TIME.value(snapshot.time),
            node_age=NODE_AGE.value(snapshot.node_age),
        )


def _pod(pod: Pod, before: Pod, then: Pod | None) -> Pod:
    """Put a pod on the grid; `then` is what came of the pod `before`, which stood at its place in the last snapshot. What is still the same
    object gives the same object again: by that the encoder sees that nothing is new."""
    cpu, memory, latency, observed = pod.cpu, pod.memory, pod.latency, pod.observed
    usage, mean, wait, throttled = cpu.usage, cpu.usage_mean, cpu.wait, cpu.throttled
    shift = _CORES_SHIFT
    # The one kind of readings that is new in every cycle, of every pod: the grid by hand.
    cpu = replace(
        cpu,
        usage=None if usage is None else (usage + shift) - shift,
        usage_mean=None if mean is None else (mean + shift) - shift,
        wait=None if wait is None else (wait + shift) - shift,
        throttled=None if throttled is None else (throttled + shift) - shift,
    )
    if then is not None and memory is before.memory and latency is before.latency and observed is before.observed:
        return replace(pod, cpu=cpu, memory=then.memory, latency=then.latency, observed=then.observed)
    return replace(
        pod,
        cpu=cpu,
        memory=then.memory if then is not None and memory is before.memory else _memory(memory),
        latency=then.latency if then is not None and latency is before.latency else _latency(latency),
        observed=then.observed if then is not None and observed is before.observed else _observed(observed),
    )


def _memory(memory: PodMemory) -> PodMemory:
    rss, growth = memory.rss, memory.growth
    if rss is not None and not rss & _IN_PAGE and not growth:
        return memory  # as nearly always
    return replace(memory, rss=MEMORY[0].value(rss), growth=MEMORY[1].value(growth))


def _latency(latency: PodLatency) -> PodLatency:
    p99, trend, median = latency.p99, latency.trend, latency.median
    if p99 is None and trend is None and median is None:
        return latency
    return replace(latency, p99=LATENCY[0].value(p99), trend=LATENCY[1].value(trend), median=LATENCY[2].value(median))


def _observed(observed: PodObserved) -> PodObserved:
    if observed is NOT_OBSERVED:
        return observed
    read, write, cpu, memory, io = OBSERVED
    return replace(
        observed,
        io_read=read.value(observed.io_read),
        io_write=write.value(observed.io_write),
        cpu_psi_some=cpu.value(observed.cpu_psi_some),
        memory_psi_full=memory.value(observed.memory_psi_full),
        io_psi_some=io.value(observed.io_psi_some),
    )


def _node(node: Node) -> Node:
    readings: dict[str, Any] = {grid.field: grid.value(getattr(node, grid.field)) for grid in NODE}
    return replace(node, **readings)


class QuantisedReadings:
    """The `Readings` port over another: on the grid while somebody records, and as they are once nobody does. `failure`: what kept readings
    off the grid; they are as they are then, and from then on."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings
        self._quantiser: Quantiser | None = Quantiser()
        self.failure: Exception | None = None
        self.placement = Placement(workloads={})

    def sample(self) -> tuple[Snapshot, Placement]:
        snapshot, self.placement = self._readings.sample()
        quantiser = self._quantiser  # `stop` may come from another thread
        if quantiser is not None:
            try:
                return quantiser.take(snapshot), self.placement
            except Exception as error:  # noqa: BLE001 - whatever it is, the agent's cycle is not to fail for a recording
                self.failure, self._quantiser = error, None
        return snapshot, self.placement

    def stop(self) -> None:
        """Nobody records any more."""
        self._quantiser = None
