"""The agent beside a real kubelet: real pods on containerd, named by kubelet, limited by the kernel, ended by kubelet (make soak-cluster).

Its rights are those of the chart, its token one such as kubelet gives to the agent's pod; it runs as a process of the node's.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from real_cluster import programs
from real_cluster.agent import NODE, Agent, give_agents_token, install
from real_cluster.kubelet import URL, Kubelet
from real_cluster.objects import placed_pod
from real_cluster.server import ApiServer
from real_groups import RealGroups
from real_kubelet.image import NAME as IMAGE
from real_kubelet.runtime import Runtime

WHY_NOT = programs.no_kubelet()
pytestmark = [pytest.mark.soak, pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))]

MEMORY = 700 << 20  # of the node; the agent keeps half of it free
GRACE = 20  # seconds
CONFIG = """\
qosManager:
  syncPeriod: 500ms
  cpuSuppress: {strategy: usage, targetUtilization: 0.4}
  cpuEvict: {enabled: false}
  memoryEvict: {targetUtilization: 0.5}
"""
# Holds 150 MB, what dd cannot write, nobody reading, and some CPU. Asked to end it takes two seconds for it, and says when.
BATCH = """
trap 'echo asked >>/said/%(name)s; sleep 2; echo ended >>/said/%(name)s; exit 0' TERM
dd if=/dev/zero bs=150M count=1 | sleep 100000 &
while :; do sleep 0.01; done
"""
IDLE = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
CPUSET = """\
qosManager:
  syncPeriod: 500ms
  cpuSuppress: {strategy: usage, policy: cpuset, targetUtilization: 0.4}
  cpuEvict: {enabled: false}
"""
FILES = ("cpu.cfs_quota_us", "cpu.shares", "cpuset.cpus", "memory.limit_in_bytes")


@pytest.fixture
def groups():
    groups = RealGroups()
    try:
        groups.put(groups.top, "memory.limit_in_bytes", str(MEMORY))
        yield groups
    finally:
        groups.remove()


@pytest.fixture
def settings():
    """Of kubelet."""
    return {}


@pytest.fixture
def node(tmp_path, groups, settings):
    (tmp_path / "said").mkdir()
    with ApiServer(tmp_path) as server:
        install(server)
        with Runtime(groups) as runtime, Kubelet(server, runtime, groups, NODE, settings) as kubelet:
            give_agents_token(server, "agent-1")
            yield Node(server, kubelet, groups, tmp_path / "said")


class Node:
    """Its pods go by name; all are in the namespace batch."""

    def __init__(self, server: ApiServer, kubelet: Kubelet, groups: RealGroups, said: Path) -> None:
        self.server, self.kubelet, self.groups, self._said = server, kubelet, groups, said

    def start(self, name: str, script: str, **given: object) -> None:
        """Have kubelet run a pod whose container runs a shell script."""
        container = {"name": "main", "image": IMAGE, "command": ["sh", "-c", script], "resources": given.pop("resources", {})}
        container["volumeMounts"] = [{"name": "said", "mountPath": "/said"}]
        volumes = [{"name": "said", "hostPath": {"path": str(self._said)}}]
        spec = {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": GRACE}
        alone = {"hostNetwork": True, "automountServiceAccountToken": False}  # nobody makes what a token's volume would hold
        self.server.apply(placed_pod(name, "batch", NODE, **spec, **alone, **given))

    def pod(self, name: str):
        """Return a pod, None if it is gone."""
        found = self.server.kubectl("get", "pod", name, "-n", "batch", "-o", "json")
        return json.loads(found.stdout) if found.returncode == 0 else None

    def runs(self, name: str) -> bool:
        pod = self.pod(name)
        return pod is not None and pod["status"]["phase"] == "Running"

    def run(self, name: str, script: str, **given: object) -> None:
        self.start(name, script, **given)
        self.server.wait(lambda: self.runs(name), f"{name} to run", more=self.why)

    def why(self) -> str:
        return self.server.done("describe", "pods", "-n", "batch")[-4000:] + self.kubelet.log()

    def said(self, name: str) -> list[str]:
        return (self._said / name).read_text().split()

    def cpus(self, tier: str, name: str) -> str:
        """Return the CPUs that the only container of a pod may use."""
        pod = self.pod(name)
        (container,) = (each["containerID"].removeprefix("containerd://") for each in pod["status"]["containerStatuses"])
        return self.groups.text(self.groups.path(f"{tier}/pod{pod['metadata']['uid']}/{container}"), "cpuset.cpus").strip()

    def values(self):
        """What is in the files that the agent writes, and kubelet."""
        group = self.groups.path("kubepods/besteffort")
        return {name: self.groups.text(group, name).strip() for name in FILES}


def kubelet_of(node):
    """Return the agent's options."""
    return ("--pods-from", "kubelet", "--kubelet-url", URL, "--kubelet-ca", str(node.kubelet.authority))


def test_batch_is_limited_evicted_by_the_api_ended_by_kubelet_and_all_is_put_back(node, groups, tmp_path):
    batch = ("one", "two", "three")
    for name in batch:
        node.start(name, BATCH % {"name": name}, labels={"koordinator.sh/qosClass": "BE"})
    node.run("service", IDLE, labels={"koordinator.sh/qosClass": "LS"}, resources={"requests": {"cpu": "100m", "memory": "32Mi"}})
    for name in batch:
        node.server.wait(lambda name=name: node.runs(name), f"{name} to run", more=node.why)
    uids = {name: node.pod(name)["metadata"]["uid"] for name in batch}
    before = node.values()
    assert before["cpu.cfs_quota_us"] == "-1"

    agent = Agent(node.server, groups, tmp_path, CONFIG, *kubelet_of(node))
    try:
        node.server.wait(lambda: agent.knows("service"), "kubelet to name the pods", more=lambda: f"{agent.log}{agent.status()}")
        node.server.wait(lambda: node.values()["cpu.cfs_quota_us"] != "-1", "batch to be limited", more=lambda: agent.log)

        ending = node.server.wait(
            lambda: [pod for pod in map(node.pod, batch) if pod and "deletionTimestamp" in pod["metadata"]], "an eviction"
        )
        assert [pod["metadata"]["deletionGracePeriodSeconds"] for pod in ending] == [GRACE]
        (gone,) = node.server.wait(
            lambda: [name for name in batch if node.pod(name) is None], "a pod to be evicted and ended", more=lambda: agent.log + node.why()
        )
        assert node.said(gone) == ["asked", "ended"]  # nobody has killed it before its time
        assert not Path(groups.kernel.directory("cpu", groups.path(f"kubepods/besteffort/pod{uids[gone]}"))).exists()

        # kubelet writes the groups' own values when it starts; a limit is no hindrance.
        node.kubelet.stop()
        node.kubelet.start()
        node.run("late", IDLE, labels={"koordinator.sh/qosClass": "BE"})
        node.server.wait(lambda: agent.knows("late"), "the agent to hear of it", more=lambda: agent.log)
        assert [name for name in batch if node.pod(name) is None] == [gone]

        log = agent.stop()
    finally:
        agent.kill()
    assert "Traceback" not in log
    assert "kubelet" not in "".join(line for line in log.splitlines() if " Problem " in line)
    assert node.values() == before


@pytest.mark.parametrize("settings", [{"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}])
def test_beside_the_static_cpu_policy_batch_is_held_by_a_quota_and_the_cpusets_stay_kubelets(node, groups, tmp_path):
    node.run("batch", IDLE, labels={"koordinator.sh/qosClass": "BE"})
    tier = groups.path("kubepods/besteffort")
    agent = Agent(node.server, groups, tmp_path, CPUSET, *kubelet_of(node))
    try:
        node.server.wait(lambda: groups.quota(tier) != "-1", "batch to be limited", more=lambda: agent.log)
        assert (groups.text(tier, "cpuset.cpus").strip(), node.cpus("kubepods/besteffort", "batch")) == ("0-1", "0-1")
        cpu = {"cpu": "1", "memory": "32Mi"}
        node.run("alone", IDLE, resources={"requests": cpu, "limits": cpu}, labels={"koordinator.sh/qosClass": "LSR"})
        assert node.cpus("kubepods", "alone") == "1"
        node.server.wait(lambda: node.cpus("kubepods/besteffort", "batch") == "0", "kubelet to take that CPU from batch", more=node.why)
        node.server.wait(lambda: agent.knows("alone"), "the agent to hear of it", more=lambda: agent.log)
        log = agent.stop()
    finally:
        agent.kill()
    assert "Traceback" not in log
    assert "kubelet's static CPU policy writes cpusets" in log
    assert groups.quota(tier) == "-1"
    assert (node.cpus("kubepods", "alone"), node.cpus("kubepods/besteffort", "batch")) == ("1", "0")


def test_kubelet_shows_its_pods_by_the_charts_role_and_to_nobody_else(node):
    node.server.give_token("nobody", "none")
    node.server.give_token("other", node.server.done("-n", "batch", "create", "token", "default").strip())
    assert [node.kubelet.answers(node.server.token(user)) for user in ("agent", "other", "nobody")] == [200, 403, 401]
