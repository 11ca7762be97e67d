"""What single pods lack, by what the running agent could not measure of them (specification, sections 3 and 9).

In: the agent's status. Out: findings, none where every pod is measured.
"""

from __future__ import annotations

from collections.abc import Iterator

from qosmanager.doctor.findings import Finding, Mark
from qosmanager.model.qos import QoS, is_latency_sensitive
from qosmanager.views.status import PodView, Status

_SHOWN = 3  # pods that are named


def pod_findings(status: Status) -> tuple[Finding, ...]:
    """Return what pods lack that a part of the agent needs."""
    return (*_unheard(status), *_unweighed(status))


def _unheard(status: Status) -> Iterator[Finding]:
    services = [pod for pod in status.pods if is_latency_sensitive(QoS(pod.qos))]
    lacking = _lacking(status, services, "observed.cpu_psi_some")
    if lacking:
        text = f"not of {lacking}; that it waits for CPU is not known, and no cycle comes early for it (fast path)"
        fix = "put its processes into a v2 group of the same path too (docs/adopt.md, groups of your own)"
        yield Finding(subject="PSI, services", mark=Mark.DEGRADED, text=text, fix=fix)


def _unweighed(status: Status) -> Iterator[Finding]:
    lacking = _lacking(status, [pod for pod in status.pods if pod.qos == QoS.BE.value], "memory.rss")
    if lacking:
        text = f"not of {lacking}; MemoryEvict finds no victim there"
        fix = "put its processes into a memory group of the same path too (docs/adopt.md, groups of your own)"
        yield Finding(subject="memory of BE", mark=Mark.DEGRADED, text=text, fix=fix)


def _lacking(status: Status, pods: list[PodView], reading: str) -> str:
    """Name the pods of which a reading is missing, and why of the first; "": there is none."""
    reasons = {pod.key: why for pod in pods if (why := status.missing.get(f"pods.{pod.key}.{reading}")) is not None}
    if not reasons:
        return ""
    named = ", ".join(list(reasons)[:_SHOWN])
    more = f" and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
    return f"{named}{more} ({next(iter(reasons.values()))})"
