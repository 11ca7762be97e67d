"""The measuring side over real files, with a clock that tests move by hand."""

from __future__ import annotations

from pathlib import Path

from kernel_tree import KernelTree
from proc_tree import ProcTree
from qosmanager.collect.kubepods import Kubepods
from qosmanager.collect.sampler import Sampler, Sources
from qosmanager.collect.states_informer import RuleSource, StatesInformer
from qosmanager.config.settings import Settings
from qosmanager.linux.cgroup_reader import CgroupReaders
from qosmanager.linux.cgroup_tree import CgroupTree
from qosmanager.linux.host import HostNode
from qosmanager.linux.kubelet import KubeletCpus
from qosmanager.model.qos import QoS
from qosmanager.model.snapshot import PodLatency
from qosmanager.model.workload import Workload, WorkloadRule

WALL = 1_790_000_000.0


class HandClock:
    """Stands still until `advance`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return WALL + self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class Told:
    """Latencies as told, by key."""

    def __init__(self) -> None:
        self.known: dict[str, PodLatency] = {}
        self.watched: tuple[Workload, ...] = ()
        self.troubles: tuple[str, ...] = ()
        self.closed = False

    def watch(self, workloads: tuple[Workload, ...]) -> None:
        self.watched = workloads

    def latest(self, key: str) -> PodLatency | None:
        return self.known.get(key)

    def problems(self) -> tuple[str, ...]:
        return self.troubles

    def close(self) -> None:
        self.closed = True


class Bench:
    """A sampler with everything around it."""

    def __init__(self, path: Path, rules: tuple[WorkloadRule, ...] = (), layout: str = "v1") -> None:
        self.proc = ProcTree(path / "host")
        self.kernel = KernelTree(path / "cgroup", layout)
        self.clock = HandClock()
        self.latencies = Told()
        self.own: dict[str, float] = {}
        self.tree = CgroupTree(self.kernel.files)
        self.readers = CgroupReaders(self.kernel.files)
        self.checkpoint = path / "cpu_manager_state"
        self.cpu_manager = KubeletCpus(self.checkpoint)
        self.sampler = Sampler(
            Sources(
                clock=self.clock,
                node=HostNode(self.proc.proc, self.proc.sysfs),
                groups=self.readers,
                informer=self.informer(rules),
                latencies=self.latencies,
                own_limit=self.own.get,
            ),
            Settings(),
        )

    def informer(self, rules: tuple[WorkloadRule, ...]) -> StatesInformer:
        return StatesInformer(self.tree, (RuleSource(self.tree, rules), Kubepods(self.tree, self.readers, self.cpu_manager)))

    def pods(self):
        snapshot, _ = self.sampler.sample()
        return {pod.name: pod for pod in snapshot.pods}

    def pod(self, name: str):
        return self.pods()[name]


def rule(name: str, cgroup: str, qos: QoS = QoS.LS, **fields) -> WorkloadRule:
    return WorkloadRule(name=name, cgroup=cgroup, qos=qos, **fields)
