"""The tree of groups as it is now: the `GroupTree` port over one hierarchy (specification, section 9)."""

from __future__ import annotations

import os
import stat

from qosmanager.linux.cgroup import Hierarchies, safe_group
from qosmanager.linux.cgroup_reader import home_controller
from qosmanager.linux.descriptor import EXHAUSTED


class CgroupTree:
    """`GroupTree` over the hierarchy that tells which groups there are. Links are never followed, at no level of a path.

    OSError where descriptors or memory have run out: whoever took all groups for ended would let go of what they are held at.
    """

    def __init__(self, hierarchies: Hierarchies) -> None:
        self._base = hierarchies.directory(home_controller(hierarchies), "")
        self.root = str(hierarchies.root)

    def children(self, group: str) -> dict[str, tuple[int, int]]:
        if self.identity(group) is None:
            return {}
        found: dict[str, tuple[int, int]] = {}
        try:
            with os.scandir(self._path(group)) as entries:
                directories = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError as error:
            if error.errno in EXHAUSTED:
                raise
            return {}  # it ended meanwhile
        for entry in sorted(directories, key=lambda entry: entry.name):
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            found[entry.name] = (status.st_ino, status.st_nlink)
        return found

    def identity(self, group: str) -> tuple[int, int] | None:
        found = self._stat(group)
        return (found.st_ino, found.st_nlink) if found else None

    def created(self, group: str) -> float | None:
        found = self._stat(group)
        return found.st_mtime if found else None

    def has_processes(self, group: str) -> bool:
        try:
            with open(f"{self._path(group)}/cgroup.procs", encoding="ascii") as file:
                return bool(file.read(1))
        except OSError as error:
            if error.errno in EXHAUSTED:
                raise
            return False  # a group that ended holds nobody

    def _path(self, group: str) -> str:
        group = safe_group(group)
        return f"{self._base}/{group}" if group else self._base

    def _stat(self, group: str) -> os.stat_result | None:
        """Look at a directory; None when it is not there or a link lies on the way to it."""
        path = self._base
        found: os.stat_result | None = None
        try:
            for part in ("", *safe_group(group).split("/")):
                path = f"{path}/{part}" if part else path
                found = os.lstat(path)
                if not stat.S_ISDIR(found.st_mode):
                    return None
        except OSError:
            return None
        return found
