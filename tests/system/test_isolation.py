"""The real agent with every isolation switched on: killed, and everything is as it was after `qosmanager restore`."""

from __future__ import annotations

import contextlib
import signal

import pytest
from click.testing import CliRunner

from qosmanager.cli.main import main
from qosmanager.model.workload import CgroupFile
from real_daemon import PERIOD, Daemon
from real_groups import obstacle, real_groups
from waiting import wait

WHY_NOT = obstacle()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))

CONFIG = f"""\
qosManager:
  syncPeriod: {PERIOD}
  memoryEvict: {{enabled: false}}
  isolation: {{cpu: idle, services: auto, memory: auto, io: auto}}
"""
FILES = {
    "cpu": ("cpu.shares", "cpu.weight", "cpu.idle", "cpu.cfs_burst_us", "cpu.max.burst", "cpu.cfs_quota_us", "cpu.max"),
    "memory": ("memory.high", "memory.low"),
    "blkio": ("io.bfq.weight", "io.max", "blkio.bfq.weight", "blkio.throttle.read_bps_device"),
}


@pytest.fixture
def groups():
    yield from real_groups()


def contents(groups):
    found = {}
    for group in ("", "api", "be", "be/one"):
        for controller, names in FILES.items():
            for name in names:
                with contextlib.suppress(OSError):
                    found[group, name] = groups.kernel.read(CgroupFile(controller, groups.path(group), name))
    return found


def test_all_of_it_comes_back_after_the_agent_was_killed(groups, tmp_path):
    for name in ("api", "be", "be/one"):
        groups.add(name)
    for name in ("api", "be/one"):
        groups.start(name, "sleep", "600")
    v1 = groups.kernel.version("cpu") == 1
    groups.put(groups.path("api"), *(("cpu.cfs_quota_us", "150000") if v1 else ("cpu.max", "150000 100000")))
    groups.put(groups.path("be"), *(("cpu.shares", "700") if v1 else ("cpu.weight", "70")))
    before = contents(groups)
    (tmp_path / "config.yaml").write_text(CONFIG)
    daemon = Daemon(groups, tmp_path)
    try:
        wait(lambda: stands(daemon, "BE CPU weight") and stands(daemon, "LS kernel burst"), 20, "isolation", daemon.lines)
        wait(lambda: stands(daemon, "BE behind LS"), 20, "a shield", daemon.lines)
        held = contents(groups)
        assert held["be", "cpu.idle"] == "1"
        assert held["api", "cpu.cfs_burst_us" if v1 else "cpu.max.burst"] == "150000"
    finally:
        daemon.stop(signal.SIGKILL)
    assert contents(groups) != before
    restored = CliRunner().invoke(main, ["restore", "--state-dir", str(tmp_path / "state")])
    assert restored.exit_code == 0, restored.output
    assert contents(groups) == before


def stands(daemon, name):
    return any(knob["name"] == name and knob["state"] == "in force" for knob in daemon.get("/status")["isolation"])
