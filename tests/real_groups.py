"""Real cgroups for tests: a directory of this test run's own in every hierarchy, removed at the end with what runs in it.

`obstacle()` says why there can be none here, or None.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from qosmanager.linux.cgroup import CgroupRootError, Hierarchies
from qosmanager.model.workload import CgroupFile
from waiting import wait

ROOT = Path("/sys/fs/cgroup")
_NAMES = ("cpu", "cpuacct", "cpuset", "memory", "freezer", "blkio", "unified")
BUSY = "import time\nwhile True: pass"


def obstacle() -> str | None:
    """Why no cgroup can be made here."""
    if os.geteuid() != 0:
        return "real cgroups need root"
    try:
        hierarchies = Hierarchies.probe(ROOT)
        probe = Path(hierarchies.directory("cpu", f"qosm-test-probe-{os.getpid()}"))
        probe.mkdir()
        probe.rmdir()
    except (CgroupRootError, OSError) as error:
        return f"no cpu cgroup can be made below {ROOT}: {error}"
    return None


class RealGroups:
    """Groups below one of our own. Names are relative to it; `path` gives the group as the agent knows it."""

    def __init__(self) -> None:
        self.kernel = Hierarchies.probe(ROOT)
        self.top = f"qosm-test-{os.getpid()}-{time.monotonic_ns()}"
        self._made: list[str] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self.add("")

    def path(self, name: str) -> str:
        return f"{self.top}/{name}" if name else self.top

    def add(self, name: str) -> str:
        group = self.path(name)
        for directory in self._directories(group):
            os.makedirs(directory, exist_ok=True)
        if self.kernel.version("cpu") == 2:
            # v2 gives a group's files to its parent to enable; only groups without processes of their own can.
            above = self.kernel.directory("cpu", os.path.dirname(group))
            there = set(Path(above, "cgroup.controllers").read_text().split())
            Path(above, "cgroup.subtree_control").write_text(
                " ".join(f"+{name}" for name in ("cpu", "cpuset", "memory", "io") if name in there)
            )
        if self.kernel.version("cpuset") == 1:
            above = os.path.dirname(group)
            for file in ("cpuset.cpus", "cpuset.mems"):
                self.put(group, file, self.kernel.read(CgroupFile("cpuset", above, file)))
        self._made.append(group)
        return group

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        """Run a command inside a group from its first instruction on."""
        process = subprocess.Popen(["sh", "-c", 'read go; exec "$@"', "sh", *command], stdin=subprocess.PIPE)
        for directory in self._directories(self.path(name)):
            Path(directory, "cgroup.procs").write_text(str(process.pid))
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.close()
        self._processes.append(process)
        return process

    def move(self, name: str, pid: int) -> None:
        """Put a process into a group as far as CPU is concerned."""
        Path(self.kernel.directory("cpu", self.path(name)), "cgroup.procs").write_text(str(pid))

    def busy(self, name: str, count: int = 1) -> list[subprocess.Popen[bytes]]:
        return [self.start(name, sys.executable, "-c", BUSY) for _ in range(count)]

    def put(self, group: str, name: str, text: str) -> None:
        self.kernel.write(CgroupFile(name.partition(".")[0], group, name), text)

    def text(self, group: str, name: str) -> str:
        return self.kernel.read(CgroupFile(name.partition(".")[0], group, name))

    def quota(self, group: str) -> str:
        return self.text(group, "cpu.cfs_quota_us" if self.kernel.version("cpu") == 1 else "cpu.max")

    def cores(self, name: str, seconds: float) -> float:
        """CPU that a group uses, in cores, over a time."""
        began, before = time.monotonic(), self._cpu_seconds(name)
        time.sleep(seconds)
        return (self._cpu_seconds(name) - before) / (time.monotonic() - began)

    def end(self, name: str) -> None:
        """The group ends, with what runs in it; it may be added again."""
        inside = set(self.kernel.pids("cpu", self.path(name)))
        for process in self._processes:
            if process.pid in inside:
                process.kill()
                process.wait()
        for directory in self._directories(self.path(name)):
            _rmdir(directory)

    def remove(self) -> None:
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            process.wait()
        for group in sorted(set(self._made), key=len, reverse=True):
            for directory in self._directories(group):
                _rmdir(directory)

    def _cpu_seconds(self, name: str) -> float:
        group = self.path(name)
        if self.kernel.version("cpuacct") == 1:
            return int(self.text(group, "cpuacct.usage")) / 1e9
        stat = dict(line.split() for line in self.kernel.read(CgroupFile("cpu", group, "cpu.stat")).splitlines())
        return int(stat["usage_usec"]) / 1e6

    def _directories(self, group: str) -> list[str]:
        found = {self.kernel.directory(name, group) for name in _NAMES if self.kernel.version(name) is not None}
        return sorted(found)


def _rmdir(directory: str) -> None:
    # A process that was killed leaves its group a moment later.
    wait(lambda: gone(directory), 10, f"{directory} to be empty")


def gone(directory: str) -> bool:
    """Remove a group, if nothing is in it any more."""
    try:
        os.rmdir(directory)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno not in (errno.EBUSY, errno.ENOTEMPTY):
            raise
        return False
    return True


def real_groups() -> Iterator[RealGroups]:
    """The body of a fixture."""
    groups = RealGroups()
    try:
        yield groups
    finally:
        groups.remove()
