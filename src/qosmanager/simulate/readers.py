"""The model behind the ports of the measuring side: clock, node, groups, tree, workloads, latencies (ports.py, collect/readings.py).

The real sampler makes rates, trends and leaks of these counters, so that the engine sees what it would see of a real node.
"""

from __future__ import annotations

from collections.abc import Collection

from qosmanager.collect.readings import CpuCounters, GroupGoneError, IoCounters, NodeCounters, Stall
from qosmanager.execute.shield import NEGLIGIBLE
from qosmanager.model.qos import QoS
from qosmanager.model.snapshot import PodLatency
from qosmanager.model.workload import Workload
from qosmanager.simulate.groups import PLACES
from qosmanager.simulate.node import SimulatedNode
from qosmanager.simulate.pods import SimulatedPod
from qosmanager.simulate.scenario import Layout
from qosmanager.simulate.service import ServicePod

_BOOTED = 1000.0  # seconds on the monotonic clock at tick 0


class SimulatedClock:
    """Time as the model has it; `epoch` is the wall time of tick 0."""

    def __init__(self, node: SimulatedNode, epoch: float) -> None:
        self._node = node
        self._epoch = epoch

    def monotonic(self) -> float:
        return _BOOTED + self._node.now

    def wall(self) -> float:
        return self._epoch + self._node.now


class SimulatedNodeReader:
    """The node's counters."""

    def __init__(self, node: SimulatedNode) -> None:
        self._node = node

    def read(self) -> NodeCounters:
        node = self._node
        memory, disk, total = node.memory, node.disk, node.cpus * node.now
        return NodeCounters(
            cpus=node.cpus,
            cpu_busy=node.busy,
            cpu_total=total,
            # What waits for the disk leaves its CPU idle: at most that is told.
            iowait=min(disk.stalled, max(0.0, total - node.busy)),
            load1=node.load,
            memory_total=node.machine.memory,
            memory_available=memory.available,
            swap_total=node.machine.swap,
            swap_used=memory.swap_used,
            pgscan_direct=round(memory.direct),
            pgscan_kswapd=round(memory.kswapd),
            cpu_psi_some=node.stall_average,
            memory_psi_full=memory.average,
            io_psi_some=disk.average,
            disks={"disk": disk.busy},
            missing=_MISSING,
        )


_NOT_MODELLED = "the model has none"
_MISSING = {f"node.{name}": _NOT_MODELLED for name in ("context_switches", "softirq", "steal", "net_util", "cpu_psi_full", "io_psi_full")}


class SimulatedGroup:
    """One pod's group, kept open: it is gone with the pod, also when another one of that name has come."""

    def __init__(self, node: SimulatedNode, pod: SimulatedPod | None) -> None:
        self._node = node
        self._pod = pod
        self._uid = pod.workload.uid if pod is not None and pod.workload is not None else None

    def _here(self) -> SimulatedPod:
        pod = self._pod
        if pod is None or pod.workload is None or pod.workload.uid != self._uid:
            raise GroupGoneError
        return pod

    def cpu(self) -> CpuCounters:
        pod = self._here()
        return CpuCounters(pod.usage, pod.periods, pod.throttled)

    def throttling(self) -> tuple[int, int]:
        pod = self._here()
        return pod.periods, pod.throttled

    def quota(self) -> float:
        return self._here().quota

    def weight(self) -> float | None:
        return self._here().weight / 1024

    def held_memory(self) -> int:
        return self._here().rss

    def memory_limit(self) -> int | None:
        return self._here().spec.limits.memory

    def cpuset(self) -> tuple[int, ...]:
        return self._here().own_cpus

    def cpu_stall(self) -> Stall:
        return Stall(0.0, self._here().stalled)

    def stall_averages(self) -> tuple[float, float]:
        self._here()
        return self._node.memory.average, self._node.disk.average

    def io(self) -> IoCounters:
        raise OSError(_NOT_MODELLED)

    def close(self) -> None:
        """Nothing is held."""


class SimulatedGroups:
    """Opens groups."""

    def __init__(self, node: SimulatedNode) -> None:
        self._node = node
        self._by_group = {pod.group: pod for pod in node.pods.values()}

    def open(self, group: str) -> SimulatedGroup:
        return SimulatedGroup(self._node, self._by_group.get(group))

    def own_limit(self, group: str) -> float | None:
        """Return a pod's limit before a burst; None: it has the one it had."""
        pod = self._by_group[group]
        return pod.limit if pod.quota != pod.limit else None


class SimulatedIsolation:
    """How BE's group stands beside those of the services: in both layouts they are siblings."""

    def __init__(self, node: SimulatedNode) -> None:
        self._node = node

    def shielded(self, batch: Collection[str], services: Collection[str]) -> tuple[bool | None, str]:
        """Tell whether BE makes way: it is idle, or has next to no share beside any group of services."""
        del services  # the model knows them
        if not batch:
            return None, "there is no BE"
        share = self._node.groups.batch_share
        return share <= NEGLIGIBLE, f"BE's share beside services that want all of the CPU is {share:.4f}"

    def memory(self, group: str) -> int | None:
        """Page cache is not in the model."""
        del group
        return None


class SimulatedTree:
    """The tree of groups, as far as the informer looks at it."""

    root = "the simulated node"

    def __init__(self, node: SimulatedNode) -> None:
        self._node = node

    def children(self, group: str) -> dict[str, tuple[int, int]]:
        places = (pod.group.rpartition("/") for pod in self._node.here)
        return {name: (1, 2) for parent, _, name in places if parent == group}

    def identity(self, group: str) -> tuple[int, int] | None:
        del group
        return 1, self._node.generation

    def created(self, group: str) -> float | None:
        del group
        return None

    def has_processes(self, group: str) -> bool:
        del group
        return False


class SimulatedSource:
    """Who runs here: the informer's source of workloads."""

    in_use = True
    problems: tuple[str, ...] = ()
    writes_cpusets_below = None
    may_write_cpusets_below = None
    revision = None

    def __init__(self, node: SimulatedNode) -> None:
        self._node = node
        self._batch = PLACES[node.machine.layout][QoS.BE]

    def watched(self) -> list[str]:
        return [self._batch]

    def be_homes(self) -> list[str]:
        return [self._batch]

    def owns(self, group: str) -> bool:
        del group
        return self._node.machine.layout is Layout.KUBERNETES

    def scan(self) -> list[Workload]:
        return [pod.workload for pod in self._node.here if pod.workload is not None]

    def forget(self) -> None:
        """Nothing is kept between scans."""


class SimulatedLatencies:
    """What the services' metrics pages would tell: the p99 of the last second, or of the last 100 requests."""

    def __init__(self, node: SimulatedNode) -> None:
        self._node = node

    def watch(self, workloads: tuple[Workload, ...]) -> None:
        """All services are always watched."""

    def latest(self, key: str) -> PodLatency | None:
        pod = self._node.pods[key]
        return PodLatency(p99=pod.told) if isinstance(pod, ServicePod) and pod.told is not None else None

    def problems(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        """Nothing is asked."""
