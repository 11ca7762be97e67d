"""The whole machine as the node: `NodeReader` over /proc and /sys (specification, section 3)."""

from __future__ import annotations

import os
from pathlib import Path

from qosmanager.collect.readings import Link, NodeCounters
from qosmanager.linux.attempt import attempt
from qosmanager.linux.descriptor import KeptFile
from qosmanager.linux.pressure import NodeStalls
from qosmanager.linux.procfs import (
    CpuTimes,
    MemoryInfo,
    parse_diskstats,
    parse_loadavg,
    parse_meminfo,
    parse_net_dev,
    parse_scans,
    parse_stat,
)
from qosmanager.linux.topology import read_topology
from qosmanager.model.snapshot import CpuId

MEBI = 1_000_000 / 8  # a link's speed is told in megabits/s
SPEED_READS = 60  # cycles between two looks at the links' speed


class HostNode:
    """`NodeReader` of the machine. Files stay open; only /proc/stat and /proc/meminfo must be readable."""

    def __init__(self, proc: Path = Path("/proc"), sysfs: Path = Path("/sys")) -> None:
        self._sysfs = sysfs
        self._stat = KeptFile(str(proc), "stat", 65536)
        self._meminfo = KeptFile(str(proc), "meminfo")
        self._loadavg = KeptFile(str(proc), "loadavg")
        self._vmstat = KeptFile(str(proc), "vmstat", 16384)
        self._disks = KeptFile(str(proc), "diskstats", 16384)
        self._net = KeptFile(str(proc), "net/dev", 16384)
        self._stalls = NodeStalls({kind: KeptFile(f"{proc}/pressure", kind) for kind in ("cpu", "memory", "io")})
        self._topology: tuple[CpuId, ...] = ()
        self._links = LinkSpeeds(sysfs)
        self._real_disks: dict[str, bool] = {}

    def cpu_times(self) -> CpuTimes:
        """Read /proc/stat."""
        return parse_stat(self._stat.read())

    def memory(self) -> MemoryInfo:
        """Read /proc/meminfo."""
        return parse_meminfo(self._meminfo.read())

    def topology(self, online: int) -> tuple[CpuId, ...]:
        """Return the online CPUs, read again when their number has changed; plain ids where /sys does not tell."""
        if len(self._topology) != online:
            try:
                self._topology = read_topology(self._sysfs)
            except (OSError, ValueError):
                self._topology = tuple(CpuId(cpu, core=cpu) for cpu in range(online))
        return self._topology

    def read(self) -> NodeCounters:
        missing: dict[str, str] = {}
        times = self.cpu_times()
        memory = self.memory()
        if memory.available is None:
            missing["memory_available"] = "/proc/meminfo has no MemAvailable"
        load = attempt(missing, ("load1",), lambda: parse_loadavg(self._loadavg.read()))
        scans = attempt(missing, ("pgscan_direct", "pgscan_kswapd"), lambda: parse_scans(self._vmstat.read()))
        disks = attempt(missing, ("disk_util",), self._busy_disks)
        links = attempt(missing, ("net_util",), lambda: self._links.of(parse_net_dev(self._net.read())))
        if disks == {}:
            missing["disk_util"] = "no real disk"
        if links is not None and all(link.speed is None for link in links.values()):
            missing["net_util"] = "no physical link whose speed is known"
        return NodeCounters(
            cpus=float(times.online),
            topology=self.topology(times.online),
            cpu_busy=times.busy,
            cpu_total=times.total,
            iowait=times.iowait,
            softirq=times.softirq,
            steal=times.steal,
            context_switches=times.context_switches,
            load1=load,
            memory_total=memory.total,
            memory_available=memory.available,
            swap_total=memory.swap_total,
            swap_used=memory.swap_used,
            pgscan_direct=scans[0] if scans else None,
            pgscan_kswapd=scans[1] if scans else None,
            disks=disks or {},
            links=links or {},
            missing=missing,
            **self._stalls.read(missing),
        )

    def _busy_disks(self) -> dict[str, float]:
        """Only what has a device of its own: a partition, loop, ram, dm or md device would show another disk's work again."""
        busy = parse_diskstats(self._disks.read())
        for name in busy.keys() - self._real_disks.keys():
            self._real_disks[name] = os.path.exists(f"{self._sysfs}/block/{name.replace('/', '!')}/device")
        return {name: seconds for name, seconds in busy.items() if self._real_disks[name]}


class LinkSpeeds:
    """Physical links (those with a device) and their speed; looked up now and then, for a speed is negotiated anew when a cable moves."""

    def __init__(self, sysfs: Path) -> None:
        self._base = f"{sysfs}/class/net"
        self._speeds: dict[str, float | None] = {}
        self._virtual: set[str] = set()
        self._reads = 0

    def of(self, traffic: dict[str, tuple[int, int]]) -> dict[str, Link]:
        """Return the physical ones among the links, each with its speed."""
        if self._reads % SPEED_READS == 0 or not traffic.keys() <= self._speeds.keys() | self._virtual:
            self._virtual = {name for name in traffic if not os.path.exists(f"{self._base}/{name}/device")}
            self._speeds = {name: self._speed(name) for name in traffic.keys() - self._virtual}
        self._reads += 1
        return {name: Link(*traffic[name], speed) for name, speed in self._speeds.items() if name in traffic}

    def _speed(self, name: str) -> float | None:
        try:
            with open(f"{self._base}/{name}/speed", encoding="ascii") as file:
                megabits = int(file.read())
        except (OSError, ValueError):
            return None  # EINVAL: the link is down
        return megabits * MEBI if megabits > 0 else None
