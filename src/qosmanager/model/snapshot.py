"""One reading of the node and its pods: the only thing a decision sees of the world (specification, sections 3 and 8).

Hundreds of these are made every second and none can be part of a cycle: the garbage collector is not to look at them (`gc=False`).
A quantity that was not measured is None, never 0 and never NaN; `Snapshot.missing` says why.
"""

from __future__ import annotations

from msgspec import Struct

from qosmanager.model.attribution import Attribution
from qosmanager.model.forecast import Forecast
from qosmanager.model.qos import QoS

EVICTIONS = "evictions"  # what `Snapshot.missing` says of them is why nobody can be evicted now
PODS_STALE_AFTER = 30.0  # seconds; what is known of the pods for longer without a sign that it still holds is no ground to evict on


class CpuId(Struct, frozen=True, gc=False):
    """A logical CPU and where it sits: physical core, socket and NUMA node, by the kernel's ids."""

    cpu: int
    core: int = 0
    socket: int = 0
    numa: int = 0


class Node(Struct, frozen=True, kw_only=True):
    """The node's readings. Cores, bytes, bytes/s, pages/s, percent, percentage points per minute: see each name.

    `system_reserved` is the reservation that a document gives; the larger of it and the configured one holds.
    """

    cpus: float
    cpu_usage: float | None = None
    system_reserved: float = 0.0
    cpu_trend: float | None = None  # percentage points per minute, of the node's CPU percent without BE
    load1: float | None = None
    memory_total: int | None = None
    memory_available: int | None = None
    memory_available_trend: float | None = None  # bytes/s, negative: falling
    swap_total: int | None = None
    swap_used: int | None = None
    pgscan_direct: float | None = None  # pages/s
    pgscan_kswapd: float | None = None  # pages/s
    memory_psi_full: float | None = None  # percent, avg10
    io_psi_some: float | None = None  # percent, avg10
    iowait: float | None = None  # percent
    disk_util: float | None = None  # percent, busiest disk
    net_util: float | None = None  # percent of link speed, busiest link
    ls_memory_growth: float | None = None  # percent of the LS pods' rss per minute
    # Observed and shown, in no formula.
    cpu_psi_some: float | None = None
    cpu_psi_full: float | None = None
    memory_psi_some: float | None = None
    io_psi_full: float | None = None
    context_switches: float | None = None  # per second
    softirq: float | None = None  # percent
    steal: float | None = None  # percent
    ls_cpu_peak: float | None = None  # cores, largest 1-minute mean of LS usage at this hour of day, 7 days
    ls_cpu_p95: float | None = None  # cores, p95 of the same
    cpu_peak_24h: float | None = None  # cores, largest 1-minute mean of the node's usage in the last 24 hours
    topology: tuple[CpuId, ...] = ()  # the usable CPUs; empty: ids 0 to cpus-1, one core each


class PodCpu(Struct, frozen=True, gc=False, kw_only=True):
    """Cores, and ratios 0 to 1. `limit` is the pod's own, never a raised one."""

    request: float | None = None
    limit: float | None = None
    usage: float | None = None
    usage_mean: float | None = None  # 5 minutes
    wait: float | None = None  # cores: CPU PSI some rate of the pod's group x usage
    throttled: float | None = None  # ratio: throttled periods / periods, largest of the containers


class PodMemory(Struct, frozen=True, gc=False, kw_only=True):
    """Bytes; growth in bytes/min over three 10-minute windows, 0 where it is no leak; `growth_before`: that from the first of them to the
    second alone, 0 where it is no leak, or not told."""

    request: int | None = None
    limit: int | None = None
    rss: int | None = None  # anonymous + shmem + swap; page cache is not held
    growth: float | None = None
    growth_before: float = 0.0


class PodLatency(Struct, frozen=True, gc=False, kw_only=True):
    """Seconds; trend in percent of the SLO per minute."""

    p99: float | None = None
    slo: float | None = None
    trend: float | None = None
    median: float | None = None  # the pod's own 5-minute median of p99


class PodObserved(Struct, frozen=True, gc=False, kw_only=True):
    """Readings of a pod that are shown, bytes/s and PSI avg10 percent; of I/O, BE's limit goes by them (`isolation.io`)."""

    io_read: float | None = None
    io_write: float | None = None
    cpu_psi_some: float | None = None
    memory_psi_full: float | None = None
    io_psi_some: float | None = None


NO_CPU = PodCpu()
NO_MEMORY = PodMemory()
NO_LATENCY = PodLatency()
NOT_OBSERVED = PodObserved()


class Pod(Struct, frozen=True, gc=False, kw_only=True):
    """One managed workload and its readings; `created` is wall time (epoch seconds) and only orders victims."""

    name: str
    qos: QoS
    namespace: str = "default"
    uid: str = ""
    priority: int = 0
    created: float | None = None  # None counts as oldest
    critical: bool = False
    terminating: bool = False
    owner: str | None = None  # kind of the controller; DaemonSet and Node are never evicted
    labelled: bool = True  # has a QoS label of its own; an unlabelled BestEffort pod is evicted only on request
    exclusive_cpus: tuple[int, ...] = ()  # CPUs that are this pod's alone (LSE, kubelet's static policy)
    cpu: PodCpu = NO_CPU
    memory: PodMemory = NO_MEMORY
    latency: PodLatency = NO_LATENCY
    observed: PodObserved = NOT_OBSERVED

    @property
    def key(self) -> str:
        """namespace/name, the pod's name in plans and states and the last key of every sort."""
        return f"{self.namespace}/{self.name}"

    @property
    def identity(self) -> str:
        """What no other pod of its name has: its uid; its key where nobody gives uids."""
        return self.uid or self.key


class Snapshot(Struct, frozen=True, kw_only=True):
    """All that one cycle decides on.

    `time` is seconds on a clock that never jumps (in a document: epoch seconds); None: ages and cooldowns count as over.
    `be_cpus` are the CPUs that BE's groups may have, sets of our own left aside; empty: not known, any of the node's. `be_shielded`: the
    kernel itself puts BE behind all others (its group has the smallest weight, or is idle, among its siblings). `be_memory`: bytes
    that the group of all BE holds, page cache and all (v2; read while `isolation.memory` is on). `node_age` is how old the node's sample
    is. `pods_age`: seconds since it was last certain that what the cluster says of the pods is so; None: no cluster is asked.
    `missing` maps a reading ("node.io_psi_some", "pods.shop/api.cpu.wait") to the reason why it is None.
    """

    node: Node
    pods: tuple[Pod, ...] = ()
    be_cpus: tuple[int, ...] = ()
    be_shielded: bool = False
    be_memory: int | None = None
    time: float | None = None
    node_age: float = 0.0
    pods_age: float | None = None
    paused: bool = False
    missing: dict[str, str] = {}
    forecasts: tuple[Forecast, ...] = ()  # of each service, what it wants within the next minutes
    attributions: tuple[Attribution, ...] = ()  # services that suffer, and who is suspected; a tie-break of CPUEvict
