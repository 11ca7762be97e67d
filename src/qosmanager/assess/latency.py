"""The LS pods' latency against their objectives (specification, section 4)."""

from __future__ import annotations

from qosmanager.model.census import is_above
from qosmanager.model.qos import Slo
from qosmanager.model.snapshot import Pod


def above_slo(pod: Pod) -> bool:
    """Tell whether the pod's p99 is above its SLO; False while either is unknown."""
    p99, slo = pod.latency.p99, pod.latency.slo
    return p99 is not None and slo is not None and is_above(p99, slo)


def rising(pod: Pod) -> bool:
    """Tell whether the pod's latency rises in a way that matters: near its SLO and climbing, or above it and out of its habit."""
    p99, slo, trend, median = pod.latency.p99, pod.latency.slo, pod.latency.trend, pod.latency.median
    if p99 is None or slo is None:
        return False
    climbing = trend is not None and is_above(p99, 0.8 * slo) and is_above(trend, 5)
    unusual = median is not None and is_above(p99, slo) and is_above(p99, 1.2 * median)
    return climbing or unusual


def slo_signal(ls: tuple[Pod, ...]) -> Slo:
    """Return violated when some LS pod is above its SLO, ok when none is and at least one has both numbers, else unknown."""
    if any(above_slo(pod) for pod in ls):
        return Slo.VIOLATED
    known = any(pod.latency.p99 is not None and pod.latency.slo is not None for pod in ls)
    return Slo.OK if known else Slo.UNKNOWN
