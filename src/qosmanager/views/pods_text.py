"""Who the agent takes part in a cycle, for people: each pod with its class, requests and limit, and what of the declarations cannot be
followed (specification, section 2)."""

from __future__ import annotations

from collections.abc import Iterable

from qosmanager.documents.quantities import shown_bytes
from qosmanager.model.qos import QoS
from qosmanager.model.snapshot import Pod
from qosmanager.views.prose import wrapped

_ORDER = tuple(QoS)


def pods_text(pods: Iterable[Pod], problems: Iterable[str]) -> str:
    """Return both sections, ending in a newline; without problems the first alone."""
    shown = sorted(pods, key=lambda pod: (_ORDER.index(pod.qos), pod.key))
    text = "\n".join(["Pods", *(wrapped(line) for line in map(_pod, shown)), *([] if shown else ["  none"])]) + "\n"
    found = [wrapped(f"- {problem}") for problem in problems]
    return text + ("\n".join(["\nProblems", *found]) + "\n" if found else "")


def _pod(pod: Pod) -> str:
    cpu, memory, slo = pod.cpu, pod.memory, pod.latency.slo
    parts = [
        f"CPU {_cores(cpu.usage)}{_of(_cores(cpu.request))}" + (f", limit {cpu.limit:.4g}" if cpu.limit is not None else ""),
        f"memory {_bytes(memory.rss)}{_of(_bytes(memory.request))}",
        *([f"SLO {slo * 1000:.4g} ms"] if slo is not None else []),
    ]
    return f"{pod.qos.value:<6} {pod.key}: {'; '.join(parts)}"


def _of(request: str) -> str:
    return ", no request" if request == "-" else f" of {request} requested"


def _cores(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _bytes(value: int | None) -> str:
    return "-" if value is None else shown_bytes(value)
