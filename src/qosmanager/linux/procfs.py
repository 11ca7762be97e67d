"""The files of /proc that the node's readings come from, parsed (specification, section 3).

In: bytes of a file. Out: typed values in seconds, bytes and counts; ValueError says what is wrong with the text.
"""

from __future__ import annotations

import os
from math import isfinite
from typing import NamedTuple

from qosmanager.linux.flat_keyed import counter, whole

TICK = 1.0 / os.sysconf("SC_CLK_TCK")


class CpuTimes(NamedTuple):
    """Core-seconds since boot over all CPUs. `busy` is neither idle, nor waiting for I/O, nor stolen by the hypervisor."""

    busy: float
    iowait: float
    softirq: float
    steal: float
    total: float
    online: int
    context_switches: int | None


def parse_stat(content: bytes) -> CpuTimes:
    """Read /proc/stat. Guest time is part of user and nice and is not counted twice."""
    fields = content[: content.find(b"\n")].split()
    if not fields or fields[0] != b"cpu" or len(fields) < 8:
        raise ValueError(f"/proc/stat does not begin with the cpu line: {content[:60]!r}")
    user, nice, system, idle, iowait, irq, softirq = (whole(field) for field in fields[1:8])
    steal = whole(fields[8]) if len(fields) > 8 else 0
    busy = user + nice + system + irq + softirq
    switches = content.find(b"\nctxt ")
    return CpuTimes(
        busy=busy * TICK,
        iowait=iowait * TICK,
        softirq=softirq * TICK,
        steal=steal * TICK,
        total=(busy + idle + iowait + steal) * TICK,
        online=content.count(b"\ncpu"),
        context_switches=whole(content[switches + 6 : content.find(b"\n", switches + 1)]) if switches >= 0 else None,
    )


class MemoryInfo(NamedTuple):
    """Bytes. `total` is without the hugepages, which nobody can use as ordinary memory; None: the kernel does not tell."""

    total: int
    available: int | None
    swap_total: int | None
    swap_used: int | None


def parse_meminfo(content: bytes) -> MemoryInfo:
    """Read /proc/meminfo, whose "kB" are 1024 bytes."""
    values: dict[bytes, int] = {}
    for line in content.splitlines():
        name, colon, rest = line.partition(b":")
        if colon:
            number, _, unit = rest.strip().partition(b" ")
            values[name] = whole(number) * (1024 if unit == b"kB" else 1)
    if b"MemTotal" not in values:
        raise ValueError(f"/proc/meminfo has no MemTotal: {content[:60]!r}")
    # "Hugetlb" counts pages of every size; older kernels only tell those of the default size.
    huge = values.get(b"Hugetlb", values.get(b"HugePages_Total", 0) * values.get(b"Hugepagesize", 0))
    swap_total, swap_free = values.get(b"SwapTotal"), values.get(b"SwapFree")
    return MemoryInfo(
        total=values[b"MemTotal"] - huge,
        available=values.get(b"MemAvailable"),
        swap_total=swap_total,
        swap_used=None if swap_total is None or swap_free is None else swap_total - swap_free,
    )


def parse_loadavg(content: bytes) -> float:
    """Read the 1-minute load."""
    fields = content.split()
    if len(fields) < 3 or not isfinite(float(fields[0])):
        raise ValueError(f"/proc/loadavg is not in its form: {content[:60]!r}")
    return float(fields[0])


def parse_scans(content: bytes) -> tuple[int | None, int | None]:
    """Read /proc/vmstat: pages scanned by direct reclaim and by kswapd since boot."""
    return counter(content, b"pgscan_direct"), counter(content, b"pgscan_kswapd")


def parse_diskstats(content: bytes) -> dict[str, float]:
    """Read /proc/diskstats: seconds in which each block device had something to do."""
    busy: dict[str, float] = {}
    for line in content.splitlines():
        fields = line.split(None, 13)
        if len(fields) >= 13:
            busy[fields[2].decode("ascii", "replace")] = whole(fields[12]) / 1000
    if content and not busy:
        raise ValueError(f"/proc/diskstats is not in its form: {content[:60]!r}")
    return busy


def parse_net_dev(content: bytes) -> dict[str, tuple[int, int]]:
    """Read /proc/net/dev: bytes received and sent by each link."""
    links: dict[str, tuple[int, int]] = {}
    for line in content.splitlines()[2:]:
        name, colon, rest = line.partition(b":")
        fields = rest.split()
        if colon and len(fields) >= 9:
            links[name.strip().decode("ascii", "replace")] = (whole(fields[0]), whole(fields[8]))
    return links
