"""The pods of a snapshot sorted by class, with the sums that every judgement starts from (specification, sections 2, 3 and 5)."""

from __future__ import annotations

from msgspec import Struct

from qosmanager.model.qos import QoS, is_latency_sensitive
from qosmanager.model.snapshot import Pod, Snapshot

_LAST_DIGIT = 1e-9  # above it rounding changes nothing, and costs; there are hundreds of comparisons in a cycle


class Census(Struct, frozen=True, kw_only=True):
    """Sums are in cores over measured pods only; `unmeasured` names the pods (but SYSTEM ones) whose usage is unknown."""

    ls: tuple[Pod, ...]
    be: tuple[Pod, ...]
    ls_usage: float
    be_usage: float
    ls_request: float
    unmeasured: tuple[str, ...]

    @classmethod
    def of(cls, snapshot: Snapshot) -> Census:
        """Count a snapshot's pods; pods are taken in the order of their keys, so that sums do not depend on the order given."""
        ls: list[Pod] = []
        be: list[Pod] = []
        for pod in sorted(snapshot.pods, key=lambda pod: (pod.namespace, pod.name)):
            if pod.qos is QoS.BE:
                be.append(pod)
            elif is_latency_sensitive(pod.qos):
                ls.append(pod)
        return cls(
            ls=tuple(ls),
            be=tuple(be),
            ls_usage=sum(pod.cpu.usage or 0.0 for pod in ls),
            be_usage=sum(pod.cpu.usage or 0.0 for pod in be),
            ls_request=sum(pod.cpu.request or 0.0 for pod in ls),
            unmeasured=tuple(pod.key for pod in (*ls, *be) if pod.cpu.usage is None),
        )

    def system_usage(self, node_usage: float | None) -> float | None:
        """Return node usage less all pods but the SYSTEM ones; None while any of them, or the node, is not measured."""
        if node_usage is None or self.unmeasured:
            return None
        return max(0.0, node_usage - self.ls_usage - self.be_usage)


def demand(pod: Pod, granted: float | None) -> float | None:
    """Return what a pod would use if nobody kept it waiting, in cores; None when its usage is not measured.

    Usage + wait, at most the granted burst limit or the pod's own limit, never less than usage: what its own limit withholds is
    not the node's fault (section 3).
    """
    usage = pod.cpu.usage
    if usage is None:
        return None
    wanted = usage + (pod.cpu.wait or 0.0)
    ceiling = granted if granted is not None else pod.cpu.limit
    return max(usage, wanted if ceiling is None else min(wanted, ceiling))


def is_above(value: float, bound: float) -> bool:
    """Compare as the specification does: after rounding to 9 digits (section 4)."""
    more = value - bound
    return more > _LAST_DIGIT or (more > 0 and round(more, 9) > 0)


def is_at_least(value: float, bound: float) -> bool:
    """Compare as the specification does: after rounding to 9 digits (section 4)."""
    more = value - bound
    return more >= 0 or round(more, 9) >= 0
