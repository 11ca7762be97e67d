"""`qosmanager run --once` on real cgroups: however it ends, it leaves everything as it was."""

from __future__ import annotations

import os
import subprocess
import sys

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
