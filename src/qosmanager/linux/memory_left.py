"""The machine's available memory between cycles: one number of /proc/meminfo, from a descriptor that stays open."""

from __future__ import annotations

from pathlib import Path

from qosmanager.linux.descriptor import KeptFile

_NAME = b"MemAvailable:"


class MemoryLeft:
    """Reads it again and again."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._meminfo = KeptFile(str(proc), "meminfo")

    def read(self) -> int | None:
        """Return the bytes that are available; None where that cannot be read, which a cycle says too."""
        try:
            _, found, rest = self._meminfo.read().partition(_NAME)
            return int(rest.split(b"kB", 1)[0]) * 1024 if found else None
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        """Let the descriptor go."""
        self._meminfo.close()
