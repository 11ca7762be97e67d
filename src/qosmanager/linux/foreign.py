"""Other agents that write the same kernel files (specification, section 9): looked for once, at start."""

from __future__ import annotations

import os
from pathlib import Path

from qosmanager.linux.processes import PROC, named

_AGENTS = ("koordlet",)


def foreign_agent(proc: Path = PROC) -> str | None:
    """Name a running agent beside which this one must not enforce, in words; None when there is none."""
    for name in _AGENTS:
        pid = next((pid for pid in named(name, proc) if pid != os.getpid() and _may_write(pid, proc)), None)
        if pid is not None:
            return f"{name} runs on this node (process {pid}) and writes the same cgroup files: only one of the two may enforce"
    return None


def _may_write(pid: int, proc: Path) -> bool:
    """Whether a process is root's, or this user's: any other of that name writes no cgroup, and must not keep this agent from its work."""
    try:
        return os.stat(f"{proc}/{pid}").st_uid in (0, os.geteuid())
    except OSError:
        return False
