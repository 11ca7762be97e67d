"""The agent and what it is installed with, against a real API server (make soak-cluster).

The chart's role and admission policies, with a token such as kubelet gives to the agent's pod. Then the agent itself: list and watch, the
node's annotation and batch resources, evictions beside disruption budgets, events, an API server that was away, a token that is rotated.
No kubelet runs: the test makes the pods' cgroups, and says of a pod that it runs and that it has ended.
"""

from __future__ import annotations

import json
import sys

import pytest

from qosmanager.kubernetes.access import from_kubeconfig
from qosmanager.kubernetes.answers import is_success, said
from qosmanager.kubernetes.api import JSON, MERGE_PATCH
from qosmanager.kubernetes.http_api import HttpApi
from qosmanager.linux.clock import LinuxClock
from real_cluster import programs
from real_cluster.agent import NODE, SYSTEM, Agent, give_agents_token, install
from real_cluster.objects import budget, eviction, placed_pod
from real_cluster.server import ApiServer
from real_groups import RealGroups, obstacle

WHY_NOT = obstacle() or programs.obstacle()
pytestmark = [pytest.mark.soak, pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))]

OTHER = "worker-2"
BE = {"koordinator.sh/qosClass": "BE"}
MEMORY = 400 << 20  # of the node; the agent keeps half of it free
CONFIG = """\
qosManager:
  syncPeriod: 500ms
  cpuSuppress: {strategy: usage, targetUtilization: 0.4}
  cpuEvict: {enabled: false}
  memoryEvict: {targetUtilization: 0.5}
"""
GROWS = "import time\nheld = bytearray(%d << 20)\ntime.sleep(100000)"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with ApiServer(tmp_path_factory.mktemp("cluster")) as server:
        assert json.loads(server.done("get", "--raw", "/version"))["gitVersion"] == f"v{programs.version()}"
        server.apply(*({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in (NODE, OTHER)))
        install(server)
        give_agents_token(server, "agent-1")
        yield server


@pytest.fixture
def groups():
    groups = RealGroups()
    try:
        groups.put(groups.top, "memory.limit_in_bytes", str(MEMORY))
        yield groups
    finally:
        groups.remove()


def asking(cluster, user):
    """Return a way to ask as a user: what is refused comes back as text, "" is success."""
    api = HttpApi(from_kubeconfig(cluster.kubeconfig(user)), LinuxClock())

    def ask(method, path, body=None, content_type=MERGE_PATCH):
        answer = api.request(method, path, body=None if body is None else json.dumps(body).encode(), content_type=content_type, timeout=30)
        return "" if is_success(answer) else said(answer)

    return ask


def annotated(key="qosmanager.io/status"):
    return {"metadata": {"annotations": {key: "{}"}}}


def amounts(**given):
    return {"status": {"capacity": given, "allocatable": given}}


def test_the_role_and_the_admission_policies_allow_what_is_the_agents_and_nothing_else(cluster):
    for space in ("batch", "kube-system"):
        cluster.apply(placed_pod("victim", space, NODE, labels=BE))
    uid = {space: cluster.get("pod", "victim", "-n", space)["metadata"]["uid"] for space in ("batch", "kube-system")}
    cluster.give_token("loose", cluster.done("-n", SYSTEM, "create", "token", "qosmanager").strip())
    ask, node, batch = asking(cluster, "agent"), f"/api/v1/nodes/{NODE}", "/api/v1/namespaces/batch"

    def evict(space, **options):
        return ask("POST", f"/api/v1/namespaces/{space}/pods/victim/eviction", eviction("victim", space, **options), JSON)

    # A policy is in force some seconds after it was made.
    other = f"/api/v1/nodes/{OTHER}"
    cluster.wait(lambda: "may change no other node" in ask("PATCH", other, annotated()), "the policies to be in force")
    assert ask("PATCH", node, annotated()) == ""
    assert "only qosmanager.io/status is" in ask("PATCH", node, annotated("another"))
    assert "labels, taints" in ask("PATCH", node, {"metadata": {"labels": {"a": "label"}}})
    assert "labels, taints" in ask("PATCH", node, {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}})
    assert "node-name is missing" in asking(cluster, "loose")("PATCH", node, annotated())
    assert ask("PATCH", f"{node}/status", amounts(**{"kubernetes.io/batch-cpu": "1000"})) == ""
    assert "batch-memory are the agent's" in ask("PATCH", f"{node}/status", amounts(cpu="64"))
    assert "conditions" in ask("PATCH", f"{node}/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})

    assert "names the pod's uid" in evict("batch")
    assert "nobody is evicted by the agent in kube-system" in evict("kube-system", preconditions={"uid": uid["kube-system"]})
    assert evict("batch", preconditions={"uid": "another"}).startswith("409")
    assert ask("DELETE", f"{batch}/pods/victim").startswith("403")
    assert ask("PATCH", f"{batch}/pods/victim", annotated()).startswith("403")
    assert ask("GET", f"{batch}/secrets").startswith("403")
    assert evict("batch", preconditions={"uid": uid["batch"]}) == ""
    for space in ("batch", "kube-system"):
        cluster.kubectl("-n", space, "delete", "pod", "victim", "--force", "--grace-period=0")


class Pods:
    """Pods on the node: their objects in the API, their groups and processes in the kernel."""

    def __init__(self, cluster, groups) -> None:
        self._cluster, self._groups = cluster, groups
        for tier in ("", "/burstable", "/besteffort"):
            groups.add(f"kubepods{tier}")

    def run(self, name, *command, **given):
        """Make a pod and say that it runs, as kubelet does."""
        made = placed_pod(name, "batch", NODE, labels=BE | {"app": name}, **given)
        self._cluster.apply(made)
        uid = self._cluster.get("pod", name, "-n", "batch")["metadata"]["uid"]
        group = f"kubepods/besteffort/pod{uid}"
        for each in (group, f"{group}/main"):
            self._groups.add(each)
        self._groups.start(f"{group}/main", sys.executable, "-c", *command)
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        told = ("patch", "pod", name, "-n", "batch", "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
        self._cluster.done(*told)
        return group

    def end(self, name, group):
        """Its processes end, then kubelet says so."""
        for each in (f"{group}/main", group):
            self._groups.end(each)
        self._cluster.done("-n", "batch", "delete", "pod", name, "--force", "--grace-period=0")

    def is_terminating(self, name):
        return "deletionTimestamp" in self._cluster.get("pod", name, "-n", "batch")["metadata"]


def allow(cluster, name, disruptions):
    """Say of a disruption budget what its controller does."""
    status = {"observedGeneration": 1, "disruptionsAllowed": disruptions, "currentHealthy": 1 + disruptions, "desiredHealthy": 1}
    told = json.dumps({"status": status | {"expectedPods": 1}})
    cluster.done("patch", "pdb", name, "-n", "batch", "--subresource=status", "--type=merge", "-p", told)


@pytest.fixture
def agent(cluster, groups, tmp_path):
    """Starts the agent; ends it if the test has not."""
    started = []

    def start():
        started.append(Agent(cluster, groups, tmp_path, CONFIG, "--pods-from", "api", "--publish-batch-resources"))
        return started[-1]

    yield start
    for each in started:
        each.kill()


def test_the_agent_on_a_node_from_its_first_list_to_its_last_word(cluster, groups, agent):
    pods, best_effort = Pods(cluster, groups), groups.path("kubepods/besteffort")
    grown = {name: pods.run(name, GROWS % 90) for name in ("budgeted", "doubled", "let-go")}
    for name, app in (("one", "budgeted"), ("two", "doubled"), ("three", "doubled")):
        cluster.apply(budget(name, "batch", app))
        allow(cluster, name, 0 if app == "budgeted" else 1)
    agent = agent()

    def node():
        return cluster.get("node", NODE)

    def note():
        return json.loads(node()["metadata"].get("annotations", {}).get("qosmanager.io/status", "null"))

    cluster.wait(lambda: agent.log and groups.quota(best_effort) != "-1", "batch to be limited")
    cluster.wait(lambda: (note() or {}).get("agent") == "running", "the node's annotation")
    cluster.wait(lambda: "kubernetes.io/batch-memory" in node()["status"].get("allocatable", {}), "batch resources")

    cluster.wait(lambda: agent.log and pods.is_terminating("let-go"), "the pod without a budget to be evicted", more=lambda: agent.log)
    assert not pods.is_terminating("budgeted")
    assert not pods.is_terminating("doubled")
    pods.end("let-go", grown["let-go"])
    events = cluster.wait(lambda: told(cluster, ("Evicted", "let-go"), ("MemoryEviction", NODE)), f"the events:\n{agent.log}")
    assert {each["reportingController"] for each in events} == {"qosmanager.io/agent"}

    # Away and back: what the agent knew is too old for the new server's memory.
    known = json.loads(cluster.done("get", "--raw", "/api/v1/pods?limit=1"))["metadata"]["resourceVersion"]
    cluster.stop()
    cluster.wait(agent.misses, "the agent to miss the API server")
    agent.pause()
    cluster.start()
    pods.run("late", GROWS % 1)
    cluster.stop()
    cluster.start()
    watch = f"/api/v1/pods?watch=true&timeoutSeconds=5&resourceVersion={known}"
    assert "too old resource version" in str(cluster.kubectl("get", "--raw", watch))
    agent.resume()
    cluster.wait(lambda: agent.knows("late"), "the agent to hear of a new pod", more=lambda: agent.log)

    # A token whose pod is gone is good for nothing; the next one is in the same file.
    give_agents_token(cluster, "agent-2")
    cluster.done("-n", SYSTEM, "delete", "pod", "agent-1", "--force", "--grace-period=0")
    pods.run("latest", GROWS % 1)
    cluster.wait(lambda: agent.knows("latest"), "the agent to go on with its next token", more=lambda: agent.log)

    log = agent.stop()
    assert "MemoryEvict" in log
    assert "Traceback" not in log
    assert note()["agent"] == "stopped"
    assert "kubernetes.io/batch-cpu" not in node()["status"].get("allocatable", {})
    assert groups.quota(best_effort) == "-1"


def told(cluster, *wanted):
    """Return the agent's events if all that are wanted are there."""
    events = [each for each in cluster.get("events.events.k8s.io", "-A")["items"] if each.get("reportingController", "").startswith("qosm")]
    return events if set(wanted) <= {(each["reason"], each["regarding"]["name"]) for each in events} else None
