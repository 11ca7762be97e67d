"""One look at this node for the doctor. Reads, and tries what `trial` tries; changes nothing that stays."""

from __future__ import annotations

import ctypes
import os
import resource
from pathlib import Path
from typing import Any

from msgspec import Struct

from qosmanager.doctor.host import Host, Kubelet, Trial
from qosmanager.documents.tree import foreign
from qosmanager.linux.cgroup import CONTROLLERS, CgroupRootError, Hierarchies
from qosmanager.linux.disks import BlockDevices
from qosmanager.linux.foreign import foreign_agent
from qosmanager.linux.knob_trial import try_knobs
from qosmanager.linux.kubelet import KubeletCpus
from qosmanager.linux.pressure import parse_stall
from qosmanager.linux.procfs import MemoryInfo, parse_meminfo
from qosmanager.linux.replace_file import read_small_file
from qosmanager.linux.trial import filesystem, try_directory, try_group_stall, try_limits, try_oom_score, try_stall_trigger

_TIMEX = 256  # bytes, more than the kernel's struct timex
_UNSYNCHRONISED = 5  # TIME_ERROR
_SIGNALS = ("evictionHard", "evictionSoft")


class Places(Struct, frozen=True, kw_only=True):
    """Where to look."""

    cgroup_root: Path = Path("/sys/fs/cgroup")
    state_dir: Path = Path("/run/qosmanager")
    proc: Path = Path("/proc")
    sysfs: Path = Path("/sys")
    kubelet: Path = Path("/var/lib/kubelet")
    systemd: Path = Path("/run/systemd/system")


def probe(places: Places) -> Host:
    """Look at the node. Never fails: what cannot be seen is said to be unknown."""
    memory = _memory(places.proc)
    hierarchies, problem = _hierarchies(places.cgroup_root)
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Host(
        kernel=os.uname().release,
        root=os.geteuid() == 0,
        cgroup_root=str(places.cgroup_root),
        versions={name: hierarchies.version(name) for name in (*CONTROLLERS, "unified")} if hierarchies else {},
        cgroup_problem=problem,
        writes=try_limits(hierarchies) if hierarchies else {},
        knobs=try_knobs(hierarchies, BlockDevices(places.sysfs)) if hierarchies else {},
        node_stall=_node_stall(places.proc),
        group_stall=try_group_stall(hierarchies) if hierarchies else Trial(None, "there are no cgroups"),
        stall_trigger=try_stall_trigger(hierarchies) if hierarchies else Trial(None, "there are no cgroups"),
        memory_total=memory.total if memory else None,
        swap_total=memory.swap_total if memory else None,
        kubelet=_kubelet(places.kubelet),
        foreign=foreign_agent(places.proc),
        synchronised=_synchronised(),
        clock_source=_text(places.sysfs / "devices/system/clocksource/clocksource0/current_clocksource"),
        state_dir=str(places.state_dir),
        state_filesystem=filesystem(places.state_dir, places.proc / "self/mountinfo"),
        state_write=try_directory(places.state_dir),
        open_files=most_files,
        oom_score=try_oom_score(places.proc),
        systemd=places.systemd.is_dir(),
    )


def _hierarchies(root: Path) -> tuple[Hierarchies | None, str]:
    try:
        return Hierarchies.probe(root), ""
    except (CgroupRootError, OSError) as error:
        return None, str(error)


def _memory(proc: Path) -> MemoryInfo | None:
    try:
        return parse_meminfo((proc / "meminfo").read_bytes())
    except (OSError, ValueError):
        return None


def _node_stall(proc: Path) -> Trial:
    for kind in ("cpu", "memory", "io"):
        path = proc / "pressure" / kind
        try:
            parse_stall(path.read_bytes())
        except FileNotFoundError:
            return Trial(False, f"this kernel has no {path}")
        except (OSError, ValueError) as error:
            return Trial(False, f"{path}: {getattr(error, 'strerror', None) or error}")
    return Trial(True, "cpu, memory and io are known")


def _kubelet(directory: Path) -> Kubelet | None:
    if not directory.is_dir():
        return None
    grants = KubeletCpus(directory / "cpu_manager_state").grants()
    eviction, problem = _eviction(directory / "config.yaml")
    return Kubelet(static=None if grants.problem else grants.static, eviction=eviction, problem=grants.problem or problem)


def _eviction(path: Path) -> tuple[dict[str, str], str]:
    """Return kubelet's eviction thresholds by signal, or why they are not known."""
    try:
        raw = read_small_file(path)
        document: Any = None if raw is None else foreign(raw.decode())
    except OSError as error:
        return {}, f"{path}: {error.strerror}"
    except ValueError:
        return {}, f"{path} is not understood"
    if raw is None:
        return {}, f"{path} is not there"
    found: dict[str, str] = {}
    for kind in _SIGNALS:
        signals = document.get(kind) if isinstance(document, dict) else None
        if isinstance(signals, dict):
            found |= {f"{kind.removeprefix('eviction').lower()} {name}": str(value) for name, value in signals.items()}
    return found, "" if found else f"{path} sets none: kubelet's defaults hold (memory.available 100Mi)"


def _synchronised() -> bool | None:
    """Ask the kernel (adjtimex(2), which changes nothing when no mode is given)."""
    library = ctypes.CDLL(None, use_errno=True)
    state = library.adjtimex(ctypes.create_string_buffer(_TIMEX))
    return None if state < 0 else state != _UNSYNCHRONISED


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
