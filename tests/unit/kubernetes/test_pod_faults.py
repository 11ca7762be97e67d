"""The real client against the loopback API server, and every way in which one goes wrong."""

import json
import os
import threading
import time

import pytest

from loopback_api.faults import HTML
from loopback_api.objects import pod
from loopback_api.server import LoopbackApi
from qosmanager.kubernetes.access import Access, Inline, Server
from qosmanager.kubernetes.cluster import Cluster
from qosmanager.kubernetes.http_api import HttpApi
from qosmanager.kubernetes.kubelet import KubeletPods
from qosmanager.kubernetes.watch import PodWatch
from qosmanager.linux.clock import LinuxClock
from qosmanager.model.qos import QoS
from waiting import wait

PATIENCE = 60.0  # seconds; what takes longer hangs
BE = {"koordinator.sh/qosClass": "BE"}


@pytest.fixture
def server():
    with LoopbackApi() as server:
        yield server


@pytest.fixture
def token(server, tmp_path):
    path = tmp_path / "token"
    path.write_text(server.token)
    return path


def connected(server, token):
    return HttpApi(Access(server=Server.parse(server.url), authorities=Inline(server.ca_pem), token=token), LinuxClock())


class Listening:
    """A cluster that is listened to, and the letting go of it."""

    def __init__(self, server, token):
        self.api = connected(server, token)
        self.watch = PodWatch(self.api, "worker-1", LinuxClock(), lambda: 0.0)
        self.cluster = Cluster({"api": self.watch}, LinuxClock())

    def __enter__(self):
        self.cluster.start()
        return self

    def __exit__(self, *_):
        self.api.close()
        self.cluster.stop()
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("qosm-pods-")]

    def pods(self):
        return {pod.name: pod for pod in self.cluster.heard().pods.values()}

    def until(self, told):
        """Wait until something is so."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if told(self.pods()):
                return
            time.sleep(0.01)
        raise AssertionError(f"never so: {self.pods()}, {self.cluster.problems}")


@pytest.fixture
def listening(server, token):
    server.store.create("pods", pod("rec-0", labels=BE))
    with Listening(server, token) as listening:
        listening.until(lambda pods: "rec-0" in pods)
        yield listening


def relabel(server, name, **annotations):
    """Have something happen to a pod."""
    changed = server.store.get("pods", "batch", name)
    changed["metadata"]["annotations"] = annotations
    return server.store.replace("pods", changed)


CRITICAL = {"qosmanager.io/critical": "true"}


def test_pods_come_change_and_go(server, listening):
    assert listening.pods()["rec-0"].qos is QoS.BE
    server.store.create("pods", pod("rec-1", labels=BE))
    server.store.create("pods", pod("elsewhere", node="worker-2"))
    relabel(server, "rec-0", **CRITICAL)
    listening.until(lambda pods: "rec-1" in pods and pods["rec-0"].critical)
    server.store.delete("pods", "batch", "rec-1")
    listening.until(lambda pods: pods["rec-1"].terminating)
    assert "elsewhere" not in listening.pods()
    assert listening.cluster.problems == ()


def test_a_server_that_is_killed_and_comes_back(server, listening):
    server.kill()
    listening.until(lambda _: "refused" in str(listening.cluster.problems))
    assert "rec-0" in listening.pods()
    relabel(server, "rec-0", **CRITICAL)
    server.revive()
    listening.until(lambda pods: pods["rec-0"].critical and not listening.cluster.problems)


def test_a_connection_that_is_cut_in_the_middle_of_a_line(server, listening):
    server.faults.cut_next_event = True
    relabel(server, "rec-0", **CRITICAL)
    listening.until(lambda pods: pods["rec-0"].critical)
    assert not server.faults.cut_next_event  # it was cut


@pytest.mark.parametrize("as_status", [True, False])
def test_a_version_that_is_too_old(server, listening, as_status):
    server.expired_as_status = as_status
    server.kill()
    relabel(server, "rec-0", **CRITICAL)
    server.store.create("pods", pod("rec-1", labels=BE))
    server.store.compact()
    server.revive()
    listening.until(lambda pods: "rec-1" in pods and pods["rec-0"].critical)


def test_html_from_a_proxy(server, listening):
    server.faults.answer(200)
    server.faults.answer(502, HTML)
    server.drop_connections()
    listening.until(lambda _: listening.cluster.problems)
    assert "rec-0" in listening.pods()
    relabel(server, "rec-0", **CRITICAL)
    listening.until(lambda pods: pods["rec-0"].critical and not listening.cluster.problems)


def test_a_token_that_is_revoked_and_given_anew(server, listening, token):
    server.tokens = set()
    server.drop_connections()
    listening.until(lambda _: "not accepted" in str(listening.cluster.problems))
    assert server.token not in str(listening.cluster.problems)
    assert "rec-0" in listening.pods()
    server.tokens = {"another"}
    token.write_text("another")
    listening.until(lambda _: not listening.cluster.problems)


def test_a_right_that_is_missing_is_named(server, token):
    server.forbidden.add(("list", "pods"))
    with Listening(server, token) as listening:
        listening.until(lambda _: listening.cluster.problems)
        assert "the permission to list and watch pods is needed" in listening.cluster.problems[0]
        assert listening.cluster.age() > 30


def test_a_pod_of_two_megabytes(server, listening):
    server.store.create("pods", pod("big", labels=BE, annotations={"pad": "x" * 2_000_000}))
    listening.until(lambda pods: "big" in pods)


def test_five_thousand_changes(server, listening):
    for number in range(5000):
        relabel(server, "rec-0", number=str(number), **(CRITICAL if number == 4999 else {}))
    listening.until(lambda pods: pods["rec-0"].critical)
    assert listening.watch.known.revision <= 3  # what changes nothing for the agent is nothing to it


def test_a_list_of_several_pages(server, token):
    for number in range(260):
        server.store.create("pods", pod(f"p-{number}"))
    with Listening(server, token) as listening:
        listening.until(lambda pods: len(pods) == 260)


def test_dropped_watches_leave_nothing_open(server, token):
    server.store.create("pods", pod("rec-0", labels=BE))
    api = connected(server, token)
    watch = PodWatch(api, "worker-1", LinuxClock(), lambda: 0.0)
    watch._list()
    counts = []
    for number in range(60):
        server.faults.cut_next_event = True
        relabel(server, "rec-0", number=str(number))
        watch.once()
        counts.append(len(os.listdir("/proc/self/fd")))
    assert "cut" in watch.problem
    assert max(counts[30:]) <= max(counts[:30]) + 2  # the server's ends, a thread of which may be a moment late, are here too
    api.close()


def test_kubelet_is_asked_while_the_api_server_is_not_to_be_reached(server, token):
    with LoopbackApi() as kubelet:
        items = [pod("static", annotations={"kubernetes.io/config.source": "file"}, uid="0123abcd")]
        told = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
        kubelet.faults.answer(200, json.dumps(told).encode(), method="GET", part="/pods", times=1000, content_type="application/json")
        kubelet.tokens = {server.token}
        server.kill()
        watch = PodWatch(connected(server, token), "worker-1", LinuxClock(), lambda: 0.0)
        second = connected(kubelet, token)
        cluster = Cluster(
            {"api": watch, "kubelet": KubeletPods(second, LinuxClock(), lambda: 0.0, lambda: watch.known.age() > 25)}, LinuxClock()
        )
        cluster.start()
        wait(lambda: cluster.is_fresh, PATIENCE, "kubelet's pods")
        heard = cluster.heard()
        assert (heard.origin, heard.pods["0123abcd"].owner) == ("kubelet", "Node")
        assert cluster.age() < 30
        server.store.create("pods", pod("rec-0", labels=BE))
        server.revive()
        deadline = time.monotonic() + PATIENCE
        while cluster.heard().origin != "api" and time.monotonic() < deadline:
            time.sleep(0.01)
        assert {each.name for each in cluster.heard().pods.values()} == {"rec-0"}
        watch._api.close()
        second.close()
        cluster.stop()
