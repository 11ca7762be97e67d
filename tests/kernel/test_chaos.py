"""Workloads and neighbours that misbehave, on the real kernel: the agent stays within its rules, says what it sees, and recovers."""

from __future__ import annotations

import math
import random
import signal
import sys
import threading
import time

import pytest

from real_daemon import Daemon, calm_groups, limit_in_force
from real_groups import obstacle, real_groups
from waiting import wait

WHY_NOT = obstacle()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))

# A new process every few milliseconds, which burns a little and dies; now and then one is left an orphan.
FORKING = """
import os, time
while True:
    if os.fork() == 0:
        if os.fork() == 0:
            time.sleep(0.05)
        os._exit(0)
    os.wait()
    sum(range(20000))
"""


@pytest.fixture
def groups():
    yield from real_groups()


@pytest.fixture
def agent(groups, tmp_path):
    """A daemon that holds BE at a limit. Whatever a test does to it: no cycle failed, and it leaves nothing of its own behind."""
    calm_groups(groups)
    daemon = Daemon(groups, tmp_path)
    try:
        wait(lambda: limit_in_force(groups), 20, "a BE limit", daemon.lines)
        yield daemon
        assert daemon.stop() == 0, daemon.lines()
        assert not limit_in_force(groups)
        assert "Traceback" not in daemon.lines()
        assert "cycle failed" not in daemon.lines()
    finally:
        daemon.stop(signal.SIGKILL)


class Meanwhile:
    """Does something again and again beside the test, until the end of the with block; what the kernel refuses is part of the chaos."""

    def __init__(self, pause: float, deed) -> None:
        self.times = 0
        self._pause = pause
        self._deed = deed
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._over.wait(self._pause):
            try:
                self._deed()
            except OSError:
                continue
            self.times += 1

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()


def cycles(agent) -> int:
    return agent.get("/status")["cycle"]


def pods(agent) -> set[str]:
    return {pod["key"] for pod in agent.get("/status")["pods"]}


def cores(quota: str) -> float:
    word = quota.split(maxsplit=1)[0]
    return math.inf if word in ("-1", "max") else int(word) / 100_000


def unlimit(groups, name: str) -> None:
    version = groups.kernel.version("cpu")
    groups.put(groups.path(name), *(("cpu.cfs_quota_us", "-1") if version == 1 else ("cpu.max", "max 100000")))


def limit(groups, name: str, us: int) -> None:
    version = groups.kernel.version("cpu")
    groups.put(groups.path(name), *(("cpu.cfs_quota_us", str(us)) if version == 1 else ("cpu.max", f"{us} 100000")))


def test_workloads_that_fork_and_die_and_groups_that_come_and_go(agent, groups):
    """A fork storm in one pod, and pods that live for a fraction of a second."""
    groups.busy("be/one", 2)
    groups.add("be/storm")
    groups.start("be/storm", sys.executable, "-c", FORKING)
    began = cycles(agent)
    deadline = time.monotonic() + 3
    number = 0
    while time.monotonic() < deadline:
        number += 1
        groups.add(f"be/short-{number}")
        groups.start(f"be/short-{number}", "sleep", "60")
        time.sleep(0.02 * (number % 5))
        groups.end(f"be/short-{number}")
    assert number > 5
    wait(lambda: pods(agent) == {"default/api", "default/job-one", "default/job-storm"}, 10, "the pods that stayed", agent.lines)
    assert cycles(agent) > began + 5
    assert limit_in_force(groups)
    # All of BE together, the storm included, stays at its limit, which moves meanwhile; the kernel's slack on top.
    limits: list[float] = []
    with Meanwhile(0.02, lambda: limits.append(cores(groups.quota(groups.path("be"))))):
        used = groups.cores("be", 1.0)
    assert used <= max(limits) * 1.25 + 0.05


def test_the_batch_that_rewrites_its_own_limit_stays_within_the_one_for_all(agent, groups):
    groups.busy("be/one", 2)
    chance = random.Random(5)
    with Meanwhile(0.01, lambda: limit(groups, "be/one", chance.choice([5_000, 20_000, 80_000, 150_000]))) as batch:
        time.sleep(2.5)
    assert batch.times > 10
    assert cycles(agent) > 5
    limit(groups, "be/one", 4_000)
    wait(lambda: limit_in_force(groups), 10, "the limit", agent.lines)
    agent.stop()
    assert groups.quota(groups.path("be/one")).split()[0] == "4000", "its own limit is its own"


def test_a_second_writer_is_named_and_fought_neither_too_little_nor_too_much(agent, groups):
    began = cycles(agent)
    with Meanwhile(0.02, lambda: unlimit(groups, "be")) as other:
        agent.wait_for("conflict: somebody else has changed this file")
        time.sleep(1.0)
    assert other.times > 10
    file = "cpu.cfs_quota_us" if groups.kernel.version("cpu") == 1 else "cpu.max"
    told = [line for line in agent.lines().splitlines() if " conflict " in line]
    assert all(f"{groups.path('be')}/{file}" in line for line in told)
    # Once a cycle at the most: no race against the other one.
    assert len(told) <= cycles(agent) - began
    wait(lambda: limit_in_force(groups), 10, "the limit put back after the fight", agent.lines)
    time.sleep(0.5)
    assert limit_in_force(groups)


def test_groups_that_are_removed_and_made_anew_under_it(agent, groups):
    """All of BE goes, parent and pod, again and again; each time the new one is held."""
    for number in range(4):
        groups.end("be/one")
        groups.end("be")
        time.sleep(0.07 * number)
        for name in ("be", "be/one"):
            groups.add(name)
        groups.start("be/one", "sleep", "3600")
        wait(lambda: limit_in_force(groups), 20, "a limit on the new group", agent.lines)
    groups.end("api")
    wait(lambda: pods(agent) == {"default/job-one"}, 10, "the LS pod's end", agent.lines)
    groups.add("api")
    wait(lambda: pods(agent) == {"default/api", "default/job-one"}, 10, "its return", agent.lines)
    assert agent.get("/healthz")


def test_an_agent_that_hardly_gets_to_run_says_so_keeps_the_limit_and_recovers(agent, groups):
    """Its cycle, due ten times a second, gets 1.5 ms of CPU in 100."""
    held = groups.quota(groups.path("be"))
    groups.add("starved")
    limit(groups, "starved", 1_500)
    groups.move("starved", agent.process.pid)
    began = cycles(agent)
    wait(lambda: lag(agent) > 0.1, 20, "a cycle that is late", agent.lines)
    assert limit_in_force(groups), f"the limit, {held}, stays"
    unlimit(groups, "starved")
    late = cycles(agent)
    assert late >= began
    wait(lambda: cycles(agent) > late + 10 and lag(agent) < 0.1, 20, "cycles in time again", agent.lines)
    assert limit_in_force(groups)


def lag(agent) -> float:
    (value,) = [line.split()[1] for line in agent.get("/metrics").splitlines() if line.startswith("koordlet_qos_own_lag_seconds ")]
    return float(value)
