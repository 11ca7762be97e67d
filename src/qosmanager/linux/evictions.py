"""Local eviction: ends the processes of a pod's cgroup (specification, section 9). Implements the `Evictions` port.

In: a victim. Out: progress by polling; nothing blocks. The systemd unit is stopped where one owns the group; else SIGTERM to every
process. When the grace period is over, counted from the beginning, SIGKILL (cgroup.kill on v2, freeze-kill-thaw on v1), again and again
until no process is left. Where the grace period is shortened, SIGTERM comes beside systemd's stop, which keeps the unit from being started
again. What somebody froze is thawed after SIGKILL: a task frozen by the v1 freezer does not even end.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from qosmanager.execute.tree import below
from qosmanager.linux.descriptor import EXHAUSTED
from qosmanager.linux.processes import signal_members
from qosmanager.linux.systemd import Systemd, UnitStop
from qosmanager.model.actions import Evict
from qosmanager.model.count import counted
from qosmanager.model.workload import CgroupFile, Workload
from qosmanager.ports import EvictionProgress, KernelFiles

T = TypeVar("T")
_HIERARCHIES = ("memory", "cpu", "cpuacct", "cpuset", "freezer", "unified")
_SYSTEMD_ANSWERS = 5.0  # seconds for systemctl to answer, but no more than half of the grace period: the rest is for SIGTERM
_KILL_LASTS = 30.0  # seconds of SIGKILL after which a pod counts as not to be ended (uninterruptible sleep)
_FREEZE_LOOKS = 50
_FREEZER = "freezer.state"


class _Stage(Protocol):
    """What is done now to end a victim."""

    def drive(self, victim: _Victim, now: float) -> _Stage | str:
        """Do a little; return the stage that comes next (often itself), or why the victim cannot be ended."""


class _Victim:
    """A group and how its processes are found; the inode tells a successor of the same name apart. `until`: when its grace period is
    over."""

    def __init__(self, kernel: KernelFiles, group: str, until: float) -> None:
        self.kernel = kernel
        self.group = group
        self.until = until
        there = [each for each in _HIERARCHIES if self._inode(each) is not None]
        # Not every group is used in every hierarchy: one without processes says nothing while another one has some.
        self.controller = next((each for each in there if any(_listed(kernel, group, each))), there[0] if there else None)
        self.inode = None if self.controller is None else self._inode(self.controller)

    def _inode(self, controller: str) -> int | None:
        if self.kernel.version(controller) is None:
            return None
        try:
            return self.kernel.inode(controller, self.group)
        except OSError:
            return None

    def pids(self, controller: str | None = None) -> set[int]:
        """Processes now, of this group and those below it; none when the group is gone or another one has its name. OSError where
        descriptors or memory have run out: nobody knows then that none is left."""
        if self.controller is None or self._inode(self.controller) != self.inode:
            return set()
        controller = controller or self.controller
        # A pid that is 0 belongs to another pid namespace and cannot be signalled from here.
        return {pid for pid in _listed(self.kernel, self.group, controller) if pid > 0}

    def elsewhere(self, controller: str) -> bool:
        """Whether the group of this name in another hierarchy holds this victim's processes and no others."""
        if self._inode(controller) is None:
            return False
        there = self.pids(controller)
        return bool(there) and there <= self.pids()


class _Stopping:
    """systemd is asked to stop the unit, and does so with the unit's own stop commands. Where it does not answer we go on ourselves."""

    def __init__(self, stop: UnitStop, until: float) -> None:
        self._stop = stop
        self._until = until

    def drive(self, victim: _Victim, now: float) -> _Stage | str:
        taken = self._stop.taken
        if now < victim.until and (taken or (taken is None and now < self._until)):
            return self
        return _Terminating().drive(victim, now)


class _Terminating:
    """Every process is asked once to end, also those that are born meanwhile."""

    def __init__(self) -> None:
        self._asked: set[int] = set()

    def drive(self, victim: _Victim, now: float) -> _Stage | str:
        if now >= victim.until:
            return _Killing(now).drive(victim, now)
        asked = self._asked & victim.pids()
        # Only who was reached: one that is born meanwhile is asked the next time.
        self._asked = asked | signal_members(lambda: victim.pids() - asked, signal.SIGTERM)
        return self


class _Killing:
    """SIGKILL, by the strongest means that the hierarchies have."""

    def __init__(self, now: float) -> None:
        self._until = now + _KILL_LASTS

    def drive(self, victim: _Victim, now: float) -> _Stage | str:
        pids = victim.pids()
        if now >= self._until:
            why = "; a freezer group above holds it frozen" if _frozen_from_above(victim) else ""
            return f"{counted(len(pids), 'process')} still there {_KILL_LASTS:g} s after SIGKILL, process {min(pids)} the first{why}"
        # Asked before: who has ended is not there any more to tell that the freezer's group is this victim's.
        freezer = victim.kernel.version("freezer") == 1 and victim.elsewhere("freezer")
        try:
            if not _kill_by_cgroup(victim):
                if freezer:
                    _freeze(victim)
                signal_members(victim.pids, signal.SIGKILL)
        finally:
            if freezer:
                _thaw(victim)
        return self


class LocalEvictions:
    """Ends pods on this machine, several at a time."""

    def __init__(self, kernel: KernelFiles, systemd: Systemd) -> None:
        self._kernel = kernel
        self._systemd = systemd
        self._victims: dict[str, tuple[_Victim, _Stage]] = {}

    def begin(self, action: Evict, workload: Workload, now: float) -> str:
        """Start to end a pod; SIGTERM is sent before this returns, unless there is time for systemd to stop its unit. Return why it cannot
        be, or ""."""
        try:
            return self._begin(action, workload, now)
        except OSError as error:
            return f"its processes cannot be listed: {error.strerror or error}"

    def _begin(self, action: Evict, workload: Workload, now: float) -> str:
        if not workload.cgroup.strip("/"):
            return "its cgroup is the root, which holds the whole machine"
        grace = workload.grace if action.grace is None else min(action.grace, workload.grace)
        victim = _Victim(self._kernel, workload.cgroup, now + grace)
        pids = victim.pids()
        if not pids and victim.controller is not None:
            # What it still holds (files in memory, or a reading of some seconds ago) is freed by no signal.
            return "no process is left in its group"
        if problem := untouchable(pids):
            return problem
        if grace < workload.grace:
            after = _Terminating().drive(victim, now)  # before systemctl is started: memory runs out, and with it the room for that
            self._systemd.stop(workload.cgroup)
        else:
            stop = self._systemd.stop(workload.cgroup)
            first: _Stage = _Terminating() if stop is None else _Stopping(stop, now + min(_SYSTEMD_ANSWERS, grace / 2))
            after = first.drive(victim, now)
        if isinstance(after, str):
            return after
        self._victims[action.pod] = (victim, after)
        return ""

    def unsettled(self) -> frozenset[str]:
        """Keys of pods with processes left, which may have to be killed yet."""
        return frozenset(self._victims)

    def poll(self, now: float) -> dict[str, EvictionProgress]:
        """Do what is due; progress by pod key, an end once."""
        progress = {}
        for key in list(self._victims):
            try:
                progress[key] = self._drive(key, now)
            except OSError:
                progress[key] = EvictionProgress(done=False)  # once more in the next cycle
            if progress[key].done or progress[key].error:
                del self._victims[key]
        return progress

    def _drive(self, key: str, now: float) -> EvictionProgress:
        victim, stage = self._victims[key]
        pids = victim.pids()
        # Looked at each time: somebody may have moved this agent into the group in the meantime.
        after = untouchable(pids) or stage.drive(victim, now) if pids else stage
        if isinstance(after, str):
            return EvictionProgress(done=False, error=after)
        self._victims[key] = (victim, after)
        return EvictionProgress(done=not victim.pids())


def untouchable(pids: set[int]) -> str:
    """Why these processes must not be ended, or ""."""
    if 1 in pids:
        return "process 1 is in its cgroup"
    if os.getpid() in pids:
        return "this agent itself is in its cgroup"
    return ""


def is_empty(kernel: KernelFiles, group: str) -> bool:
    """Tell whether no process is left in a group and those below it. OSError where descriptors or memory have run out."""
    used = (each for each in _HIERARCHIES if kernel.version(each) is not None)
    return not any(pid for each in used for pid in _listed(kernel, group, each))


def _listed(kernel: KernelFiles, group: str, controller: str) -> Iterator[int]:
    """Processes of a group and of those below it, without what vanishes meanwhile. OSError where descriptors or memory have run out."""
    waiting = [group]
    while waiting:
        each = waiting.pop()
        waiting += [f"{each}/{name}" for name in _there(kernel.children, controller, each)]
        yield from _there(kernel.pids, controller, each)


def _there(look: Callable[[str, str], list[T]], controller: str, group: str) -> list[T]:
    try:
        return look(controller, group)
    except OSError as error:
        if error.errno in EXHAUSTED:
            raise
        return []


def _kill_by_cgroup(victim: _Victim) -> bool:
    """cgroup.kill, in the v2 tree that holds the victim's processes. False where there is none."""
    assert victim.controller is not None
    v2 = victim.controller if victim.kernel.version(victim.controller) == 2 else "unified"
    if v2 != victim.controller and not victim.elsewhere(v2):
        return False
    try:
        victim.kernel.write(CgroupFile(v2, victim.group, "cgroup.kill"), "1")
    except OSError:
        return False
    return not (v2 != victim.controller and victim.pids() - victim.pids(v2))


def _freeze(victim: _Victim) -> None:
    """Keep all from forking away while they are killed."""
    file = CgroupFile("freezer", victim.group, _FREEZER)
    with contextlib.suppress(OSError):
        victim.kernel.write(file, "FROZEN")
        # Freezing takes some 2 ms; a task in uninterruptible sleep would hold it up for ever.
        for _ in range(_FREEZE_LOOKS):
            if victim.kernel.read(file) == "FROZEN":
                break


def _thaw(victim: _Victim) -> None:
    """Let all run into their end, whoever froze them: a group below may have been frozen by itself."""
    for group in (victim.group, *below(victim.kernel, "freezer", victim.group)):
        with contextlib.suppress(OSError):  # the group went with its last process
            victim.kernel.write(CgroupFile("freezer", group, _FREEZER), "THAWED")


def _frozen_from_above(victim: _Victim) -> bool:
    try:
        return victim.kernel.read(CgroupFile("freezer", victim.group, "freezer.parent_freezing")) == "1"
    except OSError:
        return False
