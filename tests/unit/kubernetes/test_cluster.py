import threading
import time

import pytest

from kubernetes_pods import known
from qosmanager.kubernetes.api import Answer, ApiUnreachable
from qosmanager.kubernetes.cluster import Cluster
from qosmanager.kubernetes.known_pods import KnownPods
from qosmanager.kubernetes.kubelet import KubeletPods

LIST = b'{"kind": "PodList", "items": [{"metadata": {"name": "a", "namespace": "n", "uid": "u"}}]}'


class SetClock:
    now = 0.0

    def monotonic(self):
        return self.now

    def wall(self):
        return self.now


class Told:
    problem = ""
    problems = ()

    def __init__(self, clock):
        self.known = KnownPods(clock)

    def once(self):
        return 3600.0


@pytest.fixture
def clock():
    return SetClock()


@pytest.fixture
def origins(clock):
    return {"api": Told(clock), "kubelet": Told(clock)}


def test_the_first_that_is_fresh_counts_and_while_none_is_the_freshest(clock, origins):
    cluster = Cluster(origins, clock)
    assert cluster.age() > 30
    origins["kubelet"].known.replace([known("k")])
    assert cluster.heard().origin == "kubelet"
    origins["api"].known.replace([known("a")])
    assert (cluster.heard().origin, set(cluster.heard().pods)) == ("api", {"a"})
    clock.now = 24.0
    origins["kubelet"].known.confirm()
    assert cluster.heard().origin == "api"
    clock.now = 26.0
    assert (cluster.heard().origin, cluster.age()) == ("kubelet", 2.0)
    clock.now = 100.0
    assert (cluster.heard().origin, cluster.age()) == ("kubelet", 76.0)


def test_another_origin_is_another_revision(clock, origins):
    cluster = Cluster(origins, clock)
    for origin in origins.values():
        origin.known.replace([])
    before = cluster.revision()
    clock.now = 26.0
    origins["kubelet"].known.confirm()
    assert cluster.revision() != before


def test_pods_are_fresh_once_somebody_has_named_them_and_for_25_seconds(clock, origins):
    cluster = Cluster(origins, clock)
    assert not cluster.is_fresh
    origins["kubelet"].known.replace([])
    assert cluster.is_fresh
    clock.now = 25.1
    assert not cluster.is_fresh


class Kubelet:
    """kubelet as an `Api`, with what it answers next."""

    answer = Answer(200, {}, LIST)
    asked = 0

    def request(self, method, path, *, timeout):
        assert (method, path) == ("GET", "/pods")
        assert timeout > 0
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_kubelet_is_asked_every_ten_seconds_while_it_is_wanted(clock):
    wanted = [False]
    kubelet = Kubelet()
    origin = KubeletPods(kubelet, clock, lambda: 1.0, lambda: wanted[0])
    assert origin.once() == 1.0
    assert kubelet.asked == 0
    wanted[0] = True
    assert origin.once() == 10.0
    assert set(origin.known.by_group()) == {"u"}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ApiUnreachable("no route"), "no route"),
        (Answer(401, {}, b"Unauthorized"), "not accepted; kubelet asks the API server whether a token is"),
        (Answer(403, {}, b""), "kubelet: get on nodes/proxy, or nodes/pods"),
        (Answer(200, {"content-type": "text/html"}, b"<html>"), "text/html instead of a list of pods"),
        (Answer(200, {}, b'{"kind": "PodList", "items": null}'), "not believed yet"),
    ],
)
def test_what_kubelet_does_not_say_wipes_nothing(clock, answer, said):
    kubelet = Kubelet()
    origin = KubeletPods(kubelet, clock, lambda: 1.0, lambda: True)
    origin.once()
    clock.now = 5.0
    kubelet.answer = answer
    assert [origin.once(), origin.once()] == [0.5, 1.0]
    assert said in origin.problem
    assert origin.known.age() == 5.0
    assert set(origin.known.by_group()) == {"u"}
    kubelet.answer = Kubelet.answer
    assert origin.once() == 10.0
    assert origin.problem == ""


class Faulty(Told):
    """Has a fault of its own at its first turn."""

    turns = 0

    def once(self):
        self.turns += 1
        raise RuntimeError("a fault")


def test_a_fault_of_an_origin_is_told_and_ends_nothing(clock, caplog):
    origin = Faulty(clock)
    cluster = Cluster({"api": origin}, clock)
    cluster.start()
    deadline = time.monotonic() + 60
    while "RuntimeError: a fault" not in caplog.text and time.monotonic() < deadline:
        time.sleep(0.01)
    assert any(thread.name == "qosm-pods-api" for thread in threading.enumerate())
    cluster.stop()
    assert origin.turns == 1
    assert "RuntimeError: a fault" in caplog.text
