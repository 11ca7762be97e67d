import pytest

from kubernetes_pods import known
from qosmanager.kubernetes.known_pods import KnownPods


class SetClock:
    now = 100.0

    def monotonic(self):
        return self.now

    def wall(self):
        return self.now


@pytest.fixture
def clock():
    return SetClock()


@pytest.fixture
def pods(clock):
    return KnownPods(clock)


def names(pods):
    return {uid: pod.terminating for uid, pod in pods.by_group().items()}


def test_what_was_never_told_is_older_than_allowed(pods, clock):
    assert pods.age() > 30
    clock.now += 5
    assert pods.age() == 36
    pods.replace([known("a")])
    assert pods.age() == 0
    clock.now += 7
    assert pods.age() == 7
    pods.confirm()
    assert pods.age() == 0


def test_changes_make_another_revision_and_the_same_again_does_not(pods):
    pods.replace([known("a"), known("b")])
    before, view = pods.revision, pods.by_group()
    pods.put(known("a"))
    pods.replace([known("b"), known("a")])
    pods.confirm()
    assert pods.revision == before
    assert pods.by_group() is view
    pods.put(known("a", critical=True))
    assert pods.revision != before
    assert pods.by_group()["a"].critical


def test_pods_are_found_by_the_uid_of_their_groups(pods):
    pods.put(known("a", cgroup_uid="hash"))
    assert set(pods.by_group()) == {"hash"}


def test_whose_own_uid_it_is_comes_before_who_says_so(pods):
    pods.replace([known("a"), known("liar", cgroup_uid="a")])
    assert pods.by_group()["a"].uid == "a"


@pytest.mark.parametrize("how", ["remove", "replace"])
def test_what_is_no_longer_named_is_terminating_for_two_minutes(pods, clock, how):
    pods.replace([known("a"), known("b")])
    if how == "remove":
        pods.remove("a")
    else:
        pods.replace([known("b")])
    assert names(pods) == {"a": True, "b": False}
    clock.now += 119
    pods.confirm()
    assert names(pods) == {"a": True, "b": False}
    clock.now += 1
    pods.confirm()
    assert names(pods) == {"b": False}


def test_a_pod_that_is_named_again_is_no_longer_terminating(pods, clock):
    pods.replace([known("a"), known("b")])
    pods.replace([known("b")])
    clock.now += 60
    pods.replace([known("a"), known("b")])
    clock.now += 300
    pods.confirm()
    assert names(pods) == {"a": False, "b": False}


def test_an_empty_list_is_believed_after_half_a_minute_of_them(pods, clock):
    pods.replace([known("a")])
    clock.now += 10
    assert not pods.replace([])
    assert pods.age() == 10
    clock.now += 29
    assert not pods.replace([])
    assert names(pods) == {"a": False}
    clock.now += 1
    assert pods.replace([])
    assert pods.age() == 0
    assert names(pods) == {"a": True}


def test_doubt_begins_anew_after_a_list_with_pods(pods, clock):
    pods.replace([known("a")])
    assert not pods.replace([])
    clock.now += 20
    assert pods.replace([known("a")])
    clock.now += 20
    assert not pods.replace([])


def test_an_empty_node_is_believed_at_once(pods):
    assert pods.replace([])
    assert pods.age() == 0


def test_removing_what_was_never_known_is_nothing(pods):
    pods.remove("nobody")
    assert names(pods) == {}
