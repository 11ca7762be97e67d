"""A source of the StatesInformer: kubelet's groups, with what the cluster says of the pods in them.

A group that the cluster does not name (yet) is what its place in kubelet's tree says, without a label. What the cluster names without a
group runs no processes here and is nobody.
"""

from __future__ import annotations

from msgspec.structs import replace

from qosmanager.collect.kubepods import Kubepods
from qosmanager.kubernetes.cluster import Cluster
from qosmanager.kubernetes.pods import KnownPod
from qosmanager.model.workload import Container, Workload


class ClusterPods:
    """Joins the two by the uid in a group's name."""

    def __init__(self, groups: Kubepods, cluster: Cluster) -> None:
        self._groups = groups
        self._cluster = cluster

    @property
    def in_use(self) -> bool:
        """Whether kubelet's tree was found."""
        return self._groups.in_use

    @property
    def problems(self) -> tuple[str, ...]:
        """What was not to be read or heard in the last scan, for people."""
        return (*self._groups.problems, *self._cluster.problems)

    @property
    def writes_cpusets_below(self) -> str | None:
        """Return the group below which kubelet writes cpusets itself, if there is one."""
        return self._groups.writes_cpusets_below

    @property
    def may_write_cpusets_below(self) -> str | None:
        """Return that group where it is not known whether kubelet does."""
        return self._groups.may_write_cpusets_below

    @property
    def revision(self) -> object:
        """What is another one whenever the cluster says something else."""
        return self._cluster.revision()

    def watched(self) -> list[str]:
        return self._groups.watched()

    def be_homes(self) -> list[str]:
        return self._groups.be_homes()

    def owns(self, group: str) -> bool:
        return self._groups.owns(group)

    def forget(self) -> None:
        self._groups.forget()

    def scan(self) -> list[Workload]:
        """Return the pods in order of their groups."""
        heard = self._cluster.heard().pods
        found = [(workload, heard.get(workload.uid)) for workload in self._groups.scan()]
        named: dict[str, str] = {}  # key -> uid: of two pods of one name, the one that stays has it
        for _, pod in sorted(found, key=lambda each: each[1] is None or each[1].terminating):
            if pod is not None:
                named.setdefault(pod.key, pod.uid)
        return [workload if pod is None else _joined(workload, pod, named[pod.key] == pod.uid) for workload, pod in found]


def _joined(workload: Workload, pod: KnownPod, has_name: bool) -> Workload:
    claims = pod.claims
    joined = replace(
        workload,
        qos=pod.qos or workload.qos,
        uid=pod.uid,
        priority=pod.priority,
        created=workload.created if pod.created is None else pod.created,
        critical=pod.critical,
        terminating=pod.terminating,
        owner=pod.owner,
        labelled=pod.labelled,
        slo_p99=pod.slo_p99,
        latency=pod.latency,
        grace=pod.grace,
        containers=tuple(_named(container, pod.containers) for container in workload.containers),
        exclusive_cpus=workload.exclusive_cpus or pod.exclusive_cpus,
    )
    if has_name:
        joined = replace(joined, name=pod.name, namespace=pod.namespace)
    if claims is None:
        return joined
    return replace(
        joined,
        cpu_request=claims.cpu_request or None,
        cpu_limit=claims.cpu_limit,
        memory_request=claims.memory_request or None,
        memory_limit=claims.memory_limit,
    )


def _named(container: Container, names: dict[str, str]) -> Container:
    """Return the container by the name in its pod, where its group's name holds a runtime's id that the cluster names."""
    group = container.cgroup.rpartition("/")[2]
    return next((replace(container, name=name) for runtime_id, name in names.items() if runtime_id in group), container)
