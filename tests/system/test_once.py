"""`qosmanager run --once` on real cgroups: however it ends, it leaves everything as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from real_groups import obstacle, real_groups

WHY_NOT = obstacle()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))


@pytest.fixture
def groups():
    yield from real_groups()


def test_what_the_cycle_wrote_is_put_back_when_its_explanation_cannot_be_told(groups, tmp_path):
    for name in ("be", "be/one"):
        groups.add(name)
    groups.busy("be/one", 1)
    before = groups.quota(groups.path("be"))
    workloads = tmp_path / "w.yaml"
    workloads.write_text(f'workloads:\n- {{name: job, qos: BE, cgroup: "{groups.top}/be/*"}}\n')
    reader, writer = os.pipe()
    os.close(reader)  # as `| head` that has seen enough
    try:
        command = ["run", "--once", "--node-cgroup", groups.top, "--workloads", str(workloads), "--state-dir", str(tmp_path / "state")]
        ended = subprocess.run(
            [sys.executable, "-m", "qosmanager", *command], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    finally:
        os.close(writer)
    assert groups.quota(groups.path("be")) == before
    assert "Restore files=" in ended.stderr, "and something was written that had to be"
    assert "Restore files=0" not in ended.stderr
    assert "Traceback" not in ended.stderr


STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); held = b'x' * (60 << 20); signal.pause()"


def test_it_waits_for_a_victim_that_has_to_be_killed(groups, tmp_path):
    if (version := groups.kernel.version("memory")) is None:
        pytest.skip("no memory controller here")
    groups.add("be")
    groups.put(groups.top, "memory.max" if version == 2 else "memory.limit_in_bytes", str(100 << 20))
    job = groups.start("be", sys.executable, "-c", STUBBORN)
    used = "memory.current" if version == 2 else "memory.usage_in_bytes"
    deadline = time.monotonic() + 60
    while int(groups.text(groups.path("be"), used)) < 60 << 20 and time.monotonic() < deadline:
        time.sleep(0.05)
    (tmp_path / "w.yaml").write_text(f'workloads:\n- {{name: job, qos: BE, cgroup: "{groups.top}/be", grace: 200ms}}\n')
    (tmp_path / "q.yaml").write_text("qosManager:\n  memoryEvict: {minAvailable: 0.5, targetUtilization: 0.5}\n")
    files = ["--workloads", str(tmp_path / "w.yaml"), "--config", str(tmp_path / "q.yaml"), "--state-dir", str(tmp_path / "state")]
    command = [sys.executable, "-m", "qosmanager", "run", "--once", "--node-cgroup", groups.top, *files]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert job.poll() == -signal.SIGKILL, ended.stdout + ended.stderr
    assert "eviction of default/job: gone, no process is left" in ended.stdout
    assert "it was seen gone" in (tmp_path / "state" / "audit.log").read_text()
