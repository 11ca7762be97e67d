"""What the kernel lets this process do, tried on groups and processes of its own and undone at once (specification, section 9)."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from qosmanager.doctor.host import Trial
from qosmanager.linux.cgroup import Hierarchies
from qosmanager.linux.pressure import parse_stall
from qosmanager.model.workload import CgroupFile

LIMITED = ("cpu", "cpuset", "memory")
_MEMORY = str(1 << 30)
_LIMITS = {  # (file, text) by controller and version
    ("cpu", 1): ("cpu.cfs_quota_us", "50000"),
    ("cpu", 2): ("cpu.max", "50000 100000"),
    ("memory", 1): ("memory.limit_in_bytes", _MEMORY),
    ("memory", 2): ("memory.max", _MEMORY),
}


def try_limits(hierarchies: Hierarchies) -> dict[str, Trial]:
    """Write a limit of each controller that is there, in a group of our own that is removed at once."""
    return {name: _try_limit(hierarchies, name) for name in LIMITED if hierarchies.version(name) is not None}


def try_group_stall(hierarchies: Hierarchies) -> Trial:
    """Read the pressure of some group of the v2 tree."""
    if hierarchies.version("unified") is None:
        return Trial(False, "there is no cgroup v2 tree, and v1 has no pressure files")
    refused = "the v2 tree holds no group yet"
    for group in hierarchies.children("unified", ""):
        try:
            parse_stall(hierarchies.read(CgroupFile("unified", group, "cpu.pressure")).encode("ascii"))
        except FileNotFoundError:
            refused = "this kernel has no pressure files of groups"
        except (OSError, ValueError) as error:
            refused = f"{group}/cpu.pressure: {getattr(error, 'strerror', None) or error}"
        else:
            beside = "" if hierarchies.version("cpu") == 2 else "; only of pods whose processes sit in the v2 tree too"
            return Trial(True, f"waiting for CPU is known{beside}")
    return Trial(False, refused)


def try_stall_trigger(hierarchies: Hierarchies) -> Trial:
    """Ask the kernel to wake us when a group of our own stalls for half of half a second."""
    if hierarchies.version("unified") is None or os.geteuid() != 0:
        return Trial(None, "not tried")
    try:
        with own_group(hierarchies, "unified") as group:
            hierarchies.write(CgroupFile("unified", group, "cpu.pressure"), "some 250000 500000")
    except OSError as error:
        return Trial(
            False, f"{error.strerror}; CAP_SYS_RESOURCE allows them" if error.errno in (errno.EINVAL, errno.EPERM) else str(error.strerror)
        )
    return Trial(True, "kernel triggers of half a second")


def try_oom_score(proc: Path = Path("/proc")) -> Trial:
    """Write our own oom_score_adj as it is; and say where other users' processes would refuse."""
    path = proc / "self/oom_score_adj"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.write(descriptor, os.read(descriptor, 16).strip())
        finally:
            os.close(descriptor)
    except OSError as error:
        return Trial(False, f"{path}: {error.strerror}")
    return Trial(True, "can be written") if os.geteuid() == 0 else Trial(True, "can be written, of this user's processes")


def try_directory(directory: Path) -> Trial:
    """Tell whether the agent could keep its journal there; nothing is made that is not there."""
    # What another user is refused says nothing about root, who the agent is.
    refused = False if os.geteuid() == 0 else None
    if not os.path.lexists(directory):
        above = next(parent for parent in directory.absolute().parents if parent.exists())
        return Trial(True, f"{directory} can be made") if os.access(above, os.W_OK) else Trial(refused, f"{above} cannot be written")
    if not directory.is_dir() or directory.is_symlink():
        return Trial(False, f"{directory} is not a directory")
    owner = directory.lstat().st_uid
    if owner != os.geteuid():
        return Trial(refused, f"{directory} belongs to user {owner}")
    if not os.access(directory, os.W_OK):
        return Trial(refused, f"{directory} cannot be written")
    return Trial(True, f"{directory} can be written")


def filesystem(directory: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """Return the type of the file system that a directory is or would be on, "" when it is not known."""
    wanted = Path(os.path.realpath(directory))
    best, kind = -1, ""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        fields = line.split()
        if "-" not in fields[6:] or len(fields) < 9:
            continue
        point = Path(fields[4].encode("latin-1", "replace").decode("unicode_escape"))
        # A later mount on the same place covers the earlier one.
        if (point == wanted or point in wanted.parents) and len(point.parts) >= best:
            best, kind = len(point.parts), fields[fields.index("-", 6) + 1]
    return kind


def _try_limit(hierarchies: Hierarchies, controller: str) -> Trial:
    if os.geteuid() != 0:
        return Trial(None, "not tried: not root")
    version = hierarchies.version(controller)
    try:
        with own_group(hierarchies, controller) as group:
            name, text = _LIMITS.get((controller, version or 0)) or ("cpuset.cpus", _some_cpus(hierarchies))
            file = CgroupFile(controller, group, name)
            hierarchies.write(file, text)
            found = hierarchies.read(file)
    except FileNotFoundError as error:
        return Trial(False, f"{error.filename} is not there{'; cgroup.subtree_control of the root lacks it' if version == 2 else ''}")
    except OSError as error:
        return Trial(False, f"{error.filename or controller}: {error.strerror}")
    return Trial(True, f"{name} can be written") if found == text else Trial(False, f"{name} holds {found!r} after {text!r} was written")


def _some_cpus(hierarchies: Hierarchies) -> str:
    """Return the CPUs of the root: what any group may have."""
    name = "cpuset.cpus" if hierarchies.version("cpuset") == 1 else "cpuset.cpus.effective"
    return hierarchies.read(CgroupFile("cpuset", "", name))


@contextmanager
def own_group(hierarchies: Hierarchies, controller: str) -> Iterator[str]:
    group = f"qosmanager-doctor-{os.getpid()}"
    directory = hierarchies.directory(controller, group)
    try:
        os.mkdir(directory)
        yield group
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(directory)
