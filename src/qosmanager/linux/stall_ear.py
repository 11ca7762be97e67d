"""One group listened to between cycles: its stalled time, its CPU time, its habits, and a trigger of the kernel on it."""

from __future__ import annotations

import os
import time

from qosmanager.assess.stall_jump import CORES, RISE, Habit, demand_jumps, stall_jumps
from qosmanager.linux.cgroup import Hierarchies
from qosmanager.linux.descriptor import EXHAUSTED, GONE

WINDOW = 0.5  # seconds; the shortest that a trigger may have
QUIET = 0.05  # share of stall below which a group is left to the kernel
RESTED = 10.0  # seconds without a jump before it is
_LEAST_USE = 0.01  # cores; who uses less is asked for its CPU time only once a second
_IDLE_TURNS = 10
_LINE = 96  # bytes: the first line of either file, however large its numbers
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW


class Ear:
    """Of the last look: `share` of the time in which some task waited, and what it had been (`usual`), how long ago the look before was
    (`age`, seconds), and the counters that were read then: CPU seconds `used_before` (None: not read) and `stalled_before`."""

    __slots__ = (
        "_idle",
        "_mark",
        "_pressure",
        "_stalled",
        "_usage",
        "_use",
        "_used",
        "_used_at",
        "age",
        "cores",
        "group",
        "jumped",
        "looked",
        "path",
        "share",
        "stall",
        "stalled_before",
        "trigger",
        "used_before",
        "usual",
    )

    def __init__(self, hierarchies: Hierarchies, group: str) -> None:
        """Raises OSError, and ValueError where the v2 group of this path holds none of the processes."""
        self.group = group
        directory = hierarchies.directory("unified", group)
        if hierarchies.version("cpu") == 1:
            _must_be_used(directory)
        self.path = f"{directory}/cpu.pressure"
        self.trigger = -1
        self.stall, self.cores = Habit(RISE), Habit(CORES)
        self.share = self.usual = self.age = 0.0
        self.stalled_before = 0.0
        self.used_before: float | None = None
        self._used: float | None = None
        self._used_at = 0.0
        self._use = 0.0
        self._idle = 0
        self._mark = b""
        self._pressure = self._usage = -1
        try:
            self._pressure = os.open(self.path, _FLAGS)
            self._usage = os.open(_usage_path(hierarchies, group), _FLAGS)
            self._stalled = self._stalled_by(os.pread(self._pressure, _LINE, 0))
        except (OSError, ValueError):
            self.close()
            raise
        self.looked = self.jumped = time.monotonic()

    def look(self, now: float) -> bool:
        """Read, learn, and tell whether this is out of the habit. Raises OSError (ENODEV: the group has ended), ValueError."""
        line = os.pread(self._pressure, _LINE, 0)
        if self.rests and self._mark in line and self._idle < _IDLE_TURNS:
            # As nearly always, of nearly all: it has not waited, so whatever it uses is no matter.
            self._idle += 1
            self.age, self.looked, self.used_before = now - self.looked, now, None
            self.share, self.stalled_before = 0.0, self._stalled
            return False
        stalled = self._stalled_by(line)
        self.age, self.looked = now - self.looked, now
        self.stalled_before, self._stalled = self._stalled, stalled
        if self.age <= 0:
            return False
        self.share = share = min(1.0, max(0.0, (stalled - self.stalled_before) / self.age))
        self.usual = self.stall.level
        jumps = stall_jumps(self.stall, share)
        self.stall = self.stall.after(share, self.age)
        self.used_before = None
        self._idle += 1
        if share or self._use >= _LEAST_USE or self._idle >= _IDLE_TURNS:
            jumps |= self._look_at_use(now, share)
        if jumps:
            self.jumped = now
        return jumps

    def _look_at_use(self, now: float, share: float) -> bool:
        self._idle = 0
        before, since = self._used, now - self._used_at
        self._used, self._used_at = self._read_used(), now
        if before is None:
            return False
        if since < 1.5 * self.age:
            self.used_before = before
        self._use = max(0.0, (self._used - before) / since)
        wanted = self._use * (1 + share)
        jumps = demand_jumps(self.cores, wanted, share)
        self.cores = self.cores.after(wanted, since)
        return jumps

    @property
    def rests(self) -> bool:
        """Whether it has used next to nothing of late, and waited for nothing."""
        return self._use < _LEAST_USE and self.stall.level < 1e-3 and self.stall.is_known

    def is_quiet(self, now: float) -> bool:
        """Tell whether it may be left to the kernel: a window that is out of its habit is one that stalls at all."""
        return self.stall.is_known and self.stall.level < QUIET and now - self.jumped >= RESTED

    def arm(self) -> None:
        """Have the kernel wake us when the group stalls. Raises OSError; PermissionError: the kernel does not do that for us."""
        trigger = -1
        try:
            trigger = os.open(self.path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            os.write(trigger, f"some {int((QUIET + RISE) * WINDOW * 1e6)} {int(WINDOW * 1e6)}\0".encode("ascii"))
        except OSError as error:
            if trigger >= 0:
                os.close(trigger)
            if error.errno in GONE | EXHAUSTED:
                raise
            # EINVAL: such a window is for the privileged; EOPNOTSUPP: a kernel without triggers; EROFS: a tree that is only to be read.
            raise PermissionError(error.errno, error.strerror) from None
        self.trigger = trigger

    def disarm(self) -> None:
        """Look at it again instead."""
        self.jumped = time.monotonic()
        os.close(self.trigger)
        self.trigger = -1

    def close(self) -> None:
        for descriptor in (self._pressure, self._usage):
            if descriptor >= 0:
                os.close(descriptor)
        self._pressure = self._usage = -1

    def _stalled_by(self, line: bytes) -> float:
        """Return the seconds in which some task has waited since some beginning, and remember how they are written."""
        begin = line.index(b"total=")
        mark, _, _ = line[begin:].partition(b"\n")
        self._mark = mark + b"\n"
        return int(mark[6:]) / 1e6

    def _read_used(self) -> float:
        """Return the CPU seconds used since some beginning."""
        line = os.pread(self._usage, _LINE, 0)
        if line.startswith(b"usage_usec "):
            return int(line[11:].split(b"\n", 1)[0]) / 1e6
        return int(line) / 1e9


def _must_be_used(directory: str) -> None:
    """Raise ValueError for a v2 group that holds nobody: beside v1 hierarchies, which hold the processes then, it never stalls."""
    try:
        with open(f"{directory}/cgroup.events", encoding="ascii") as file:
            if "populated 0" in file.read():
                raise ValueError("the v2 groups of the services, which have the stall files, hold none of their processes")
    except FileNotFoundError:
        raise ValueError("the services' groups are not in the v2 tree, which alone has stall files of groups") from None


def _usage_path(hierarchies: Hierarchies, group: str) -> str:
    if hierarchies.version("cpuacct") == 1:
        return f"{hierarchies.directory('cpuacct', group)}/cpuacct.usage"
    return f"{hierarchies.directory('unified', group)}/cpu.stat"
