"""What a snapshot lacks, in few lines: the readings that a formula asks for, by the reason why they are not there (section 3)."""

from __future__ import annotations

from collections.abc import Iterator

from qosmanager.model.qos import QoS, is_latency_sensitive
from qosmanager.model.snapshot import Pod, Snapshot

_NODE = (
    "cpu_usage",
    "cpu_trend",
    "load1",
    "memory_total",
    "memory_available",
    "memory_available_trend",
    "swap_used",
    "pgscan_direct",
    "pgscan_kswapd",
    "memory_psi_full",
    "io_psi_some",
    "iowait",
    "disk_util",
    "net_util",
    "ls_memory_growth",
)
_LS = ("cpu.usage", "cpu.wait", "cpu.throttled", "latency.p99")
_BE = ("cpu.usage", "memory.rss", "memory.growth")
_NAMED = 3  # pods named in one line; more are counted


def not_measured(snapshot: Snapshot) -> Iterator[str]:
    """Yield one line for each reason: the node's readings, then the pods' with how many pods lack each."""
    by_reason: dict[str, list[str]] = {}
    for name in _NODE:
        reason = snapshot.missing.get(f"node.{name}")
        if reason is not None and (name != "swap_used" or snapshot.node.swap_total):
            by_reason.setdefault(reason, []).append(f"node.{name}")
    lacking: dict[tuple[str, str], list[str]] = {}
    for pod in snapshot.pods:
        for name in _asked(pod):
            reason = snapshot.missing.get(f"pods.{pod.key}.{name}")
            if reason is not None:
                lacking.setdefault((reason, name), []).append(pod.key)
    for (reason, name), pods in sorted(lacking.items()):
        who = ", ".join(pods) if len(pods) <= _NAMED else f"{len(pods)} pods"
        by_reason.setdefault(reason, []).append(f"{name} ({who})")
    for reason, readings in by_reason.items():
        yield f"{reason}: {', '.join(readings)}"


def _asked(pod: Pod) -> tuple[str, ...]:
    """Return the readings of this pod that some formula uses."""
    if is_latency_sensitive(pod.qos):
        return _LS
    return _BE if pod.qos is QoS.BE else ()
