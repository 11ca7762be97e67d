"""One cgroup as the node: `NodeReader` for `--node-cgroup` (specification, section 3).

The node is then what this group may use: its CPUs (cpuset and quota, also those of the groups above), its memory limit, and what its
processes take of both. What belongs to the whole machine (load, disks, links, ticks) is not the node's and stays unmeasured.
"""

from __future__ import annotations

import math

import msgspec

from qosmanager.collect.readings import GroupGoneError, NodeCounters
from qosmanager.linux.attempt import attempt
from qosmanager.linux.cgroup import Hierarchies, safe_group
from qosmanager.linux.cgroup_reader import CgroupReaders, GroupFiles
from qosmanager.linux.descriptor import KeptFile
from qosmanager.linux.flat_keyed import counter, required, whole
from qosmanager.linux.host import HostNode
from qosmanager.linux.pressure import NodeStalls
from qosmanager.linux.procfs import MemoryInfo
from qosmanager.model.cpu_list import parse_cpus
from qosmanager.model.snapshot import CpuId

OF_THE_MACHINE = "belongs to the whole machine, and the node is a cgroup of it"
MACHINE_ONLY = ("load1", "iowait", "softirq", "steal", "context_switches", "disk_util", "net_util")


class GroupNode:
    """`NodeReader` of one group."""

    def __init__(self, hierarchies: Hierarchies, group: str, host: HostNode | None = None) -> None:
        """`group` is relative to the cgroup root; `host`: the machine it is on. Raises OSError or ValueError when it cannot be read."""
        group = safe_group(group)
        if not group:
            raise ValueError("the root is the whole machine, not a group of it")
        self._host = host or HostNode()
        readers = CgroupReaders(hierarchies)
        parts = group.split("/")
        self._line = [readers.open("/".join(parts[:count])) for count in range(len(parts), 0, -1)]  # the group and all above it
        self._memory = GroupMemory(hierarchies, group)
        self._cpuset = _effective_cpuset(hierarchies, group)
        unified = hierarchies.directory("unified", group) if hierarchies.version("unified") else f"{hierarchies.root}/unified/{group}"
        self._stalls = NodeStalls({kind: KeptFile(unified, f"{kind}.pressure") for kind in ("cpu", "memory", "io")})
        try:
            self.read()
        except GroupGoneError:
            raise FileNotFoundError("no such cgroup") from None

    def read(self) -> NodeCounters:
        missing = dict.fromkeys(MACHINE_ONLY, OF_THE_MACHINE)
        group = self._line[0]
        try:
            usage = group.cpu().usage
        except GroupGoneError:
            raise FileNotFoundError("the node's cgroup has ended") from None
        topology = self._topology()
        quota = min(_quota(level) for level in self._line)
        memory = self._memory.read(self._limit(missing), self._host.memory(), missing)
        stalls = self._stalls.read(missing)
        counters = NodeCounters(cpus=min(float(len(topology)), quota), topology=topology, cpu_busy=usage, missing=missing)
        return msgspec.structs.replace(counters, **memory, **stalls)

    def _topology(self) -> tuple[CpuId, ...]:
        machine = self._host.topology(self._host.cpu_times().online)
        if self._cpuset is None:
            return machine
        try:
            allowed = parse_cpus(self._cpuset.read().decode("ascii"))
        except (OSError, ValueError):
            return machine  # no cpuset here: nothing keeps the group from any CPU
        return tuple(place for place in machine if place.cpu in allowed) or machine

    def _limit(self, missing: dict[str, str]) -> int | None:
        limits = [attempt(missing, (), level.memory_limit) for level in self._line]
        return min((limit for limit in limits if limit is not None), default=None)


class GroupMemory:
    """What a group holds of the memory it may use."""

    def __init__(self, hierarchies: Hierarchies, group: str) -> None:
        self._v2 = hierarchies.version("memory") == 2
        mounted = hierarchies.version("memory") is not None
        directory = hierarchies.directory("memory", group) if mounted else f"{hierarchies.root}/memory/{group}"
        self._current = KeptFile(directory, "memory.current" if self._v2 else "memory.usage_in_bytes")
        self._stat = KeptFile(directory, "memory.stat", 16384)
        self._swap = KeptFile(directory, "memory.swap.current")

    def read(self, limit: int | None, machine: MemoryInfo, missing: dict[str, str]) -> dict[str, int | None]:
        """Return the memory fields of `NodeCounters`.

        Available is the limit less what is used and cannot be reclaimed (page cache and reclaimable slab can), and no more than the
        machine has.
        """
        total = machine.total if limit is None else min(limit, machine.total)
        names = ("memory_available", "swap_used", "pgscan_direct", "pgscan_kswapd")
        found = attempt(missing, names, self._held)
        if found is None:
            return {"memory_total": total, "swap_total": machine.swap_total}
        stat, held = found
        available = max(0, total - held)
        scans = {name: counter(stat, name.encode()) if self._v2 else None for name in ("pgscan_direct", "pgscan_kswapd")}
        missing.update({name: "this kernel does not count it for a group" for name, scanned in scans.items() if scanned is None})
        return {
            "memory_total": total,
            "memory_available": available if machine.available is None else min(available, machine.available),
            "swap_total": machine.swap_total,
            "swap_used": self._swapped(stat, missing),
            **scans,
        }

    def _held(self) -> tuple[bytes, int]:
        """Read memory.stat, and what is used and cannot be reclaimed."""
        stat = self._stat.read()
        return stat, whole(self._current.read()) - self._reclaimable(stat)

    def _reclaimable(self, stat: bytes) -> int:
        if self._v2:
            return required(stat, b"inactive_file") + required(stat, b"active_file") + (counter(stat, b"slab_reclaimable") or 0)
        return required(stat, b"total_inactive_file") + required(stat, b"total_active_file")

    def _swapped(self, stat: bytes, missing: dict[str, str]) -> int | None:
        if self._v2:
            return attempt(missing, ("swap_used",), lambda: whole(self._swap.read()))
        return counter(stat, b"total_swap")


def _quota(level: GroupFiles) -> float:
    try:
        return level.quota()
    except (OSError, ValueError, GroupGoneError):
        return math.inf


def _effective_cpuset(hierarchies: Hierarchies, group: str) -> KeptFile | None:
    version = hierarchies.version("cpuset")
    if version is None:
        return None
    return KeptFile(hierarchies.directory("cpuset", group), "cpuset.cpus.effective" if version == 2 else "cpuset.effective_cpus")
