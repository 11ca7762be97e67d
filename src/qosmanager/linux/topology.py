"""Which CPUs there are and where they sit, from /sys/devices/system/cpu."""

from __future__ import annotations

from pathlib import Path

from qosmanager.model.cpu_list import parse_cpus
from qosmanager.model.snapshot import CpuId


def read_topology(sysfs: Path) -> tuple[CpuId, ...]:
    """Return the online CPUs in order of their ids. Raises OSError or ValueError when the list of online CPUs cannot be read.

    `core` is the lowest CPU id of the physical core: the kernel's core ids repeat over sockets and dies.
    """
    base = sysfs / "devices/system/cpu"
    online = sorted(parse_cpus((base / "online").read_text(encoding="ascii")))
    return tuple(_place(base / f"cpu{cpu}", cpu) for cpu in online)


def _place(directory: Path, cpu: int) -> CpuId:
    siblings = _text(directory / "topology/core_cpus_list") or _text(directory / "topology/thread_siblings_list")
    core = min(parse_cpus(siblings), default=cpu)
    socket = _text(directory / "topology/physical_package_id")
    nodes = [int(path.name[4:]) for path in directory.glob("node[0-9]*")]
    # A socket id of -1 is how some platforms say that they do not know.
    return CpuId(cpu, core=core, socket=max(0, int(socket or 0)), numa=min(nodes, default=0))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
