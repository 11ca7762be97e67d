"""This boot of the machine (specification, section 9: neither cgroups nor the journal's entries survive a reboot)."""

from __future__ import annotations

import time
from pathlib import Path


class PartialProcError(Exception):
    """/proc does not show what is no process: what is not there, and what is needed."""


class LinuxBoot:
    """The kernel's boot id, and CLOCK_BOOTTIME, which counts sleep too and never jumps. Raises PartialProcError."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        path = proc / "sys/kernel/random/boot_id"
        try:
            self._id = path.read_text(encoding="ascii").strip()
        except OSError as error:
            needed = f"{proc} has to be mounted whole (without subset=pid; in a unit without ProcSubset=pid)"
            raise PartialProcError(f"{path}: {error.strerror}; {needed}") from None

    @property
    def id(self) -> str:
        return self._id

    def time(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)
