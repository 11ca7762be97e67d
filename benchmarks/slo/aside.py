"""The measuring process and the agent, apart from the node that is measured and from the rest of the machine."""

from __future__ import annotations

import os
from pathlib import Path

from real_groups import RealGroups

LARGEST_SHARES = "262144"


class Aside:
    """The measuring process and the agent stand in a group of their own beside the node's, both with the largest weight that there is: what
    else runs on the machine takes little from either, and a node that is full does not starve the agent."""

    def __init__(self, groups: RealGroups) -> None:
        self._directory = Path(groups.kernel.directory("cpu", f"{groups.top}-aside"))
        self._directory.mkdir()
        for directory in (self._directory, Path(groups.kernel.directory("cpu", groups.top))):
            (directory / "cpu.shares").write_text(LARGEST_SHARES)
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        home = next(line.split(":", 2)[2] for line in lines if "cpu" in line.split(":", 2)[1].split(","))
        self._home = Path(groups.kernel.directory("cpu", home.strip("/"))) / "cgroup.procs"
        (self._directory / "cgroup.procs").write_text(str(os.getpid()))

    def close(self) -> None:
        self._home.write_text(str(os.getpid()))
        self._directory.rmdir()
