"""What a pod asks for, as kubelet turns it into a class, into files of its cgroup, and into what it asks the runtime for."""

from __future__ import annotations

from typing import NamedTuple

from loopback_api.store import Object

PERIOD = 100_000  # microseconds
_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "m": 0.001}


class Claims(NamedTuple):
    """Cores and bytes; None: not said."""

    cpu_request: float | None = None
    cpu_limit: float | None = None
    memory_request: float | None = None
    memory_limit: float | None = None


def claims(container: Object) -> Claims:
    """A limit without a request requests as much."""
    limits = container.get("resources", {}).get("limits", {})
    requests = limits | container.get("resources", {}).get("requests", {})
    return Claims(*(_amount(of.get(name)) for name in ("cpu", "memory") for of in (requests, limits)))


def qos_class(pod: Object) -> str:
    """Return Kubernetes' own class."""
    all_claims = [claims(each) for each in pod["spec"]["containers"]]
    if not any(any(each) for each in all_claims):
        return "BestEffort"
    exact = all(c.cpu_limit and c.memory_limit and (c.cpu_request, c.memory_request) == (c.cpu_limit, c.memory_limit) for c in all_claims)
    return "Guaranteed" if exact else "Burstable"


def of_pod(pod: Object) -> dict[str, int]:
    """Return the files of the pod's own group."""
    all_claims = [claims(each) for each in pod["spec"]["containers"]]
    files = {"cpu.shares": _shares(sum(each.cpu_request or 0.0 for each in all_claims))}
    if all(each.cpu_limit for each in all_claims):
        files["cpu.cfs_quota_us"] = int(sum(each.cpu_limit or 0.0 for each in all_claims) * PERIOD)
    if all(each.memory_limit for each in all_claims):
        files["memory.limit_in_bytes"] = int(sum(each.memory_limit or 0.0 for each in all_claims))
    return files


def of_container(pod: Object, wanted: Claims) -> dict[str, int]:
    """Return what the runtime is asked for, by the names of the Container Runtime Interface; 0: not said."""
    return {
        "cpu_period": PERIOD,
        "cpu_quota": int((wanted.cpu_limit or 0.0) * PERIOD),
        "cpu_shares": _shares(wanted.cpu_request or 0.0),
        "memory_limit_in_bytes": int(wanted.memory_limit or 0.0),
        "oom_score_adj": {"BestEffort": 1000, "Burstable": 900, "Guaranteed": 0}[qos_class(pod)],
    }


def _shares(cores: float) -> int:
    return max(2, int(cores * 1024))


def _amount(quantity: str | None) -> float | None:
    if quantity is None:
        return None
    unit = next((unit for unit in _UNITS if quantity.endswith(unit)), "")
    return float(quantity.removesuffix(unit)) * _UNITS.get(unit, 1)
