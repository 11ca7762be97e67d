"""Half an hour of the real agent, pods coming and going: memory and descriptors stay, no cycle fails. QOSM_MINUTES: another length."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from real_daemon import Daemon, busy_groups, limit_in_force, wait
from real_groups import obstacle, real_groups

WHY_NOT = obstacle()
pytestmark = [pytest.mark.soak, pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))]
MINUTES = float(os.environ.get("QOSM_MINUTES", "30"))
PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20


@pytest.fixture
def groups():
    yield from real_groups()


def held(pid: int) -> tuple[int, int]:
    """Bytes and descriptors."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE, len(os.listdir(f"/proc/{pid}/fd"))


def test_memory_and_descriptors_stay(groups, tmp_path):
    busy_groups(groups)
    agent = Daemon(groups, tmp_path)
    chance = random.Random(7)
    alive: list[str] = []
    number = 0
    try:
        wait(lambda: limit_in_force(groups), 20, "a BE limit", agent.lines)
        looks: list[tuple[int, int]] = []
        began = time.monotonic()
        due = began + 60
        while time.monotonic() - began < MINUTES * 60:
            if alive and (len(alive) == 8 or chance.random() < 0.5):
                groups.end(alive.pop(chance.randrange(len(alive))))
            else:
                number += 1
                alive.append(f"be/job-{number}")
                groups.add(alive[-1])
                groups.start(alive[-1], "sleep", "3600")
            wait(lambda: agent.get("/healthz"), 10, "a healthy loop", agent.lines)  # half a second late is late, at ten cycles a second
            time.sleep(chance.uniform(0.1, 1.0))
            if time.monotonic() >= due:
                due += 60
                looks.append(held(agent.process.pid))
                print(f"{len(looks)} min: {looks[-1][0] / MIB:.1f} MiB, {looks[-1][1]} descriptors, {len(alive)} jobs", flush=True)
        for name in alive:
            groups.end(name)
        wait(lambda: len(agent.get("/status")["pods"]) == 2, 10, "the last jobs' end", agent.lines)
        warm = looks[min(4, len(looks) - 1)]
        memory, files = held(agent.process.pid)
        assert memory <= warm[0] + 4 * MIB
        assert files <= min(count for _, count in looks) + 8, "files of groups that are gone are closed"
        assert agent.stop() == 0
        assert "Traceback" not in agent.lines()
        assert "cycle failed" not in agent.lines()
    finally:
        agent.stop(signal.SIGKILL)
