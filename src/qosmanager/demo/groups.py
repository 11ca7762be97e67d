"""The demo's own cgroups: one bounded group in each hierarchy and a group per workload below it.

In: the machine's hierarchies. Out: `Groups`, which holds processes, reads what they use, shows the values of all files that an agent may
write, and leaves nothing behind. Works on v1, v2 and hybrid hosts; a host where it cannot is a `GroupsError` with the reason.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from qosmanager.linux.cgroup import Hierarchies
from qosmanager.model.workload import CgroupFile

PREFIX = "qosmanager-demo-"
CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "freezer", "blkio", "unified")
_NEEDED = ("cpu", "cpuacct", "memory")
# Every file that the agent may write, in either version of the controller.
_WRITABLE = {
    "cpu": (
        "cpu.shares",
        "cpu.cfs_quota_us",
        "cpu.cfs_period_us",
        "cpu.cfs_burst_us",
        "cpu.idle",
        "cpu.weight",
        "cpu.max",
        "cpu.max.burst",
    ),
    "cpuset": ("cpuset.cpus", "cpuset.mems"),
    "memory": ("memory.limit_in_bytes", "memory.soft_limit_in_bytes", "memory.max", "memory.high", "memory.low", "memory.min"),
    "freezer": ("freezer.state", "cgroup.freeze"),
    "unified": ("cgroup.freeze",),
}
_KILL_WITHIN = 5.0


class GroupsError(Exception):
    """Groups cannot be made here; the text says why."""


class Groups:
    """The bounded group `name` and those below it, as paths relative to the cgroup root."""

    def __init__(self, hierarchies: Hierarchies, name: str) -> None:
        self._hierarchies = hierarchies
        self._controllers = tuple(c for c in CONTROLLERS if hierarchies.version(c) is not None)
        self._groups: list[str] = []
        self.name = name

    @property
    def root(self) -> Path:
        """The cgroup root that the groups lie under."""
        return self._hierarchies.root

    @classmethod
    def create(cls, hierarchies: Hierarchies, memory: int) -> Groups:
        """Make the bounded group of this process's demo with `memory` bytes. Raises GroupsError."""
        missing = [controller for controller in _NEEDED if hierarchies.version(controller) is None]
        if missing:
            raise GroupsError(f"cgroup controller {missing[0]} is not available under {hierarchies.root}")
        groups = cls(hierarchies, f"{PREFIX}{os.getpid()}")
        try:
            groups.delegate("")
            groups.add("", parent=True)
            groups.bound(memory)
            groups.prefer()
        except OSError as error:
            groups.remove()
            raise GroupsError(f"cgroups under {hierarchies.root} cannot be written: {os.strerror(error.errno or 0)}") from None
        return groups

    @classmethod
    def found(cls, hierarchies: Hierarchies, name: str) -> Groups:
        """Return the groups that another process has made under this name."""
        groups = cls(hierarchies, name)
        for controller in groups._controllers:
            groups._discover(controller, name)
        return groups

    def path(self, child: str) -> str:
        """Return a child's path relative to the cgroup root; "" is the bounded group."""
        return f"{self.name}/{child}" if child else self.name

    def add(self, child: str, *, parent: bool = False) -> None:
        """Make a group in every hierarchy; `parent`: it is to hold groups, not processes. Raises OSError."""
        group = self.path(child)
        if group not in self._groups:
            self._groups.append(group)
        for controller in self._controllers:
            directory = self._hierarchies.directory(controller, group)
            os.makedirs(directory, exist_ok=True)
            if controller == "cpuset" and self._hierarchies.version(controller) == 1:
                above = os.path.dirname(group)
                for name in ("cpuset.mems", "cpuset.cpus"):
                    self._write("cpuset", group, name, self._hierarchies.read(CgroupFile("cpuset", above, name)))
        if parent:
            self.delegate(group)

    def delegate(self, group: str) -> None:
        """On v2, hand the controllers down to a group's children. Raises OSError."""
        wanted = {controller for controller in ("cpu", "cpuset", "memory") if self._hierarchies.version(controller) == 2}
        if not wanted:
            return
        given = set(self._hierarchies.read(CgroupFile("unified", group, "cgroup.subtree_control")).split())
        for controller in sorted(wanted - given):
            self._write("unified", group, "cgroup.subtree_control", f"+{controller}")

    def bound(self, memory: int) -> None:
        """Bound the whole demo's memory; swap, where there is some, is no way out. Raises OSError."""
        if self._hierarchies.version("memory") == 2:
            self._write("memory", self.name, "memory.max", str(memory))
            with contextlib.suppress(OSError):
                self._write("memory", self.name, "memory.swap.max", "0")
        else:
            self._write("memory", self.name, "memory.limit_in_bytes", str(memory))
            with contextlib.suppress(OSError):
                self._write("memory", self.name, "memory.memsw.limit_in_bytes", str(memory))

    def prefer(self) -> None:
        """Give the demo as a whole four times the usual weight: what else runs here is not to blur the comparison. Raises OSError."""
        name, weight = ("cpu.weight", "400") if self._hierarchies.version("cpu") == 2 else ("cpu.shares", "4096")
        self._write("cpu", self.name, name, weight)

    def attach(self, child: str, pid: int) -> None:
        """Move a process into a group, in every hierarchy. Raises OSError."""
        for controller in self._controllers:
            self._write(controller, self.path(child), "cgroup.procs", str(pid))

    def cpu_seconds(self, child: str) -> float:
        """Return the CPU time a group has used, in seconds. Raises OSError."""
        group = self.path(child)
        if self._hierarchies.version("cpuacct") == 1:
            return int(self._hierarchies.read(CgroupFile("cpuacct", group, "cpuacct.usage"))) / 1e9
        text = self._hierarchies.read(CgroupFile("cpuacct", group, "cpu.stat"))
        return int(text.split("usage_usec", 1)[1].split(maxsplit=1)[0]) / 1e6

    def kernel_kills(self) -> int | None:
        """Return how many processes of the demo the kernel has killed for memory; None where it does not count them."""
        version = self._hierarchies.version("memory")
        name = "memory.events" if version == 2 else "memory.oom_control"
        groups = [self.name] if version == 2 else self._groups
        count = 0
        for group in groups:
            with contextlib.suppress(OSError, IndexError):
                count += int(self._hierarchies.read(CgroupFile("memory", group, name)).split("oom_kill ", 1)[1].split(maxsplit=1)[0])
        return count

    def values(self) -> dict[str, str]:
        """Return the present value of every file that an agent may write, and of each process's oom_score_adj."""
        values = {}
        for group in self._groups:
            for controller, names in _WRITABLE.items():
                if controller not in self._controllers:
                    continue
                for name in names:
                    with contextlib.suppress(OSError):
                        values[f"{controller}:/{group}/{name}"] = self._hierarchies.read(CgroupFile(controller, group, name))
        for pid in self.pids():
            with contextlib.suppress(OSError), open(f"/proc/{pid}/oom_score_adj", encoding="ascii") as file:
                values[f"/proc/{pid}/oom_score_adj"] = file.read().strip()
        return values

    def pids(self) -> set[int]:
        """Return the processes in any of the groups."""
        pids: set[int] = set()
        for group in self._groups:
            for controller in self._controllers:
                with contextlib.suppress(OSError):
                    pids.update(self._hierarchies.pids(controller, group))
        return pids

    def drop(self, child: str) -> None:
        """Kill what is left in one group and remove it."""
        group = self.path(child)
        one = Groups(self._hierarchies, self.name)
        one._groups.append(group)
        one.remove()
        self._groups.remove(group)

    def remove(self) -> None:
        """Kill what is left in the groups and remove them, deepest first. Never raises for a group that is gone."""
        deadline = time.monotonic() + _KILL_WITHIN
        while (pids := self.pids()) and time.monotonic() < deadline:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        for group in sorted(self._groups, key=len, reverse=True):
            for controller in self._controllers:
                self._remove_one(controller, group, deadline)

    def left(self) -> list[str]:
        """Return the directories of the groups that still exist."""
        directories = (self._hierarchies.directory(controller, group) for group in self._groups for controller in self._controllers)
        return sorted({directory for directory in directories if os.path.isdir(directory)})

    def _discover(self, controller: str, group: str) -> None:
        with contextlib.suppress(OSError):
            children = self._hierarchies.children(controller, group)
            if group not in self._groups:
                self._groups.append(group)
            for child in children:
                self._discover(controller, f"{group}/{child}")

    def _remove_one(self, controller: str, group: str, deadline: float) -> None:
        directory = self._hierarchies.directory(controller, group)
        while True:
            try:
                os.rmdir(directory)
            except FileNotFoundError:
                return
            except OSError:
                # A killed process leaves its group a moment after it has left cgroup.procs.
                if time.monotonic() > deadline:
                    return
                time.sleep(0.02)
            else:
                return

    def _write(self, controller: str, group: str, name: str, text: str) -> None:
        self._hierarchies.write(CgroupFile(controller, group, name), text)


def remove_stale(hierarchies: Hierarchies) -> list[str]:
    """Remove the groups of demos whose process is gone; return their names."""
    stale: set[str] = set()
    for controller in CONTROLLERS:
        with contextlib.suppress(OSError):
            stale.update(name for name in hierarchies.children(controller, "") if _is_stale(name))
    for name in sorted(stale):
        Groups.found(hierarchies, name).remove()
    return sorted(stale)


def _is_stale(name: str) -> bool:
    pid = name.removeprefix(PREFIX)
    return name.startswith(PREFIX) and pid.isdigit() and not os.path.exists(f"/proc/{pid}")
