"""The agent's memory kept in memory, so that it still acts when memory runs out (no page of it must be read back from a disk).

MCL_ONFAULT: a page is held once it has been used; what is only reserved (stacks, arenas) takes none.
"""

from __future__ import annotations

import ctypes
import os
import resource
from pathlib import Path

_CURRENT, _FUTURE, _ONFAULT = 1, 2, 4
_CAP_IPC_LOCK = 14


def lock_memory(status: Path = Path("/proc/self/status")) -> str:
    """Hold what this process has in memory now and later; return why that cannot be done, or "".

    Only where no limit stands against it: under one, a later allocation would fail instead.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft != resource.RLIM_INFINITY and not _may_lock(status):
        return f"RLIMIT_MEMLOCK is {soft} bytes; LimitMEMLOCK=infinity or CAP_IPC_LOCK is needed"
    library = ctypes.CDLL(None, use_errno=True)
    if library.mlockall(_CURRENT | _FUTURE | _ONFAULT) != 0:
        return os.strerror(ctypes.get_errno())
    return ""


def _may_lock(status: Path) -> bool:
    """Tell whether this process has CAP_IPC_LOCK in effect."""
    try:
        lines = status.read_text(encoding="ascii", errors="replace").splitlines()
        effective = next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))
    except (OSError, ValueError, IndexError, StopIteration):
        return False
    return bool(effective >> _CAP_IPC_LOCK & 1)
