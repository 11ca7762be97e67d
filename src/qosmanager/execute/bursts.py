"""Raised limits of LS pods (specification, sections 5.3 and 9).

In: a `SetCpuLimit` and where the pod lies. Out: a family, or the reason why nothing is written. The pod's group first, then its
throttled containers by the same ratio. Nothing is ever lowered: a pod that the kernel gives more than the new limit is refused.
"""

from __future__ import annotations

import math

from qosmanager.execute.dialect import quota_file, quota_text
from qosmanager.execute.family import Family, Wish
from qosmanager.execute.ledger import Ledger
from qosmanager.execute.tree import GroupLimit, cpu_version, group_limit
from qosmanager.execute.writing import Trouble
from qosmanager.model.actions import Receipt, Result, SetCpuLimit
from qosmanager.model.qos import is_latency_sensitive
from qosmanager.model.workload import Placement, Workload
from qosmanager.ports import KernelFiles

_THROTTLED = 0.05  # the ratio above which CPUBurst calls a pod throttled


def burst_family(kernel: KernelFiles, ledger: Ledger, action: SetCpuLimit, placement: Placement) -> Family | Receipt:
    """Work out what raises the pod's limit to `action.cores`."""
    workload = placement.workloads.get(action.pod)
    if workload is None:
        return Receipt(target=action.pod, result=Result.GONE, pod=action.pod, detail="no such pod any more")
    if not is_latency_sensitive(workload.qos) or action.cores < action.base:
        detail = f"{action.cores:g} cores for a {workload.qos.value} pod whose own limit is {action.base:g}: only LS limits are raised"
        return Receipt(target=action.pod, result=Result.REFUSED, pod=action.pod, detail=detail)
    pod = group_limit(kernel, ledger, workload.cgroup)
    if isinstance(pod, Trouble):
        target = str(quota_file(cpu_version(kernel), workload.cgroup))
        return Receipt(target=target, result=pod.result, pod=action.pod, detail=pod.detail)
    if math.isfinite(pod.own.us) and pod.own.cores > action.cores * 1.001:
        detail = f"the kernel gives it {pod.own.cores:g} cores already; {action.cores:g} would lower that"
        return Receipt(target=str(pod.file), result=Result.REFUSED, pod=action.pod, before=pod.text, detail=detail)
    wishes = _wishes(pod, _containers(kernel, ledger, workload, placement), action)
    if not wishes:
        detail = "neither its group nor a container has a limit in the kernel that could be raised"
        return Receipt(target=str(pod.file), result=Result.REFUSED, pod=action.pod, before=pod.text, detail=detail)
    return Family(wishes=tuple(wishes), pod=action.pod, burst=True)


def _wishes(pod: GroupLimit, containers: list[GroupLimit], action: SetCpuLimit) -> list[Wish]:
    wishes = []
    if math.isfinite(pod.own.us):
        wishes.append(Wish(pod.file, quota_text(pod.version, action.cores, pod.own.period)))
    ratio = action.cores / action.base if action.base > 0 else 1.0
    for container in containers:
        cores = container.own.cores * ratio
        if math.isfinite(pod.own.us):
            cores = max(container.own.cores, min(cores, action.cores))
        wishes.append(Wish(container.file, quota_text(container.version, cores, container.own.period)))
    return wishes


def _containers(kernel: KernelFiles, ledger: Ledger, workload: Workload, placement: Placement) -> list[GroupLimit]:
    """The limits of the throttled containers; of all limited ones, when the pod bursts by its usage and none is throttled yet."""
    finite = []
    for container in workload.containers:
        limit = group_limit(kernel, ledger, container.cgroup)
        if not isinstance(limit, Trouble) and math.isfinite(limit.own.us):
            finite.append((container.cgroup, limit))
    throttled = [limit for cgroup, limit in finite if placement.throttled.get(cgroup, 0.0) > _THROTTLED]
    return throttled or [limit for _, limit in finite]
