"""Which CPUs BE gets under policy cpuset, and the kernel's list format (specification, section 5.4)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from qosmanager.model.snapshot import CpuId


def choose_cpus(topology: tuple[CpuId, ...], count: int, excluded: frozenset[int]) -> tuple[int, ...]:
    """Return `count` CPU ids: spread over NUMA nodes and sockets, whole SMT pairs first, lowest ids first.

    Excluded CPUs (those that an LSE pod has for itself) are never taken; when fewer are left, all that are left are returned.
    """
    cores: dict[tuple[int, int], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for cpu in sorted(topology, key=lambda cpu: cpu.cpu):
        if cpu.cpu not in excluded:
            cores[cpu.numa, cpu.socket][cpu.core].append(cpu.cpu)
    # In each place whole cores (most threads free) come first, then by lowest id; places take turns.
    places = [sorted(place.values(), key=lambda threads: (-len(threads), threads[0])) for _, place in sorted(cores.items())]
    chosen: list[int] = []
    while len(chosen) < count and any(places):
        for place in places:
            if place and len(chosen) < count:
                chosen.extend(place.pop(0)[: count - len(chosen)])
    return tuple(sorted(chosen))


def format_cpus(cpus: Iterable[int]) -> str:
    """Return CPU ids in the kernel's list format: 0,1,2,8 -> "0-2,8"."""
    ids = sorted(set(cpus))
    runs: list[list[int]] = []
    for cpu in ids:
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
