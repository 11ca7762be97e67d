"""A node of Kubernetes from end to end: the real agent, an API server on loopback, and pods that are real containers in kubelet's groups.

A service's surge takes batch's CPU in the kernel; batch that grows is evicted by the API, its containers end by their grace; events and
the node's status tell of it; at its end the agent leaves the kernel as it found it.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from loopback_api.objects import NODE
from real_daemon import wait
from real_groups import ROOT, real_groups
from real_kubelet.keeper import v2_group
from real_kubelet.node import real_node
from real_kubelet.pods import OBEYS_TERM, container_pod
from real_kubelet.programs import obstacle

WHY_NOT = obstacle()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
groups = pytest.fixture(real_groups)

MEMORY = 400 << 20  # of the node; the agent keeps half of it free, for which both pods that may go have to
CONFIG = """\
qosManager:
  syncPeriod: 500ms
  cpuSuppress: {strategy: usage, targetUtilization: 0.4}
  cpuEvict: {enabled: false}
  memoryEvict: {targetUtilization: 0.5}
"""
SETTINGS = ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us", "cpu.shares", "cpu.idle", "cpuset.cpus", "memory.limit_in_bytes")
# Works for as long as there is a /surge.
SERVICE = "while :; do [ -e /surge ] || sleep 0.1; done"
# Takes whatever CPU there is from /busy to /grow; then it holds so much memory instead: what it cannot write, nobody reading.
BATCH = "until [ -e /busy ]; do sleep 0.1; done; until [ -e /grow ]; do :; done; dd if=/dev/zero bs=%dM count=1 | sleep 100000 & "
POLITE, DEAF, LOYAL = (BATCH % megabytes for megabytes in (80, 60, 150))
BE = {"koordinator.sh/qosClass": "BE"}


class Agent:
    """`qosmanager run --kubernetes` whose node is the test's own cgroup; it ends with the containers if the test run is killed."""

    def __init__(self, node, directory: Path) -> None:
        config, self._log = directory / "config.yaml", directory / "agent.log"
        config.write_text(CONFIG)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "qosmanager", "run", "--kubernetes", "--node-name", NODE),
                    *("--kubeconfig", str(node.api.write_kubeconfig(directory / "kubeconfig")), "--pods-from", "api"),
                    *("--config", str(config), "--node-cgroup", node.groups.top, "--state-dir", str(directory / "state")),
                    *("--listen", "127.0.0.1:0", "--on-stop", "restore", "--publish-batch-resources"),
                ],
                stdout=log,
                stderr=log,
            )
        group = v2_group(node.groups.top) / "agent"
        group.mkdir()
        (group / "cgroup.procs").write_text(str(self._process.pid))

    def log(self) -> str:
        assert self._process.poll() is None, self._log.read_text()
        return self._log.read_text()

    def stop(self) -> str:
        """End it in its own way; return its log."""
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(60) == 0, self._log.read_text()
        return self._log.read_text()


@pytest.fixture
def node(groups):
    groups.put(groups.top, "memory.limit_in_bytes", str(MEMORY))
    groups.put(groups.top, "cpu.shares", "16384")  # the service is to get its core on a busy machine too
    with real_node(groups) as node:
        yield node


def test_a_node_of_kubernetes_from_end_to_end(node, tmp_path):
    resources = {"requests": {"cpu": "500m", "memory": "16Mi"}, "limits": {"cpu": "1"}}
    node.run(
        container_pod("checkout", SERVICE, "shop", labels={"koordinator.sh/qosClass": "LS"}, priority=9500, resources=resources),
        container_pod("polite", f"trap 'exit 0' TERM; {POLITE} wait", labels=BE, priority=5500, grace=30),
        container_pod("deaf", f"{DEAF} wait", labels=BE, priority=5500, grace=3),
        container_pod("loyal", f"{LOYAL} wait", labels=BE, priority=5500, annotations={"qosmanager.io/critical": "true"}),
    )
    before = kernel_settings(node)
    agent = Agent(node, tmp_path)
    said = agent.log

    # 40 percent of two CPUs, less what the service uses: none of them, then one.
    wait(lambda: 0.6 < be_limit(node) <= 0.8, 60, "batch to be limited", said)
    touch(node, "/busy", "loyal", "polite", "deaf")
    touch(node, "/surge", "checkout")
    wait(lambda: 0 < be_limit(node) <= 0.3, 60, "batch to make room for the surge", said)
    node.cri.execute(node.container("checkout"), "rm", "/surge")
    wait(lambda: be_limit(node) >= 0.6, 60, "batch to get back what is left", said)

    touch(node, "/grow", "loyal", "polite", "deaf")
    for name in ("polite", "deaf"):
        wait(lambda name=name: not node.holds(name), 60, f"{name} to be evicted and gone", said)
    evictions = [json.loads(request.body) for request in node.api.asked("POST", "/eviction")]
    assert {each["metadata"]["name"] for each in evictions} == {"polite", "deaf"}
    assert {name: node.exit_code(name) for name in ("polite", "deaf")} == {"polite": 0, "deaf": 128 + signal.SIGKILL}
    assert time_to_end(node, "deaf") >= 0

    for event in (("Evicted", "polite"), ("Evicted", "deaf"), ("MemoryEviction", NODE)):
        wait(lambda event=event: event in events(node), 60, f"the event {event}", lambda: f"{events(node)}\n{said()}")
    wait(lambda: published(node) == ("running", True), 60, "the node's status and its batch resources", said)
    assert node.holds("checkout")
    assert node.holds("loyal")

    assert "MemoryEvict" in agent.stop()
    assert published(node) == ("stopped", False)
    after = kernel_settings(node)
    assert after == {file: before[file] for file in after}
    assert any(node.group("loyal") in file for file in after)


def test_a_system_pod_among_best_effort_ones_is_not_squeezed_with_them(node, tmp_path):
    node.run(container_pod("cni", OBEYS_TERM, "kube-system"), container_pod("job", OBEYS_TERM, labels=BE))
    cni, job = (node.group(name) for name in ("cni", "job"))
    agent = Agent(node, tmp_path)
    wait(lambda: node.groups.quota(job) != "-1" and be_limit(node) < 0, 60, "batch to be limited, pod by pod", agent.log)
    assert node.groups.quota(cni) == "-1"
    agent.stop()
    assert node.groups.quota(job) == "-1"


def touch(node, path, *names):
    for name in names:
        node.cri.execute(node.container(name), "touch", path)


def be_limit(node) -> float:
    """Cores that kubelet's BestEffort group may use; -1: without limit."""
    quota = int(node.groups.quota(node.groups.path("kubepods/besteffort")))
    return quota / 100_000 if quota > 0 else -1.0


def events(node):
    return {(event["reason"], event["regarding"]["name"]) for event in node.api.events()}


def published(node) -> tuple[str | None, bool]:
    """Return how the node's annotation says that the agent is, and whether batch resources are offered."""
    told = node.api.store.get("nodes", "", NODE)
    status = json.loads(told["metadata"]["annotations"].get("qosmanager.io/status", "{}"))
    return status.get("agent"), "kubernetes.io/batch-cpu" in told["status"]["allocatable"]


def time_to_end(node, name) -> float:
    """Seconds from the end of a pod's grace (whole ones, rounded down) until its container had ended."""
    pod = [each.object for each in node.api.store.since(0, "pods") if each.object["metadata"]["name"] == name][-1]
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(pod["metadata"]["deletionTimestamp"])).total_seconds()


def kernel_settings(node) -> dict[str, str]:
    """Return what is set in kubelet's groups by file, and for the first processes of the batch pod that stays."""
    files = [file for name in SETTINGS for file in (ROOT / name.partition(".")[0] / node.groups.path("kubepods")).rglob(name)]
    for directory in node.groups.kernel.children("cpu", node.group("loyal")):
        first = min(node.groups.kernel.pids("cpu", f"{node.group('loyal')}/{directory}"))
        files.append(Path(f"/proc/{first}/oom_score_adj"))
    return {str(file): file.read_text().strip() for file in files}
