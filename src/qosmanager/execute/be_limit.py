"""The BE limit in the kernel: at the parent of all BE, or shared among the BE pods' groups (specification, sections 5.4, 9 and 11).

In: cores, who BE is, their usage. Out: families of wishes. A group is never raised above its own limit; its kernel burst stays within
its quota; on v1 limits of groups below it are lowered with it (the kernel wants child <= parent) and rise with it again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from posixpath import dirname

from qosmanager.execute.dialect import PERIOD_US, burst_file, parse_us, quota_file, quota_text
from qosmanager.execute.family import Family, Wish
from qosmanager.execute.ledger import Ledger
from qosmanager.execute.sharing import Claim, settled, shares
from qosmanager.execute.tree import GroupLimit, below, ceiling, cpu_version, group_limit
from qosmanager.execute.writing import Trouble, read
from qosmanager.model.qos import QoS
from qosmanager.model.workload import Placement, Workload
from qosmanager.ports import KernelFiles


def be_workloads(placement: Placement) -> list[Workload]:
    """The BE pods, by key."""
    return [placement.workloads[key] for key in sorted(placement.workloads) if placement.workloads[key].qos is QoS.BE]


def holders(placement: Placement) -> dict[str, str | None]:
    """The groups that hold BE, each with the key of its pod (None: the parent of all)."""
    if placement.be_parent is not None:
        return {placement.be_parent: None}
    return {workload.cgroup: workload.key for workload in be_workloads(placement)}


class BeLimit:
    """Divides the BE limit over the groups that hold BE; remembers the shares in force."""

    def __init__(self, kernel: KernelFiles, ledger: Ledger) -> None:
        self._kernel = kernel
        self._ledger = ledger
        self._limit = math.nan
        self.in_force: dict[str, float] = {}

    def divide(self, cores: float, placement: Placement, usage: Mapping[str, float | None]) -> dict[str, float]:
        """Cores by group. Shares that would hardly move stay as they are."""
        groups = holders(placement)
        if placement.be_parent is not None:
            divided = {placement.be_parent: cores}
        else:
            # Pods lie in few groups: what those allow is read once.
            ceilings = {above: ceiling(self._kernel, self._ledger, above) for above in {dirname(group) for group in groups}}
            claims = {
                group: Claim(own=min(self._own(group), ceilings[dirname(group)]), usage=usage.get(key or ""))
                for group, key in groups.items()
            }
            divided = shares(cores, claims)
            if cores == self._limit and settled(cores, self.in_force, divided):
                divided = self.in_force
        self._limit, self.in_force = cores, divided
        return divided

    def families(self, divided: Mapping[str, float], placement: Placement) -> list[Family]:
        """What is to be written so that each group holds its cores. Groups that are gone are left out."""
        pods = holders(placement)
        return [self._family(group, cores, pods.get(group)) for group, cores in sorted(divided.items())]

    def _own(self, group: str) -> float:
        limit = group_limit(self._kernel, self._ledger, group)
        return math.inf if isinstance(limit, Trouble) else limit.own.cores

    def _family(self, group: str, cores: float, pod: str | None) -> Family:
        wishes: list[Wish] = []
        limit = group_limit(self._kernel, self._ledger, group)
        if isinstance(limit, Trouble):
            # The wish meets the same trouble, which then is its receipt.
            version = cpu_version(self._kernel)
            return Family(wishes=(Wish(quota_file(version, group), quota_text(version, cores, PERIOD_US)),), pod=pod)
        held = min(cores, limit.own.cores)
        if limit.version == 1:
            held = min(held, ceiling(self._kernel, self._ledger, dirname(group)))
        wishes += self._hold(group, limit, held)
        if limit.version == 1:
            for child in below(self._kernel, "cpu", group):
                inner = group_limit(self._kernel, self._ledger, child)
                if not isinstance(inner, Trouble) and math.isfinite(inner.own.us):
                    wishes += self._hold(child, inner, min(held, inner.own.cores))
        return Family(wishes=tuple(wishes), pod=pod)

    def _hold(self, group: str, limit: GroupLimit, cores: float) -> list[Wish]:
        text = limit.text if cores >= limit.own.cores else quota_text(limit.version, cores, limit.own.period)
        wishes = [Wish(limit.file, text)]
        burst = burst_file(limit.version, group)
        now = read(self._kernel, burst)
        if isinstance(now, str):  # older kernels have no burst
            entry = self._ledger.entries.get(burst)
            own = parse_us(burst, now if entry is None else entry.original)
            most = min(own, parse_us(limit.file, text))
            if entry is not None or most < own:
                wishes.append(Wish(burst, str(int(most))))
        return wishes
