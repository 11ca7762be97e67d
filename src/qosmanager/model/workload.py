"""Who runs here and where: a workload's specification and its place in the cgroup tree (specification, sections 1, 9 and 11)."""

from __future__ import annotations

from msgspec import Struct

from qosmanager.model.plain import plain
from qosmanager.model.qos import QoS


class CgroupFile(Struct, frozen=True, order=True):
    """One kernel file: controller ("cpu", "cpuset", "memory", "freezer", "unified"), group relative to the root, file name.

    The controller says which hierarchy; on a pure v2 host all of them lie in the one tree. Of a file that has a line for each device, the
    name with `@` and the device ("io.max@254:0") is that line.
    """

    controller: str
    group: str
    name: str

    def __str__(self) -> str:
        return plain(f"{self.controller}:/{self.group}/{self.name}")


class LatencySource(Struct, frozen=True):
    """Where a pod's p99 comes from: a Prometheus endpoint and the name of its histogram (seconds)."""

    url: str
    histogram: str


class Container(Struct, frozen=True):
    """A container's group below its pod's group."""

    name: str
    cgroup: str


class Workload(Struct, frozen=True, kw_only=True):
    """A pod as declared: its class, its claims, its group. `cgroup` is relative to the cgroup root, without a leading slash.

    `cpu_limit` None: unlimited or not declared; the sampler then reads the kernel's own. `grace` in seconds.
    """

    name: str
    qos: QoS
    cgroup: str
    namespace: str = "default"
    uid: str = ""
    priority: int = 0
    created: float | None = None
    critical: bool = False
    terminating: bool = False
    owner: str | None = None
    labelled: bool = True
    cpu_request: float | None = None
    cpu_limit: float | None = None
    memory_request: int | None = None
    memory_limit: int | None = None
    slo_p99: float | None = None  # seconds
    latency: LatencySource | None = None
    grace: float = 30.0
    containers: tuple[Container, ...] = ()
    exclusive_cpus: tuple[int, ...] = ()  # given to this pod alone by kubelet's static CPU policy

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


class WorkloadRule(Struct, frozen=True, kw_only=True):
    """A declaration of a workload file (section 11). Fields mean what they mean in `Workload`; `None` is not declared.

    `cgroup` is relative to the cgroup root. Its last component, and only that, may be a shell pattern (`*`, `?`, `[...]`): then each
    matching group is a pod of its own, named `<name>-<group>`, and a group that another rule names in full belongs to that rule.
    """

    name: str
    qos: QoS
    cgroup: str
    namespace: str = "default"
    priority: int = 0
    critical: bool = False
    owner: str | None = None
    cpu_request: float | None = None
    cpu_limit: float | None = None
    memory_request: int | None = None
    memory_limit: int | None = None
    slo_p99: float | None = None  # seconds
    latency: LatencySource | None = None
    grace: float = 30.0  # seconds

    @property
    def key(self) -> str:
        """namespace/name; with a pattern, the prefix of its pods' keys."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_pattern(self) -> bool:
        """Whether the rule stands for every group that matches."""
        return any(character in "*?[" for character in self.cgroup)


class Placement(Struct, frozen=True, kw_only=True):
    """Where this cycle's pods lie, for the hands that act: pods by key, the group that holds all BE and nothing else (or None), and
    the throttled ratio of each container group."""

    workloads: dict[str, Workload]
    be_parent: str | None = None
    throttled: dict[str, float] = {}  # container cgroup -> throttled ratio
    kubelet_owned: bool = False  # be_parent is kubelet's: cpu.idle must never be put on it
    kubelet_pods: frozenset[str] = frozenset()  # groups of pods whose files kubelet writes
    kubelet_cpusets: str | None = None  # below this group kubelet's static CPU policy writes cpusets itself; None: nowhere
    kubelet_may_write: str | None = None  # this group, where it is not known whether kubelet has that policy; None: it is known
