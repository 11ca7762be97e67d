"""What a pod claims of CPU and memory, summed as kubelet sums it (specification, sections 1 and 3).

Containers and native sidecars run together and are summed; a plain init container runs alone beside the sidecars before it: the largest
counts. A container without a limit makes the pod unlimited. What was resized in place is in the status, and counts. Koordinator's extended
resources (batch-cpu and mid-cpu in millicores, batch-memory and mid-memory in bytes) stand in where the plain ones are not given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from qosmanager.documents.quantities import cores, size
from qosmanager.kubernetes.pod_json import ContainerSpec, PodJson, Quantity, Resources, Spec, Status

_MILLICORES = ("kubernetes.io/batch-cpu", "kubernetes.io/mid-cpu")
_BYTES = ("kubernetes.io/batch-memory", "kubernetes.io/mid-memory")


class Amount(Struct, frozen=True):
    """Cores and bytes; infinity: unlimited."""

    cpu: float = 0.0
    memory: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.cpu + other.cpu, self.memory + other.memory)

    def or_more(self, other: Amount) -> Amount:
        return Amount(max(self.cpu, other.cpu), max(self.memory, other.memory))


class Claims(Struct, frozen=True, kw_only=True):
    """Cores and bytes. A limit None: unlimited."""

    cpu_request: float
    memory_request: int
    cpu_limit: float | None
    memory_limit: int | None


class _Share(Struct, frozen=True):
    """What one container claims."""

    request: Amount
    limit: Amount
    is_sidecar: bool = False


def claims(pod: PodJson) -> Claims:
    """Sum a pod's claims. Raises ValueError for a quantity that is none."""
    spec = pod.spec or Spec()
    actual = _actual(pod)
    main = [_share(container, actual) for container in spec.containers or ()]
    inits = [_share(container, actual) for container in spec.init_containers or ()]
    overhead = _amount(spec.overhead or {}, 0.0)
    whole = spec.resources or Resources()
    request = _summed([(share.request, share.is_sidecar) for share in inits], [share.request for share in main]) + overhead
    limit = _summed([(share.limit, share.is_sidecar) for share in inits], [share.limit for share in main]) + overhead
    request, limit = _overridden(request, whole.requests or {}), _overridden(limit, whole.limits or {})
    return Claims(
        cpu_request=request.cpu,
        memory_request=math.ceil(request.memory),
        cpu_limit=limit.cpu if math.isfinite(limit.cpu) else None,
        memory_limit=math.ceil(limit.memory) if math.isfinite(limit.memory) else None,
    )


def _summed(inits: list[tuple[Amount, bool]], main: list[Amount]) -> Amount:
    sidecars = largest = Amount()
    for amount, is_sidecar in inits:
        if is_sidecar:
            sidecars += amount
        else:
            largest = largest.or_more(sidecars + amount)
    return sum(main, sidecars).or_more(largest)


def _share(container: ContainerSpec, actual: Mapping[str | None, Resources]) -> _Share:
    wanted, is_ = container.resources or Resources(), actual.get(container.name, Resources())
    return _Share(
        _amount((wanted.requests or {}) | (is_.requests or {}), 0.0),
        _amount((wanted.limits or {}) | (is_.limits or {}), math.inf),
        container.restart_policy == "Always",
    )


def _actual(pod: PodJson) -> dict[str | None, Resources]:
    """Return what the containers were last given, by their names."""
    status = pod.status or Status()
    both = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    return {each.name: each.resources for each in both if each.resources is not None}


def _amount(given: Mapping[str, Quantity], absent: float) -> Amount:
    """Return the cores and bytes of a list of resources; `absent`: what one that is not given (or 0) stands for."""
    cpu = _cores(given)
    memory = _first(given, ("memory", *_BYTES), size)
    return Amount(cpu or absent, memory or absent)


def _cores(given: Mapping[str, Quantity]) -> float:
    plain = _first(given, ("cpu",), cores)
    return plain or _first(given, _MILLICORES, cores) / 1000


def _first(given: Mapping[str, Quantity], names: Iterable[str], read: Callable[[str], float]) -> float:
    for name in names:
        if name in given:
            return _read(name, given[name], read)
    return 0.0


def _read(name: str, quantity: Quantity, read: Callable[[str], float]) -> float:
    try:
        value = read(str(quantity))
    except (ValueError, ArithmeticError):
        value = -1.0
    if not 0 <= value < math.inf:
        raise ValueError(f"{name}: {quantity!r} is no quantity")
    return value


def _overridden(amount: Amount, given: Mapping[str, Quantity]) -> Amount:
    """Return the amount with what the pod declares for itself in the place of its containers' sums."""
    whole = _amount(given, 0.0)
    return Amount(whole.cpu or amount.cpu, whole.memory or amount.memory)
