"""Which CPUs BE gets under policy cpuset (specification, section 5.4)."""

from __future__ import annotations

from collections import defaultdict
from itertools import zip_longest

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
    in_turn = [cpu for turn in zip_longest(*places, fillvalue=()) for threads in turn for cpu in threads]
    return tuple(sorted(in_turn[:count]))
