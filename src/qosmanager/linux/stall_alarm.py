"""Listening to the services, and looking at memory, between cycles: the `Alarm` port (specification, section 2: fast path).

In: the groups of the services. Out: a wait that ends when one of them is out of its habit. At every interval the stalled time of each group
is read from its cpu.pressure, with its CPU time where it uses some, from descriptors that stay open. Where the kernel allows triggers with
windows of half a second (CAP_SYS_RESOURCE), it wakes us for the groups that do not stall, and those are not read. Available memory is
read as often, while the last cycle found little enough of it to ask for that.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Callable, Mapping

from qosmanager.linux.cgroup import Hierarchies
from qosmanager.linux.descriptor import EXHAUSTED
from qosmanager.linux.stall_ear import Ear
from qosmanager.model.count import counted
from qosmanager.ports import AlarmCost, CannotListenError, Earlier, Jump, MemoryGuard

_LOOK_AGAIN = 10.0  # seconds after which a group that could not be listened to is tried again
_NAMED = 3  # pods named in a reason
_MIB = 1 << 20


class StallAlarm:
    """The alarm of one machine. `watch` and `wait` are for one thread, `wake` for any."""

    def __init__(self, hierarchies: Hierarchies, available: Callable[[], int | None] | None) -> None:
        """`available` reads the node's available memory in bytes; without it there is no look at memory."""
        self._hierarchies = hierarchies
        self._available = available
        self._guard: MemoryGuard | None = None
        self._ears: dict[str, Ear] = {}
        self._armed: dict[int, str] = {}  # descriptor of a trigger -> key
        self._deaf: dict[str, float] = {}  # key -> when it is tried again
        self._why_deaf = ""
        self._interval = 0.1
        self._next = 0.0
        self._turn = False
        self._has_triggers = True  # until the kernel refuses one
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
        began, now = time.thread_time(), time.monotonic()
        self._deaf = {key: again for key, again in self._deaf.items() if again > now}
        self._open({key: group for key, group in groups.items() if key not in self._ears and key not in self._deaf}, now)
        if not self._ears:
            raise CannotListenError(self._why_deaf)
        if self._has_triggers:
            self._arm(now)
        self._seconds += time.thread_time() - began
        triggers = f", {len(self._armed)} of them by kernel triggers" if self._armed else ""
        return f"{counted(len(self._ears), 'service')}, looked at every {interval * 1000:.0f} ms{triggers}"

    def guard(self, memory: MemoryGuard | None, interval: float) -> None:
        self._guard, self._interval = (None if self._available is None else memory), interval

    def wait(self, seconds: float) -> Jump | None:
        until = time.monotonic() + seconds
        while (left := until - (now := time.monotonic())) > 0:
            looking = self._guard is not None or len(self._ears) > len(self._armed)
            if looking and self._next <= now:
                if (jump := self._look(now)) is not None:
                    return jump
                continue
            events = self._poll.poll((min(left, self._next - now) if looking else left) * 1000)
            if any(descriptor == self._wake for descriptor, _ in events):
                os.eventfd_read(self._wake)
                return None
            if events and (jump := self._fired([descriptor for descriptor, _ in events])) is not None:
                return jump
        return None

    def wake(self) -> None:
        # A second signal may come when all is closed: by then the number may be that of another file.
        if self._wake >= 0:
            os.eventfd_write(self._wake, 1)

    def cost(self) -> AlarmCost:
        return AlarmCost(reads=self._reads, seconds=self._seconds)

    def cpu_seconds(self) -> float:
        return time.thread_time()

    def close(self) -> None:
        """Let all descriptors go; who wakes it after that wakes nobody."""
        for key in tuple(self._ears):
            self._let_go(key)
        descriptor, self._wake = self._wake, -1
        os.close(descriptor)

    def _open(self, groups: Mapping[str, str], now: float) -> None:
        for key, group in groups.items():
            try:
                self._ears[key] = Ear(self._hierarchies, group)
            except (OSError, ValueError) as error:
                self._why_deaf = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) and error.filename else str(error)
                self._deaf[key] = now + _LOOK_AGAIN

    def _look(self, now: float) -> Jump | None:
        """Look at all that the kernel does not watch for us."""
        self._next = now + self._interval
        self._turn = not self._turn
        began = time.thread_time()
        if (short := self._look_at_memory()) is not None:
            self._seconds += time.thread_time() - began
            return short
        jumped: dict[str, Ear] = {}
        ended: list[str] = []
        turn = self._turn
        for key, ear in self._ears.items():
            turn = not turn
            # Those at rest take turns, half of them in each look.
            if ear.trigger >= 0 or (turn and ear.rests) or now - ear.looked < self._interval / 2:
                continue
            try:
                if ear.look(now):
                    jumped[key] = ear
            except ValueError:
                continue  # a text that is no such file's says nothing of the group
            except OSError:
                ended.append(key)
            self._reads += 1
        for key in ended:
            self._let_go(key)
        self._seconds += time.thread_time() - began
        return _jump(jumped, f"in {self._interval * 1000:.0f} ms") if jumped else None

    def _look_at_memory(self) -> Jump | None:
        if self._guard is None or self._available is None or (available := self._available()) is None:
            return None
        self._reads += 1
        if not self._guard.is_broken(available):
            return None
        now, seen, level = (each / _MIB for each in (available, self._guard.seen, self._guard.level))
        return Jump(pods={}, urgent=True, reason=f"{now:.0f} MiB of memory available, {seen:.0f} a moment ago, under {level:.0f}")

    def _arm(self, now: float) -> None:
        """Leave those that do not stall to the kernel, and look at them once all the same: their habit is known, and who begins to stall,
        however little, is left to it no longer."""
        for key, ear in tuple(self._ears.items()):
            try:
                if ear.trigger >= 0 and now - ear.looked >= self._interval / 2:
                    ear.look(now)
                    self._reads += 1
                if not ear.is_quiet(now):
                    self._disarm(ear)
                elif ear.trigger < 0:
                    ear.arm()
                    self._armed[ear.trigger] = key
                    self._poll.register(ear.trigger, select.POLLPRI)
            except PermissionError:
                self._has_triggers = False
                for each in self._ears.values():
                    self._disarm(each)
                return
            except (OSError, ValueError) as error:
                if not isinstance(error, OSError) or error.errno not in EXHAUSTED:  # where these have run out it is looked at as before
                    self._let_go(key)

    def _fired(self, descriptors: list[int]) -> Jump | None:
        """Say for which groups the kernel woke us: from now on they are looked at; those that have ended are let go."""
        jumped: dict[str, Ear] = {}
        for key in [self._armed[descriptor] for descriptor in descriptors if descriptor in self._armed]:
            ear = self._ears[key]
            self._disarm(ear)
            try:
                ear.look(time.monotonic())
                self._reads += 1
                jumped[key] = ear
            except (OSError, ValueError):
                self._let_go(key)
        return _jump(jumped, "since the last look") if jumped else None

    def _disarm(self, ear: Ear) -> None:
        if ear.trigger >= 0:
            self._armed.pop(ear.trigger, None)
            with contextlib.suppress(KeyError):
                self._poll.unregister(ear.trigger)
            ear.disarm()

    def _let_go(self, key: str) -> None:
        ear = self._ears.pop(key)
        self._disarm(ear)
        ear.close()


def _jump(jumped: Mapping[str, Ear], when: str) -> Jump:
    worst = sorted(jumped.items(), key=lambda each: (-each[1].share, each[0]))
    named = ", ".join(f"{key} {ear.share:.0%} of the time (usually {ear.usual:.0%})" for key, ear in worst[:_NAMED])
    more = f" and {len(worst) - _NAMED} more" if len(worst) > _NAMED else ""
    earlier = {key: Earlier(ear.age, ear.used_before, ear.stalled_before) for key, ear in worst}
    return Jump(pods=earlier, reason=f"waited for CPU {when}: {named}{more}")
