"""The measuring process and the agent, apart from the node that is measured and from the rest of the machine."""

from __future__ import annotations

import os
from pathlib import Path

from real_groups import RealGroups

LARGEST_SHARES = 262144
AGENT_SHARES = LARGEST_SHARES // 10


class Aside:
    """The measuring process and the agent stand in groups of their own beside the node's. The measuring process and the node have the
    largest weight that there is: what else runs on the machine takes little from either. The agent has a tenth of that, which a full node
    cannot starve; by the DaemonSet's request it would have a fortieth of a node of 2 CPUs."""

    def __init__(self, groups: RealGroups) -> None:
        node = Path(groups.kernel.directory("cpu", groups.top))
        self._directory, self._agent = (Path(f"{node}-{name}") for name in ("aside", "agent"))
        for directory in (self._directory, self._agent):
            directory.mkdir()
        for directory, shares in ((node, LARGEST_SHARES), (self._directory, LARGEST_SHARES), (self._agent, AGENT_SHARES)):
            (directory / "cpu.shares").write_text(str(shares))
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        home = next(line.split(":", 2)[2] for line in lines if "cpu" in line.split(":", 2)[1].split(","))
        self._home = Path(groups.kernel.directory("cpu", home.strip("/"))) / "cgroup.procs"
        (self._directory / "cgroup.procs").write_text(str(os.getpid()))

    def adopt(self, agent: int) -> None:
        """Put the agent (a process id) into its group."""
        (self._agent / "cgroup.procs").write_text(str(agent))

    def close(self) -> None:
        """Remove the groups; the agent has ended."""
        self._home.write_text(str(os.getpid()))
        for directory in (self._directory, self._agent):
            directory.rmdir()
