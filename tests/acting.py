"""A node for the acting side's tests: a fake kernel tree, a journal, an executor, and short ways to say plans and pods."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from kernel_tree import KernelTree
from qosmanager.execute.resource_executor import ResourceExecutor
from qosmanager.linux.journal import FileJournal
from qosmanager.model.actions import (
    Action,
    Evict,
    Plan,
    Receipt,
    RestoreBeCpuLimit,
    RestoreBeCpuset,
    RestoreCpuLimit,
    Result,
    SetBeCpuLimit,
    SetBeCpuset,
    SetCpuLimit,
    Standing,
)
from qosmanager.model.qos import Plugin, QoS
from qosmanager.model.snapshot import Node, Pod, PodCpu, Snapshot
from qosmanager.model.workload import Container, Placement, Workload
from qosmanager.ports import JournalRecord


class FakeBoot:
    """A boot whose clock the test moves."""

    def __init__(self, identity: str = "boot-1") -> None:
        self.id = identity
        self.now = 1000.0

    def time(self) -> float:
        return self.now


class FakeScores:
    """Processes with an oom_score_adj; the start time is 10 x the pid."""

    def __init__(self, **scores: int) -> None:
        self.scores = {int(name.lstrip("p")): value for name, value in scores.items()}
        self.locked: set[int] = set()

    def identity(self, pid: int) -> str:
        self._require(pid)
        return f"{pid}:{pid * 10}"

    def read(self, pid: int) -> int:
        self._require(pid)
        return self.scores[pid]

    def write(self, identity: str, value: int) -> None:
        pid = int(identity.partition(":")[0])
        self._require(pid)
        if pid in self.locked:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        self.scores[pid] = value

    def _require(self, pid: int) -> None:
        if pid not in self.scores:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))


class FullJournal:
    """A journal on a tmpfs without room."""

    def load(self) -> JournalRecord | None:
        return None

    def save(self, record: JournalRecord) -> None:
        del record
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Bench:
    """An executor over a fake kernel. `limit`, `burst`, ... run one cycle each and return its receipts."""

    def __init__(self, path: Path, layout: str = "v1") -> None:
        self.tree = KernelTree(path / "cgroup", layout)
        self.journal = FileJournal(path / "state")
        self.boot = FakeBoot()
        self.scores = FakeScores()
        self.pods: dict[str, Workload] = {}
        self.usage: dict[str, float] = {}
        self.throttled: dict[str, float] = {}
        self.be_parent: str | None = "be"
        self.kubelet_owned = False
        self.kubelet_pods: frozenset[str] = frozenset()
        self.kubelet_cpusets: str | None = None
        self.kubelet_may_write: str | None = None
        self.standing = Standing()
        self.raised: set[str] = set()  # LS pods of which the engine knows a burst
        self.now = 0.0
        self.executor = self.restarted()

    def restarted(self) -> ResourceExecutor:
        """An executor that knows nothing but the journal, as after kill -9."""
        self.executor = ResourceExecutor(self.tree, self.journal, self.scores, self.boot)
        return self.executor

    def pod(self, name: str, qos: QoS, cgroup: str, *containers: str) -> Workload:
        parts = tuple(Container(name=each, cgroup=f"{cgroup}/{each}") for each in containers)
        workload = Workload(name=name, qos=qos, cgroup=cgroup, containers=parts)
        self.pods[workload.key] = workload
        return workload

    @property
    def placement(self) -> Placement:
        return Placement(
            workloads=dict(self.pods),
            be_parent=self.be_parent,
            throttled=self.throttled,
            kubelet_owned=self.kubelet_owned,
            kubelet_pods=self.kubelet_pods,
            kubelet_cpusets=self.kubelet_cpusets,
            kubelet_may_write=self.kubelet_may_write,
        )

    @property
    def snapshot(self) -> Snapshot:
        pods = tuple(Pod(name=each.name, qos=each.qos, cpu=PodCpu(usage=self.usage.get(each.name))) for each in self.pods.values())
        return Snapshot(node=Node(cpus=4.0), pods=pods)

    def cycle(self, *actions: Action) -> tuple[Receipt, ...]:
        self.now += 1.0
        self.boot.now += 1.0
        for action in actions:
            if isinstance(action, SetCpuLimit):
                self.raised.add(action.pod)
            elif isinstance(action, RestoreCpuLimit):
                self.raised.discard(action.pod)
        plan = Plan(actions=actions, standing=self.standing, raised=tuple(sorted(self.raised)))
        return self.executor.apply(plan, self.placement, self.snapshot, self.now)

    def limit(self, cores: float) -> tuple[Receipt, ...]:
        return self.cycle(limit(cores))


def limit(cores: float) -> SetBeCpuLimit:
    return SetBeCpuLimit(plugin=Plugin.CPU_SUPPRESS, reason="test", cores=cores)


def unlimit() -> RestoreBeCpuLimit:
    return RestoreBeCpuLimit(plugin=Plugin.CPU_SUPPRESS, reason="test")


def cpus(text: str) -> SetBeCpuset:
    return SetBeCpuset(plugin=Plugin.CPU_SUPPRESS, reason="test", cpus=text)


def uncpus() -> RestoreBeCpuset:
    return RestoreBeCpuset(plugin=Plugin.CPU_SUPPRESS, reason="test")


def burst(pod: str, cores: float, base: float) -> SetCpuLimit:
    return SetCpuLimit(plugin=Plugin.CPU_BURST, reason="test", pod=pod, cores=cores, base=base)


def unburst(pod: str, cores: float) -> RestoreCpuLimit:
    return RestoreCpuLimit(plugin=Plugin.CPU_BURST, reason="test", pod=pod, cores=cores)


def evict(pod: str, grace: float | None = None) -> Evict:
    return Evict(plugin=Plugin.CPU_EVICT, reason="test", pod=pod, grace=grace)


def results(receipts: tuple[Receipt, ...]) -> list[Result]:
    return [receipt.result for receipt in receipts]
