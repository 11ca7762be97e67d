"""Which CPUs there are and where they sit, from /sys/devices/system/cpu; and the kernel's CPU list format."""

from __future__ import annotations

from pathlib import Path

from qosmanager.model.snapshot import CpuId

MOST = 1 << 16  # more CPUs than any kernel knows; a list that goes beyond is no list


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Read the kernel's list format ("0-3,8"); empty text is no CPUs. Raises ValueError."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        if part:
            low, dash, high = part.partition("-")
            first, last = int(low), int(high if dash else low)
            if not 0 <= first <= last < MOST:
                raise ValueError(f"no list of CPUs: {text[:60]!r}")
            cpus.update(range(first, last + 1))
    return tuple(sorted(cpus))


def read_topology(sysfs: Path) -> tuple[CpuId, ...]:
    """Return the online CPUs in order of their ids. Raises OSError or ValueError when the list of online CPUs cannot be read.

    `core` is the lowest CPU id of the physical core: the kernel's core ids repeat over sockets and dies.
    """
    base = sysfs / "devices/system/cpu"
    online = parse_cpu_list((base / "online").read_text(encoding="ascii"))
    return tuple(_place(base / f"cpu{cpu}", cpu) for cpu in online)


def _place(directory: Path, cpu: int) -> CpuId:
    siblings = _text(directory / "topology/core_cpus_list") or _text(directory / "topology/thread_siblings_list")
    core = min(parse_cpu_list(siblings), default=cpu)
    socket = _text(directory / "topology/physical_package_id")
    nodes = [int(path.name[4:]) for path in directory.glob("node[0-9]*")]
    # A socket id of -1 is how some platforms say that they do not know.
    return CpuId(cpu, core=core, socket=max(0, int(socket or 0)), numa=min(nodes, default=0))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
