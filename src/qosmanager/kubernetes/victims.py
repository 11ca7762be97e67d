"""Who owns a pod that is evicted, and the events that tell of it (specification, section 7).

In: a pod's metadata as the API has it, an action. Out: values and happenings.
"""

from __future__ import annotations

from msgspec import Struct

from qosmanager.kubernetes.events import About, Happening
from qosmanager.kubernetes.pod_json import Metadata
from qosmanager.model.actions import Evict
from qosmanager.model.qos import Plugin
from qosmanager.model.workload import Workload

_MIB = 1 << 20
_MB = 1_000_000
_NODE_REASONS = {Plugin.CPU_EVICT: "CPUEviction", Plugin.MEMORY_EVICT: "MemoryEviction"}


class Owner(Struct, frozen=True):
    """A pod's controller: its uid ("": it has none), and its kind and name for people."""

    uid: str = ""
    text: str = ""


def owner_of(metadata: Metadata) -> Owner:
    """Return the controller that a pod's metadata names."""
    for each in metadata.owner_references or ():
        if each.controller and each.uid:
            return Owner(each.uid, f"{metadata.namespace}/{each.kind}/{each.name}")
    return Owner()


def evicted(action: Evict, workload: Workload, node: About) -> tuple[Happening, Happening]:
    """Return what is told of an eviction that the API server has granted: on the pod, and on the node."""
    pod = _pod(workload)
    leak = (
        f"; it leaks {(action.growth or 0.0) / _MB:.1f} MB/min, so its successors stay until a person looks at it" if action.leaking else ""
    )
    on_pod = Happening(about=pod, reason="Evicted", action="Evict", note=f"{action.plugin.value}: {action.reason}{leak}", related=node)
    note = f"evicted {action.pod} to free {_freed(action)}: {action.reason}{leak}"
    reason = _NODE_REASONS.get(action.plugin, "Eviction")
    return on_pod, Happening(about=node, reason=reason, action="Evict", note=note, topic=workload.uid, related=pod)


def withheld(action: Evict, workload: Workload, owner: Owner, why: str) -> Happening:
    """Return what is told instead of an eviction; the pods of one owner share a series."""
    note = f"{action.plugin.value} would evict it to free {_freed(action)}, but {why}"
    about = _pod(workload)
    return Happening(about=about, reason="EvictionWithheld", action="Withhold", note=note, topic=owner.uid)


def _pod(workload: Workload) -> About:
    return About("Pod", workload.name, workload.namespace, workload.uid)


def _freed(action: Evict) -> str:
    if action.plugin is Plugin.CPU_EVICT:
        return f"{action.cpu or 0.0:.2f} cores"
    return f"{(action.memory or 0) / _MIB:.2f} MiB"
