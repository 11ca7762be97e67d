"""Processes by an identity that no later process has (specification, section 9): pid and start time, pidfd, oom_score_adj, names."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

PROC = Path("/proc")
_BATCH = 128  # pidfds open at a time


def start_time(pid: int, proc: Path = PROC) -> int:
    """Ticks since boot at which a process began. OSError (ENOENT, ESRCH) when it is gone."""
    stat = _read(f"{proc}/{pid}/stat")
    # The name in parentheses may hold anything, spaces and parentheses too.
    return int(stat.rpartition(b")")[2].split()[19])


class ProcScores:
    """oom_score_adj in /proc: the `OomScores` of execute/."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc

    def identity(self, pid: int) -> str:
        return f"{pid}:{start_time(pid, self._proc)}"

    def read(self, pid: int) -> int:
        return int(_read(f"{self._proc}/{pid}/oom_score_adj"))

    def write(self, identity: str, value: int) -> None:
        pid, _, started = identity.partition(":")
        directory = os.open(f"{self._proc}/{pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # The open directory stays that of this process: a later one with its pid is not reached through it.
            if start_time(int(pid), self._proc) != int(started):
                raise ProcessLookupError(errno.ESRCH, "another process has this pid now")
            descriptor = os.open("oom_score_adj", os.O_WRONLY | os.O_CLOEXEC, dir_fd=directory)
            try:
                os.write(descriptor, str(value).encode("ascii"))
            finally:
                os.close(descriptor)
        finally:
            os.close(directory)


def signal_members(members: Callable[[], set[int]], number: signal.Signals) -> set[int]:
    """Signal every process of a set that `members` reads anew; return those that were reached.

    A pid is pinned by a pidfd first and must be in the set after that: one that was reused meanwhile is never hit.
    """
    reached: set[int] = set()
    found = sorted(members())
    for start in range(0, len(found), _BATCH):
        pinned = _pin(found[start : start + _BATCH])
        try:
            meant = members()
            reached |= {pid for pid, descriptor in pinned.items() if pid in meant and _signal(descriptor, number)}
        finally:
            for descriptor in pinned.values():
                os.close(descriptor)
    return reached


def _pin(pids: list[int]) -> dict[int, int]:
    pinned: dict[int, int] = {}
    for pid in pids:
        try:
            pinned[pid] = os.pidfd_open(pid)
        except OSError:
            continue  # gone, or no descriptor left: the next round finds it again
    return pinned


def _signal(descriptor: int, number: signal.Signals) -> bool:
    try:
        signal.pidfd_send_signal(descriptor, number)
    except OSError:
        return False
    return True


def named(name: str, proc: Path = PROC) -> Iterator[int]:
    """Processes whose command or executable has this name."""
    for pid in filter(str.isdecimal, os.listdir(proc)):
        try:
            command = _read(f"{proc}/{pid}/comm").decode("utf-8", "replace").strip()
            if command == name or os.path.basename(os.readlink(f"{proc}/{pid}/exe")) == name:
                yield int(pid)
        except OSError:
            continue  # gone, a kernel thread, or not ours to look at


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)
