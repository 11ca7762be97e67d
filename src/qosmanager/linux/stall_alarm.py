"""Listening to the stalls of services between cycles: the `Alarm` port (specification, section 2: fast path).

In: the groups of the services. Out: a wait that ends when the CPU stall of one jumps. Where the kernel allows triggers with windows of half
a second (CAP_SYS_RESOURCE) it is asked to wake us and nothing is read in between; elsewhere the `total=` of each group's cpu.pressure is
read at every interval, from a descriptor that stays open.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import time
from collections.abc import Mapping

from qosmanager.assess.stall_jump import Habit
from qosmanager.linux.cgroup import Hierarchies
from qosmanager.linux.descriptor import EXHAUSTED
from qosmanager.ports import AlarmCost, CannotListenError, Jump

WINDOW = 0.5  # seconds; the shortest that a trigger may have
_SOME = 96  # bytes: the `some` line, however large its total
_RETUNE = 0.25  # by how much the wanted threshold may be off before a trigger is set anew
_NAMED = 3  # pods named in a reason


class Ear:
    """One group's cpu.pressure, kept open."""

    __slots__ = ("_descriptor", "_total", "armed", "group", "habit", "looked", "path")

    def __init__(self, group: str, path: str, flags: int) -> None:
        """Raises OSError."""
        self.group = group
        self.path = path
        self.habit = Habit()
        self.armed = 0.0  # the share of a window that the kernel wakes us at; 0: it does not
        self._descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW)
        self.looked = time.monotonic()
        self._total = 0
        try:
            self._total = self._read()
        except (OSError, ValueError):
            self.close()
            raise

    def fileno(self) -> int:
        return self._descriptor

    def _read(self) -> int:
        """Return the stalled time so far, in microseconds. Raises OSError, ValueError."""
        line = os.pread(self._descriptor, _SOME, 0)
        return int(line[line.index(b"total=") + 6 : line.index(b"\n")])

    def look(self, now: float) -> float:
        """Return the share of the time since the last look in which some task waited. Raises OSError (ENODEV: the group has ended)."""
        total = self._read()
        before, self._total = self._total, total
        seconds, self.looked = now - self.looked, now
        return min(1.0, max(0.0, (total - before) / 1e6 / seconds)) if seconds > 0 else 0.0

    def learn(self, share: float, seconds: float) -> None:
        """Take a look into the habit."""
        # Most services wait for nothing most of the time.
        if share or self.habit.level > 1e-4 or self.habit.seconds < WINDOW * 10:
            self.habit = self.habit.after(share, seconds)

    def arm(self) -> None:
        """Have the kernel wake us when a window is out of the habit. Raises OSError: it does not do that here, or not for us."""
        wanted = min(0.95, self.habit.bound)
        if self.armed and abs(wanted - self.armed) <= _RETUNE * self.armed:
            return
        fresh = os.open(self.path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            os.write(fresh, f"some {int(wanted * WINDOW * 1e6)} {int(WINDOW * 1e6)}\0".encode("ascii"))
        except OSError:
            os.close(fresh)
            raise
        os.close(self._descriptor)
        self._descriptor, self.armed = fresh, wanted

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class StallAlarm:
    """The alarm of one machine. `watch` and `wait` are for one thread, `wake` for any."""

    def __init__(self, hierarchies: Hierarchies) -> None:
        self._hierarchies = hierarchies
        self._ears: dict[str, Ear] = {}
        self._interval = 0.1
        self._next = 0.0
        self._triggers: bool | None = None  # None: not tried yet
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._wake, select.POLLIN)
        self._reads = 0
        self._seconds = 0.0

    def watch(self, groups: Mapping[str, str], interval: float) -> str:
        self._interval = interval
        for key in [key for key, ear in self._ears.items() if groups.get(key) != ear.group]:
            self._let_go(key)
        if not groups:
            return ""
        began = time.thread_time()
        why_not = self._open({key: group for key, group in groups.items() if key not in self._ears})
        if not self._ears:
            raise CannotListenError(why_not)
        if self._triggers is not False:
            self._arm()
        self._seconds += time.thread_time() - began
        if self._triggers:
            return f"kernel triggers of {WINDOW:g} s"
        return f"read every {interval * 1000:.0f} ms"

    def wait(self, seconds: float) -> Jump | None:
        until = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            left = until - now
            if left <= 0:
                return None
            reading = bool(self._ears) and not self._triggers
            if reading and self._next <= now:
                if (jump := self._look(now)) is not None:
                    return jump
                continue
            events = self._poll.poll((min(left, self._next - now) if reading else left) * 1000)
            if any(descriptor == self._wake for descriptor, _ in events):
                os.eventfd_read(self._wake)
                return None
            if events and (jump := self._fired({descriptor for descriptor, _ in events})) is not None:
                return jump

    def wake(self) -> None:
        os.eventfd_write(self._wake, 1)

    def cost(self) -> AlarmCost:
        return AlarmCost(reads=self._reads, seconds=self._seconds)

    def cpu_seconds(self) -> float:
        return time.thread_time()

    def close(self) -> None:
        """Let all descriptors go."""
        for key in tuple(self._ears):
            self._let_go(key)
        os.close(self._wake)

    def _open(self, groups: Mapping[str, str]) -> str:
        """Open what is not open yet; return why the last one cannot be, "" when all can."""
        why_not = ""
        for key, group in groups.items():
            try:
                path = f"{self._hierarchies.directory('unified', group)}/cpu.pressure"
                self._check_populated(group)
                self._ears[key] = Ear(group, path, os.O_RDONLY)
            except (OSError, ValueError) as error:
                why_not = f"{error.strerror or error}: {error.filename}" if isinstance(error, OSError) and error.filename else str(error)
                if isinstance(error, OSError) and error.errno in EXHAUSTED:
                    break
        return why_not

    def _check_populated(self, group: str) -> None:
        """Beside v1 hierarchies the v2 group of the same path may hold nobody, and then never stalls."""
        with open(f"{self._hierarchies.directory('unified', group)}/cgroup.events", encoding="ascii") as file:
            if "populated 0" in file.read():
                raise ValueError("the v2 groups of the services, which have the stall files, hold none of their processes")

    def _look(self, now: float) -> Jump | None:
        """Read all, and judge those that have been quiet or not for a whole interval."""
        self._next = now + self._interval
        began = time.thread_time()
        jumped: list[tuple[str, float, Habit]] = []
        ended: list[str] = []
        for key, ear in self._ears.items():
            seconds = now - ear.looked
            if seconds < self._interval / 2:
                continue
            try:
                share = ear.look(now)
            except (OSError, ValueError):
                ended.append(key)
                continue
            self._reads += 1
            if share > ear.habit.level and ear.habit.is_jump(share):
                jumped.append((key, share, ear.habit))
            ear.learn(share, seconds)
        for key in ended:
            self._let_go(key)
        self._seconds += time.thread_time() - began
        return _jump(jumped, f"{self._interval * 1000:.0f} ms") if jumped else None

    def _arm(self) -> None:
        """Learn what each group's habit is, and have the kernel watch for what is out of it."""
        now = time.monotonic()
        for key, ear in tuple(self._ears.items()):
            seconds = now - ear.looked
            try:
                if seconds > 0:
                    share = ear.look(now)
                    self._reads += 1
                    ear.learn(share, seconds)
                before = ear.fileno()
                ear.arm()
            except OSError as error:
                if error.errno in (errno.ENODEV, errno.ENOENT):
                    self._let_go(key)
                    continue
                if self._triggers is None:
                    # Refused: for want of the capability (EPERM, EINVAL), or of a kernel that can.
                    self._triggers = False
                    return
                continue
            if ear.fileno() != before:
                with contextlib.suppress(KeyError):
                    self._poll.unregister(before)
                self._poll.register(ear.fileno(), select.POLLPRI)
            self._triggers = True

    def _fired(self, descriptors: set[int]) -> Jump | None:
        """Say which groups the kernel woke us for; let those go that have ended."""
        jumped: list[tuple[str, float, Habit]] = []
        for key, ear in tuple(self._ears.items()):
            if ear.fileno() not in descriptors:
                continue
            try:
                ear.look(time.monotonic())
                self._reads += 1
            except (OSError, ValueError):
                self._let_go(key)
                continue
            if ear.habit.seconds >= WINDOW * 2:
                jumped.append((key, ear.armed, ear.habit))
        return _jump(jumped, f"{WINDOW * 1000:.0f} ms") if jumped else None

    def _let_go(self, key: str) -> None:
        ear = self._ears.pop(key)
        with contextlib.suppress(KeyError, ValueError):
            self._poll.unregister(ear.fileno())
        ear.close()


def _jump(jumped: list[tuple[str, float, Habit]], over: str) -> Jump:
    jumped.sort(key=lambda each: (-each[1], each[0]))
    named = ", ".join(f"{key} {share:.0%} (usually {habit.level:.0%})" for key, share, habit in jumped[:_NAMED])
    more = f" and {len(jumped) - _NAMED} more" if len(jumped) > _NAMED else ""
    return Jump(pods=tuple(key for key, _, _ in jumped), reason=f"waited for CPU in the last {over}: {named}{more}")
