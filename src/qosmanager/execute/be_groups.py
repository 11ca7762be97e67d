"""Who holds BE now, worked out once a cycle (specification, sections 5.4 and 11)."""

from __future__ import annotations

from msgspec import Struct

from qosmanager.model.qos import QoS
from qosmanager.model.workload import Placement


class BeGroups(Struct, frozen=True, kw_only=True):
    """The groups at which BE is held, in their order, each with the key of its pod (None: `parent`, the one that holds all BE); the BE
    pods' own groups and their containers'; and the group below which kubelet writes cpusets itself, or may. When any of this changes, the
    files to be written change."""

    holders: dict[str, str | None]
    pods: tuple[str, ...]
    containers: tuple[str, ...]
    parent: str | None
    kubelet_cpusets: str | None
    kubelet_may_write: str | None

    @classmethod
    def of(cls, placement: Placement) -> BeGroups:
        """Look for BE in a placement."""
        workloads = sorted((workload.cgroup, key, workload) for key, workload in placement.workloads.items() if workload.qos is QoS.BE)
        parent = placement.be_parent
        return cls(
            holders={group: key for group, key, _ in workloads} if parent is None else {parent: None},
            pods=tuple(group for group, _, _ in workloads),
            containers=tuple(container.cgroup for _, _, workload in workloads for container in workload.containers),
            parent=parent,
            kubelet_cpusets=placement.kubelet_cpusets,
            kubelet_may_write=placement.kubelet_may_write,
        )
