"""The agent's side of a cluster put together: whom it asks, whom it trusts, who evicts."""

import json
from contextlib import ExitStack

import pytest

from loopback_api.objects import NODE, node, pod
from loopback_api.server import LoopbackApi
from qosmanager.cli.cluster_options import ClusterOptions
from qosmanager.cli.kubernetes import _ByOwner, join
from qosmanager.linux.clock import LinuxClock
from qosmanager.model.actions import Evict
from qosmanager.model.qos import Plugin, QoS
from qosmanager.model.workload import Workload


@pytest.fixture
def server():
    with LoopbackApi() as server:
        server.store.create("nodes", node())
        server.store.create("pods", pod("rec-0"))
        yield server


@pytest.fixture
def kubelet(server):
    """kubelet, which has a certificate of the same authority and names a static pod too."""
    with LoopbackApi() as kubelet:
        kubelet.tokens = server.tokens
        items = [pod("rec-0", uid="u-0"), pod("static", uid="u-1", annotations={"kubernetes.io/config.source": "file"})]
        told = json.dumps({"kind": "PodList", "items": items}).encode()
        kubelet.faults.answer(200, told, method="GET", part="/pods", times=1000, content_type="application/json")
        yield kubelet


@pytest.fixture
def joined(server, tmp_path):
    """Join with options, and let go at the end."""
    kubeconfig = server.write_kubeconfig(tmp_path / "config")
    with ExitStack() as stack:
        yield lambda **given: join(ClusterOptions(node_name=NODE, kubeconfig=kubeconfig, **given), tmp_path, LinuxClock(), stack)


def test_the_api_server_names_the_pods_at_once(joined):
    view = joined(pods_from="api").view()
    assert (view.node_name, view.origin, view.pods, view.problems) == (NODE, "api", 1, ())
    assert view.age < 25


def test_kubelet_may_be_asked_alone_and_says_the_nodes_name_in_its_certificate(joined, kubelet, tmp_path):
    (tmp_path / "kubelet.crt").write_bytes(kubelet.ca_pem)
    view = joined(pods_from="kubelet", kubelet_url=kubelet.url, kubelet_ca=tmp_path / "kubelet.crt").view()
    assert (view.origin, view.pods, view.problems) == ("kubelet", 2, ())


def test_kubelet_with_a_certificate_of_somebody_else_is_not_asked(joined, kubelet):
    cluster = joined(pods_from="kubelet", kubelet_url=kubelet.url)
    assert cluster.pods_age() > 30
    assert "its certificate is not trusted" in cluster.view().problems[0]


def test_unless_that_is_asked_for_by_name(joined, kubelet):
    assert joined(pods_from="kubelet", kubelet_url=kubelet.url, kubelet_insecure_tls=True).view().pods == 2


def test_nobody_asks_kubelet_while_the_api_server_answers(joined, kubelet):
    assert joined(kubelet_url=kubelet.url).view().origin == "api"
    assert kubelet.requests == []


class Begun:
    """Notes whom it is to end."""

    def __init__(self):
        self.pods = []

    def begin(self, _, workload, __):
        self.pods.append(workload.key)
        return ""

    def unsettled(self):
        return frozenset(self.pods)

    def poll(self, _):
        return {}


def test_who_evicts_whom():
    api, local = Begun(), Begun()
    both = _ByOwner(api, local)
    action = Evict(plugin=Plugin.CPU_EVICT, reason="", pod="any")
    uid = "0123abcd-0000"
    named = Workload(name="rec-0", namespace="kubepods", qos=QoS.BE, cgroup="a", uid=uid)
    unnamed = Workload(name=f"pod{uid}", namespace="kubepods", qos=QoS.BE, cgroup="b", uid=uid)
    declared = Workload(name="job", qos=QoS.BE, cgroup="c")
    assert both.begin(action, named, 0.0) == ""
    assert both.begin(action, unnamed, 0.0) == "the cluster has not named this pod yet"
    assert both.begin(action, declared, 0.0) == ""
    assert (api.pods, local.pods) == (["kubepods/rec-0"], ["default/job"])
    assert both.unsettled() == {"kubepods/rec-0", "default/job"}
