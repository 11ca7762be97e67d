"""This boot of the machine (specification, section 9: neither cgroups nor the journal's entries survive a reboot)."""

from __future__ import annotations

import time
from pathlib import Path


class LinuxBoot:
    """The kernel's boot id, and CLOCK_BOOTTIME, which counts sleep too and never jumps."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._id = (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()

    @property
    def id(self) -> str:
        return self._id

    def time(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)
