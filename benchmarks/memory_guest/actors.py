"""The processes of the guest: each a fork in a cgroup of its own, for starting a Python takes long where a page fault does."""

from __future__ import annotations

import mmap
import os
import signal
import struct
import time
from collections.abc import Callable
from pathlib import Path

MB = 1_000_000
GROUPS = Path("/sys/fs/cgroup")
BETWEEN = 0.02  # seconds between two requests
TOUCHED = 2000 * mmap.PAGESIZE
CHUNK = 1000 * mmap.PAGESIZE
# Pages that come with the call, not one by one at a fault each: as fast as the guest's kernel has them.
FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
_TIMES = struct.Struct("dd")


class Process:
    """A fork that runs `body` in a cgroup and ends with it."""

    def __init__(self, group: str, body: Callable[[], None], oom_score: int = 0) -> None:
        self.pid = os.fork()
        self._status: int | None = None
        if self.pid == 0:
            try:
                Path("/proc/self/oom_score_adj").write_text(str(oom_score))
                (GROUPS / group / "cgroup.procs").write_text("0")
                body()
            finally:
                os._exit(1)

    def alive(self) -> bool:
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = status if pid else None
        return self._status is None

    def end(self, how: int = signal.SIGKILL, within: float = 0.0) -> None:
        """Send a signal, and SIGKILL to one that is still there after so many seconds."""
        if not self.alive():
            return
        os.kill(self.pid, how)
        until = time.monotonic() + within
        while self.alive() and time.monotonic() < until:
            time.sleep(0.05)
        if self.alive():
            os.kill(self.pid, signal.SIGKILL)
        while self.alive():
            time.sleep(0.01)

    def most_memory(self) -> int:
        """The most it ever held, in bytes."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def take(rate: float, *, stubborn: bool, first: int) -> None:
    """Batch: take `first` bytes at once, then so many MB/s (0: as fast as it can) without end."""
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    held = [mmap.mmap(-1, CHUNK, flags=FLAGS) for _ in range(first // CHUNK)]
    began, before = time.monotonic(), len(held)
    while True:
        if rate and (len(held) - before) * CHUNK > (time.monotonic() - began) * rate * MB:
            time.sleep(0.002)
        else:
            held.append(mmap.mmap(-1, CHUNK, flags=FLAGS))


class Service:
    """It holds `size` bytes, and answers each request after it has touched 8 MB of them and of a file. A client of its own asks it every
    20 ms and keeps the longest answer."""

    def __init__(self, size: int, file: str) -> None:
        self.size = size
        self._times = mmap.mmap(-1, _TIMES.size)  # shared with the client: when it last asked (0: it has the answer), longest answer
        question, answer = os.pipe(), os.pipe()
        self._service = Process("ls", lambda: self._answer(question, answer, file))
        self._client = Process("client", lambda: self._ask(question, answer), -1000)
        for descriptor in (*question, *answer):
            os.close(descriptor)
        while self.alive() and not self.longest():
            time.sleep(0.05)

    def alive(self) -> bool:
        return self._service.alive()

    def end(self) -> None:
        self._service.end()
        self._client.end()
        self._times.close()

    def forget(self) -> None:
        asked, _ = _TIMES.unpack(self._times[:])
        self._times[:] = _TIMES.pack(asked, 0.0)

    def longest(self) -> float:
        """Seconds of the longest answer since `forget`, one that has not come yet included."""
        asked, longest = _TIMES.unpack(self._times[:])
        return max(longest, time.monotonic() - asked if asked else 0.0)

    def _answer(self, question: tuple[int, int], answer: tuple[int, int], path: str) -> None:
        os.close(question[1])
        held = mmap.mmap(-1, self.size, flags=FLAGS)
        with Path(path).open("rb") as file:
            kept = mmap.mmap(file.fileno(), TOUCHED, prot=mmap.PROT_READ)
        while os.read(question[0], 1):
            held[: TOUCHED : mmap.PAGESIZE] = bytes(TOUCHED // mmap.PAGESIZE)
            kept[:: mmap.PAGESIZE]
            os.write(answer[1], b".")

    def _ask(self, question: tuple[int, int], answer: tuple[int, int]) -> None:
        os.close(question[0])
        os.close(answer[1])
        first = True
        while True:
            asked = time.monotonic()
            longest = _TIMES.unpack(self._times[:])[1]
            if not first:
                self._times[:] = _TIMES.pack(asked, longest)
            os.write(question[1], b"?")
            if not os.read(answer[0], 1):
                return
            longest = _TIMES.unpack(self._times[:])[1]
            self._times[:] = _TIMES.pack(0.0, max(longest, time.monotonic() - asked))
            first = False
            time.sleep(BETWEEN)
