"""Readings of single groups, on v1, v2 and hybrid hosts: the `GroupReaders` port (specification, sections 3 and 9).

Each controller is read in its own version; pressure comes from the v2 tree wherever there is one, for it needs no controller there.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Protocol, TypeVar

from qosmanager.collect.readings import CpuCounters, GroupGoneError, IoCounters, Stall
from qosmanager.linux.cgroup import HOMES, Hierarchies, safe_group
from qosmanager.linux.descriptor import GONE, KeptFile
from qosmanager.linux.flat_keyed import counter, required, whole
from qosmanager.linux.pressure import parse_stall
from qosmanager.model.cpu_list import parse_cpus

V1_UNLIMITED_MEMORY = 1 << 60  # v1 shows "no limit" as the largest page-aligned number, which differs between kernels
T = TypeVar("T")


def home_controller(hierarchies: Hierarchies) -> str:
    """Return the hierarchy that tells which groups there are: the first that is there of those a limit or a reading is taken from."""
    return next(controller for controller in HOMES if hierarchies.version(controller) is not None)


class CpuFiles(Protocol):
    """CPU time, throttling, quota and weight, in one version."""

    def cpu(self) -> CpuCounters: ...

    def throttling(self) -> tuple[int, int]: ...

    def quota(self) -> float: ...

    def weight(self) -> float | None: ...

    def close(self) -> None: ...


def _cores(quota: bytes, period: bytes) -> float:
    if whole(period) <= 0:
        raise ValueError(f"a quota's period is not {period!r}")
    return whole(quota) / whole(period)


class CpuFilesV2:
    """cpu.stat, cpu.max, cpu.weight."""

    __slots__ = ("_max", "_stat", "_weight")

    def __init__(self, directory: str) -> None:
        self._stat = KeptFile(directory, "cpu.stat")
        self._max = KeptFile(directory, "cpu.max")
        self._weight = KeptFile(directory, "cpu.weight")

    def cpu(self) -> CpuCounters:
        content = self._stat.read()
        # Without the controller there is the usage only.
        return CpuCounters(required(content, b"usage_usec") / 1e6, counter(content, b"nr_periods"), counter(content, b"nr_throttled"))

    def throttling(self) -> tuple[int, int]:
        content = self._stat.read()
        return required(content, b"nr_periods"), required(content, b"nr_throttled")

    def quota(self) -> float:
        fields = self._max.read().split()
        if len(fields) != 2:
            raise ValueError(f"cpu.max is not in its form: {fields!r}")
        return math.inf if fields[0] == b"max" else _cores(fields[0], fields[1])

    def weight(self) -> float | None:
        # kubelet's own conversion of shares 2..262144 to weights 1..10000, backwards.
        weight = whole(self._weight.read())
        return None if weight <= 1 else (2 + (weight - 1) * 262142 / 9999) / 1024

    def close(self) -> None:
        for file in (self._stat, self._max, self._weight):
            file.close()


class CpuFilesV1:
    """cpuacct.usage, and cpu.stat, cpu.cfs_quota_us, cpu.cfs_period_us, cpu.shares; the two controllers may lie apart."""

    __slots__ = ("_limited", "_period", "_quota", "_shares", "_stat", "_usage")

    def __init__(self, accounting: KeptFile, directory: str) -> None:
        self._usage = accounting
        self._stat = KeptFile(directory, "cpu.stat")
        self._quota = KeptFile(directory, "cpu.cfs_quota_us")
        self._period = KeptFile(directory, "cpu.cfs_period_us")
        self._shares = KeptFile(directory, "cpu.shares")
        self._limited = True

    def cpu(self) -> CpuCounters:
        content = self._usage.read()
        # The v2 tree of a hybrid host tells the usage too, where cpuacct is not there.
        usage = required(content, b"usage_usec") / 1e6 if content.startswith(b"usage_usec") else whole(content) / 1e9
        # A group without a quota has no periods: its second file is left alone.
        return CpuCounters(usage, *self.throttling()) if self._limited else CpuCounters(usage, 0, 0)

    def throttling(self) -> tuple[int, int]:
        # The whole file is these counters, in this order, on every v1 kernel; by far the most often read of all files.
        fields = self._stat.read().split(None, 4)
        if len(fields) < 4 or fields[0] != b"nr_periods" or fields[2] != b"nr_throttled":
            raise ValueError(f"cpu.stat is not in its form: {fields!r}")
        return whole(fields[1]), whole(fields[3])

    def quota(self) -> float:
        quota = self._quota.read()
        self._limited = whole(quota) > 0
        return _cores(quota, self._period.read()) if self._limited else math.inf

    def weight(self) -> float | None:
        shares = whole(self._shares.read())
        return None if shares <= 2 else shares / 1024

    def close(self) -> None:
        for file in (self._usage, self._stat, self._quota, self._period, self._shares):
            file.close()


class MemoryFiles(Protocol):
    """Memory held and its limit, in one version. Held is anonymous + shmem + swap: what only ending the processes frees."""

    def held(self) -> int: ...

    def limit(self) -> int | None: ...

    def close(self) -> None: ...


class MemoryFilesV2:
    """memory.stat, memory.swap.current, memory.max."""

    __slots__ = ("_limit", "_stat", "_swap")

    def __init__(self, directory: str) -> None:
        self._stat = KeptFile(directory, "memory.stat", 16384)
        self._swap = KeptFile(directory, "memory.swap.current")
        self._limit = KeptFile(directory, "memory.max")

    def held(self) -> int:
        content = self._stat.read()
        return required(content, b"anon") + (counter(content, b"shmem") or 0) + self._swapped()

    def _swapped(self) -> int:
        try:
            return whole(self._swap.read())
        except FileNotFoundError:
            return 0  # no swap accounting: there is none

    def limit(self) -> int | None:
        content = self._limit.read().strip()
        return None if content == b"max" else whole(content)

    def close(self) -> None:
        for file in (self._stat, self._swap, self._limit):
            file.close()


class MemoryFilesV1:
    """memory.stat, memory.limit_in_bytes. "total_" counts the groups below too, as a pod's containers are."""

    __slots__ = ("_limit", "_stat")

    def __init__(self, directory: str) -> None:
        self._stat = KeptFile(directory, "memory.stat", 16384)
        self._limit = KeptFile(directory, "memory.limit_in_bytes")

    def held(self) -> int:
        content = self._stat.read()
        return required(content, b"total_rss") + (counter(content, b"total_shmem") or 0) + (counter(content, b"total_swap") or 0)

    def limit(self) -> int | None:
        limit = whole(self._limit.read())
        return None if limit >= V1_UNLIMITED_MEMORY else limit

    def close(self) -> None:
        self._stat.close()
        self._limit.close()


class IoFiles(Protocol):
    """Bytes moved, in one version."""

    def read(self) -> IoCounters: ...

    def close(self) -> None: ...


class IoFilesV2:
    """io.stat: a line a device, `254:0 rbytes=1 wbytes=2 ...`."""

    __slots__ = ("_stat",)

    def __init__(self, directory: str) -> None:
        self._stat = KeptFile(directory, "io.stat")

    def read(self) -> IoCounters:
        read = written = 0
        for field in self._stat.read().split():
            if field.startswith(b"rbytes="):
                read += whole(field[7:])
            elif field.startswith(b"wbytes="):
                written += whole(field[7:])
        return IoCounters(read, written)

    def close(self) -> None:
        self._stat.close()


class IoFilesV1:
    """blkio.throttle.io_service_bytes_recursive: a line a device and direction, `254:0 Read 1`."""

    __slots__ = ("_bytes",)

    def __init__(self, directory: str) -> None:
        self._bytes = KeptFile(directory, "blkio.throttle.io_service_bytes_recursive")

    def read(self) -> IoCounters:
        moved = {b"Read": 0, b"Write": 0}
        for line in self._bytes.read().splitlines():
            fields = line.split()
            if len(fields) == 3 and fields[1] in moved:
                moved[fields[1]] += whole(fields[2])
        return IoCounters(moved[b"Read"], moved[b"Write"])

    def close(self) -> None:
        self._bytes.close()


_EMPTY_TWIN = "the v2 group of this path, which has the pressure files, holds none of its processes"


class StallFiles:
    """Pressure of a group in the v2 tree."""

    __slots__ = ("_cpu", "_io", "_memory", "_populated", "_reads", "_twin")

    def __init__(self, directory: str, twin: KeptFile | None) -> None:
        """`twin`: cgroup.events of the v2 group beside v1 ones, which may be empty and then tells nothing; None: the group is v2."""
        self._cpu = KeptFile(directory, "cpu.pressure")
        self._memory = KeptFile(directory, "memory.pressure")
        self._io = KeptFile(directory, "io.pressure")
        self._twin = twin
        self._reads = 0
        self._populated = True

    def cpu(self) -> Stall:
        content = self._cpu.read()
        if not self._populated or self._reads % 10 == 0:
            self._populated = self._is_populated()
        self._reads += 1
        if not self._populated:
            raise ValueError(_EMPTY_TWIN)
        return parse_stall(content)

    def averages(self) -> tuple[float, float]:
        memory, io = self._memory.read(), self._io.read()
        if not self._is_populated():
            raise ValueError(_EMPTY_TWIN)
        return parse_stall(memory, b"full").avg10, parse_stall(io).avg10

    def _is_populated(self) -> bool:
        return self._twin is None or required(self._twin.read(), b"populated") == 1

    def close(self) -> None:
        for file in (self._cpu, self._memory, self._io, self._twin):
            if file is not None:
                file.close()


class GroupFiles:
    """`GroupReader` over the kernel's files."""

    __slots__ = ("_cpu", "_cpuset", "_home", "_io", "_memory", "_stall")

    def __init__(self, home: str, cpu: CpuFiles, memory: MemoryFiles, stall: StallFiles, others: tuple[KeptFile, IoFiles]) -> None:
        """`home` is the directory whose absence means that the group has ended."""
        self._home = home
        self._cpu = cpu
        self._memory = memory
        self._stall = stall
        self._cpuset, self._io = others

    def cpu(self) -> CpuCounters:
        return self._alive(self._cpu.cpu)

    def throttling(self) -> tuple[int, int]:
        return self._alive(self._cpu.throttling)

    def quota(self) -> float:
        try:
            return self._cpu.quota()
        except FileNotFoundError:
            self._check_alive()
            return math.inf  # no controller here: nothing holds the group back
        except OSError:
            self._check_alive()
            raise

    def weight(self) -> float | None:
        return self._alive(self._cpu.weight)

    def held_memory(self) -> int:
        return self._alive(self._memory.held)

    def memory_limit(self) -> int | None:
        return self._alive(self._memory.limit)

    def cpuset(self) -> tuple[int, ...]:
        return tuple(sorted(parse_cpus(self._alive(self._cpuset.read).decode("ascii"))))

    def cpu_stall(self) -> Stall:
        return self._alive(self._stall.cpu)

    def stall_averages(self) -> tuple[float, float]:
        return self._alive(self._stall.averages)

    def io(self) -> IoCounters:
        return self._alive(self._io.read)

    def _alive(self, reading: Callable[[], T]) -> T:
        try:
            return reading()
        except OSError as error:
            if error.errno in GONE:
                self._check_alive()
            raise

    def _check_alive(self) -> None:
        if not os.path.isdir(self._home):
            raise GroupGoneError(self._home) from None

    def close(self) -> None:
        for files in (self._cpu, self._memory, self._stall, self._io, self._cpuset):
            files.close()


class CgroupReaders:
    """`GroupReaders` of one machine."""

    def __init__(self, hierarchies: Hierarchies) -> None:
        self._hierarchies = hierarchies
        self._home = home_controller(hierarchies)
        self._version = {controller: hierarchies.version(controller) for controller in ("cpu", "cpuacct", "memory", "blkio")}

    def open(self, group: str) -> GroupFiles:
        group = safe_group(group)
        blkio = self._directory("blkio", group)
        stall = StallFiles(self._directory("unified", group), self._twin_events(group))
        others = (
            KeptFile(self._directory("cpuset", group), "cpuset.cpus"),
            IoFilesV2(blkio) if self._version["blkio"] == 2 else IoFilesV1(blkio),
        )
        return GroupFiles(self._directory(self._home, group), self._cpu_files(group), self._memory_files(group), stall, others)

    def _directory(self, controller: str, group: str) -> str:
        """Return the group's directory; of a controller that is not there, one that is not there either and whose name says why."""
        if self._hierarchies.version(controller) is None:
            return f"{self._hierarchies.root}/{controller}/{group}"
        return self._hierarchies.directory(controller, group)

    def _cpu_files(self, group: str) -> CpuFiles:
        cpu = self._directory("cpu", group)
        if self._version["cpu"] == 2 or (self._version["cpu"] is None and self._version["cpuacct"] == 2):
            return CpuFilesV2(self._directory("cpuacct", group))
        if self._version["cpuacct"] is None:
            return CpuFilesV1(KeptFile(self._directory("unified", group), "cpu.stat"), cpu)
        return CpuFilesV1(KeptFile(self._directory("cpuacct", group), "cpuacct.usage"), cpu)

    def _memory_files(self, group: str) -> MemoryFiles:
        directory = self._directory("memory", group)
        return MemoryFilesV2(directory) if self._version["memory"] == 2 else MemoryFilesV1(directory)

    def _twin_events(self, group: str) -> KeptFile | None:
        """Return the file that tells whether the v2 group beside the v1 ones holds processes; None on a host that is v2 alone."""
        if 1 not in (self._version["cpu"], self._version["cpuacct"]):
            return None
        return KeptFile(self._directory("unified", group), "cgroup.events")
