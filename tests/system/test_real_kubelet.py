"""The tests' own stand-in for kubelet: pods of an API server as real containers, where kubelet would have put them, and their end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from real_daemon import wait
from real_groups import real_groups
from real_kubelet.node import real_node
from real_kubelet.pods import IGNORES_TERM, OBEYS_TERM, container_pod
from real_kubelet.programs import obstacle
from real_kubelet.runtime import traces

WHY_NOT = obstacle()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
groups = pytest.fixture(real_groups)


@pytest.fixture
def node(groups):
    with real_node(groups) as node:
        yield node


def test_a_pods_processes_are_where_kubelet_would_have_put_them(node):
    resources = {"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "64Mi"}}
    node.run(container_pod("api", OBEYS_TERM, resources=resources), container_pod("job", OBEYS_TERM))
    for name, tier in {"api": "burstable", "job": "besteffort"}.items():
        uid = node.pod(name)["metadata"]["uid"]
        group = node.groups.path(f"kubepods/{tier}/pod{uid}/{node.container(name)}")
        pid = min(node.groups.kernel.pids("cpu", group))  # the first; its sleeps come and go
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        assert {line.split(":", 2)[2] for line in lines} == {f"/{group}"}
        assert Path(f"/proc/{pid}/oom_score_adj").read_text().strip() == {"api": "900", "job": "1000"}[name]
    pod, container = node.group("api"), f"{node.group('api')}/{node.container('api')}"
    for group in (pod, container):
        assert node.groups.quota(group) == "100000"
        assert (node.groups.text(group, "cpu.shares"), node.groups.text(group, "memory.limit_in_bytes")) == ("512", "67108864")
    assert node.groups.text(node.groups.path("kubepods/besteffort"), "cpu.shares") == "2"
    assert node.groups.quota(node.group("job")) == "-1"


def test_a_deleted_pod_has_its_grace_and_is_gone_when_its_processes_are(node):
    node.run(container_pod("polite", OBEYS_TERM, grace=60), container_pod("deaf", IGNORES_TERM, grace=1))
    group = node.group("polite")
    for name in ("polite", "deaf"):
        node.api.ends.delete("batch", name, {})
        wait(lambda name=name: not node.holds(name), 30, f"{name} to be gone")
    assert {name: node.exit_code(name) for name in ("polite", "deaf")} == {"polite": 0, "deaf": 128 + signal.SIGKILL}
    assert not Path(node.groups.kernel.directory("cpu", group)).exists()


def test_kill_9_of_a_test_run_leaves_nothing_running(tmp_path):
    told = tmp_path / "where"
    run = subprocess.Popen([sys.executable, "-m", "real_kubelet.alone", str(told)], cwd=Path(__file__).parents[1])
    home, top = wait(lambda: told.exists() and told.read_text().split(), 60, "a pod of the other run")
    run.kill()
    run.wait()
    wait(lambda: not traces(Path(home), top), 60, "everything to be gone", lambda: str(traces(Path(home), top)))
