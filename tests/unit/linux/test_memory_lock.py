"""Memory kept in memory, and what the process uses; each in a process of its own where it cannot be undone."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

from qosmanager.linux.memory_lock import lock_memory
from qosmanager.linux.own_meter import ProcessMeter

LOCKED = """
from qosmanager.linux.memory_lock import lock_memory
assert lock_memory() == ""
import mmap
far = mmap.mmap(-1, 256 << 20)  # reserved, never touched
far[0] = 1
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(status["VmLck"].split()[0]), int(status["VmRSS"].split()[0]))
"""
LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
from pathlib import Path
from qosmanager.linux.memory_lock import lock_memory
print(lock_memory(Path("/nowhere")))
"""


def ran(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="more than RLIMIT_MEMLOCK can only be locked by root")
def test_memory_is_locked_as_it_is_used_and_what_is_only_reserved_takes_none():
    locked, held = map(int, ran(LOCKED).split())
    assert locked > 256 * 1024, "the mapping is under the lock"
    assert held < 64 * 1024, "and takes no memory until it is used"


def test_under_a_limit_nothing_is_locked_and_it_says_what_is_needed():
    assert ran(LIMITED) == "RLIMIT_MEMLOCK is 65536 bytes; LimitMEMLOCK=infinity or CAP_IPC_LOCK is needed\n"


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY, reason="RLIMIT_MEMLOCK is unlimited here")
@pytest.mark.parametrize(
    "text", ["", "CapEff:\t0000000000000000\n", "CapEff:\t0000000000003fff\n", "CapEff:\tnonsense\n", "CapEff:\n", "CapPrm:\tffff\n"]
)
def test_without_the_capability_it_is_not_tried(tmp_path, text):
    status = tmp_path / "status"
    status.write_text(text)
    assert "CAP_IPC_LOCK is needed" in lock_memory(status)


def test_the_meter_tells_what_this_process_uses():
    meter = ProcessMeter()
    before, held = meter.read()
    while meter.read()[0] < before + 0.05:
        pass
    assert held is not None
    assert 5 << 20 < held < 4 << 30


def test_memory_that_cannot_be_read_is_not_known(tmp_path):
    assert ProcessMeter(str(tmp_path)).read()[1] is None
    (tmp_path / "statm").write_text("odd")
    assert ProcessMeter(str(tmp_path)).read()[1] is None
