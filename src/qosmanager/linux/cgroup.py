"""The cgroup hierarchies of this machine: which version each controller has, where its files are, safe access to them.

In: a cgroup root (usually /sys/fs/cgroup, another one with --cgroup-root). Out: `Hierarchies`, the `KernelFiles` port, over v1, v2 and
hybrid hosts (specification, section 9). Paths that leave the root are refused; links are not followed.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from qosmanager.linux.descriptor import SHORT, TextOfGroup, with_rest
from qosmanager.linux.keyed import LineOfGroup, line_of
from qosmanager.model.workload import CgroupFile

CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "freezer", "blkio")
HOMES = ("cpu", "cpuacct", "memory", "unified")  # those that a limit or a reading is taken from: one of them tells which groups there are


class CgroupRootError(Exception):
    """The given root holds no cgroup hierarchy; the text says what was looked for and where."""


def safe_group(group: str) -> str:
    """Return a group path without leading or doubled slashes. Raises ValueError for one that would leave the root."""
    parts = [part for part in group.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in group:
        raise ValueError(f"cgroup path {group!r} leaves the cgroup root")
    return "/".join(parts)


class Hierarchies:
    """Per controller: version and mount directory. "unified" is the v2 tree of any host that has one."""

    def __init__(self, root: Path, mounts: dict[str, tuple[int, Path]]) -> None:
        self.root = root
        self._mounts = mounts
        self._directories = {controller: str(path) for controller, (_, path) in mounts.items()}

    @classmethod
    def probe(cls, root: Path) -> Hierarchies:
        """Look at `root` and find each controller's hierarchy. Raises CgroupRootError where none tells which groups there are."""
        mounts: dict[str, tuple[int, Path]] = {}
        # os.path, which also knows that there is no file whose name no file can have.
        unified = next((path for path in (root, root / "unified") if os.path.exists(path / "cgroup.controllers")), None)
        if unified is not None:
            mounts["unified"] = (2, unified)
            available = (unified / "cgroup.controllers").read_text(encoding="ascii", errors="replace").split()
            for controller in CONTROLLERS:
                if controller in available:
                    mounts[controller] = (2, unified)
            if unified == root:
                # cpu.stat's usage and cgroup.freeze are there without any controller.
                mounts["cpuacct"] = mounts["freezer"] = (2, unified)
                if "io" in available:
                    mounts["blkio"] = (2, unified)
        if unified != root:
            # Co-mounted controllers ("cpu,cpuacct") have links under the single names on every distribution; take the real directory.
            for controller in CONTROLLERS:
                path = root / controller
                if controller not in mounts and os.path.exists(path / "cgroup.procs"):
                    mounts[controller] = (1, path.resolve())
        if not any(home in mounts for home in HOMES):
            raise CgroupRootError(f"no cgroup hierarchy at {root}: neither {root}/cgroup.controllers (v2) nor {root}/cpu/cgroup.procs (v1)")
        return cls(root, mounts)

    def identity(self) -> str:
        mount = self._directories.get("cpu") or next(iter(self._directories.values()))
        found = os.stat(mount)
        return f"{found.st_dev}:{found.st_ino}"

    def version(self, controller: str) -> int | None:
        mount = self._mounts.get(controller)
        return mount[0] if mount else None

    def directory(self, controller: str, group: str) -> str:
        """Return the group's directory. OSError(ENOENT) when the controller is not there."""
        try:
            base = self._directories[controller]
        except KeyError:
            raise OSError(errno.ENOENT, f"no cgroup controller {controller!r} under {self.root}") from None
        group = safe_group(group)
        return f"{base}/{group}" if group else base

    def path(self, file: CgroupFile) -> str:
        """Return the path of a kernel file."""
        if "/" in file.name:
            raise ValueError(f"{file.name!r} is no cgroup file name")
        return f"{self.directory(file.controller, file.group)}/{file.name.partition('@')[0]}"

    def read(self, file: CgroupFile) -> str:
        descriptor = os.open(self.path(file), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            content = os.read(descriptor, 65536)
            if len(content) >= SHORT:
                content = with_rest(descriptor, content)
            text = content.decode("utf-8", "replace").strip()
            return line_of(file.name, text) if "@" in file.name else text
        finally:
            os.close(descriptor)

    def keep(self, file: CgroupFile, inode: int) -> TextOfGroup | LineOfGroup:
        whole = TextOfGroup(self.directory(file.controller, file.group), file.name.partition("@")[0], inode)
        return LineOfGroup(whole, file.name) if "@" in file.name else whole

    def write(self, file: CgroupFile, text: str) -> None:
        # os.write on a descriptor: a buffered file that is closed by the interpreter loses the kernel's errno. Not blocking: newer kernels
        # then leave it to the group itself to give back what it holds above a memory.high that fell.
        text = f"{file.name.partition('@')[2]} {text}" if "@" in file.name else text
        descriptor = os.open(self.path(file), os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            os.write(descriptor, text.encode("ascii"))
        finally:
            os.close(descriptor)

    def inode(self, controller: str, group: str) -> int:
        return os.stat(self.directory(controller, group), follow_symlinks=False).st_ino

    def children(self, controller: str, group: str) -> list[str]:
        directory = self.directory(controller, group)
        # Two links, of its name and its own dot: nothing below, which most groups have, and a look at all files costs ten times as much.
        if os.stat(directory, follow_symlinks=False).st_nlink == 2:
            return []
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))

    def pids(self, controller: str, group: str) -> list[int]:
        return [int(pid) for pid in self.read(CgroupFile(controller, group, "cgroup.procs")).split()]
