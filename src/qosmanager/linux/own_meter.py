"""What this process uses: the `OwnMeter` port over the process' CPU clock and /proc/self/statm."""

from __future__ import annotations

import os
import time

from qosmanager.linux.descriptor import KeptFile

_PAGE = os.sysconf("SC_PAGE_SIZE")


class ProcessMeter:
    """All threads of this process together."""

    def __init__(self, directory: str = "/proc/self") -> None:
        self._statm = KeptFile(directory, "statm")

    def read(self) -> tuple[float, int | None]:
        return time.process_time(), self._rss()

    def _rss(self) -> int | None:
        try:
            return int(self._statm.read().split()[1]) * _PAGE
        except (OSError, ValueError, IndexError):
            return None
