import json
import threading

import pytest

from cluster_parts import Evicting, Paper, asking, evict, workload
from kubectl import kubectl
from loopback_api.faults import HTML
from loopback_api.objects import budget, pod
from loopback_api.server import LoopbackApi
from measuring import HandClock
from qosmanager.config.settings import Settings
from qosmanager.model.qos import Plugin


@pytest.fixture
def server():
    with LoopbackApi() as api:
        api.ends.by_itself = False
        yield api


@pytest.fixture
def node(server):
    with asking(server) as api:
        yield Evicting(api, Paper(), HandClock())


def put(server, name="rec-0", **given):
    """A pod, and the workload that the agent knows it as."""
    made = server.store.create("pods", pod(name, **given))
    return workload(name, uid=made["metadata"]["uid"], grace=given.get("grace", 30))


def posted(server):
    return [json.loads(request.body) for request in server.asked("POST", "/eviction")]


def test_a_pod_is_freed_when_it_is_gone_and_its_group_is_empty(server, node):
    victim = put(server)
    node.busy.add(victim.cgroup)
    assert node.begin(evict(), victim) == ""
    assert node.pass_time(3) == {}
    server.ends.finish("batch", "rec-0")
    assert node.pass_time(3) == {}
    node.busy.clear()
    assert node.pass_time(2)["batch/rec-0"].done


def test_the_very_pod_that_was_chosen_goes_with_its_own_grace(server, node):
    victim = put(server, grace=45)
    node.begin(evict(), victim)
    node.pass_time()
    (asked,) = posted(server)
    assert (asked["kind"], asked["apiVersion"]) == ("Eviction", "policy/v1")
    assert asked["deleteOptions"] == {"preconditions": {"uid": victim.uid}}
    assert server.store.get("pods", "batch", "rec-0")["metadata"]["deletionGracePeriodSeconds"] == 45


def test_a_pod_is_unsettled_until_the_api_server_has_answered(server, node):
    victim = put(server)
    server.faults.answer(500, part="/eviction")
    node.begin(evict(), victim)
    assert node.evictions.unsettled() == {"batch/rec-0"}
    node.pass_time()
    assert node.evictions.unsettled() == {"batch/rec-0"}
    node.pass_time(2)
    assert len(posted(server)) == 2
    assert node.evictions.unsettled() == set()


@pytest.mark.parametrize(("wanted", "given"), [(7.9, 7), (0.2, 1), (60.0, None)])
def test_a_shorter_grace_is_asked_for_and_never_none_at_all(server, node, wanted, given):
    node.begin(evict(grace=wanted), put(server, grace=30))
    node.pass_time()
    assert posted(server)[0]["deleteOptions"].get("gracePeriodSeconds") == given


def test_a_disruption_budget_has_the_next_candidate_chosen(server, node):
    victim = put(server, labels={"app": "rec"})
    server.store.create("poddisruptionbudgets", budget("keep", {"app": "rec"}, allowed=0))
    node.begin(evict(), victim)
    ended = node.pass_time()
    assert not ended["batch/rec-0"].done
    assert "a disruption budget forbids it" in ended["batch/rec-0"].error
    assert node.memory.evicted_lately() == 0


def test_a_pod_with_two_disruption_budgets_has_the_next_candidate_chosen_and_costs_nothing(server, node):
    victim = put(server, labels={"app": "rec"})
    for name in ("keep", "keep-too"):
        server.store.create("poddisruptionbudgets", budget(name, {"app": "rec"}, allowed=1))
    node.begin(evict(), victim)
    ended = node.pass_time()
    assert "more than one PodDisruptionBudget" in ended["batch/rec-0"].error
    assert (len(posted(server)), node.memory.evicted_lately()) == (1, 0)


def test_the_server_says_when_a_budget_may_be_asked_again(server, node):
    victim = put(server, labels={"app": "rec"})
    server.store.create("poddisruptionbudgets", budget("keep", {"app": "rec"}, allowed=1, settled=False))  # Retry-After: 10
    began = node.clock.now
    node.begin(evict(), victim)
    node.pass_time()
    node.clock.now = began + 9.9
    assert "its eviction was refused; it is to be asked for again in" in node.begin(evict(), victim)
    node.clock.now = began + 10.1
    assert node.begin(evict(), victim) == ""


def test_a_pod_that_is_gone_is_freed_and_costs_nothing(server, node):
    victim = put(server)
    server.store.delete("pods", "batch", "rec-0")
    node.begin(evict(), victim)
    assert node.pass_time(1)["batch/rec-0"].done
    assert (posted(server), node.memory.evicted_lately()) == ([], 0)


def test_another_pod_of_its_name_is_left_alone(server, node):
    victim = put(server)
    server.store.delete("pods", "batch", "rec-0")
    server.store.create("pods", pod("rec-0", uid="its-successor"))
    node.begin(evict(), victim)
    assert node.pass_time(1)["batch/rec-0"].done
    assert posted(server) == []
    assert "deletionTimestamp" not in server.store.get("pods", "batch", "rec-0")["metadata"]


class _AskedAsTheNextBegins:
    """Says at its first look that a group is empty, when the eviction of another pod of the name has just begun."""

    def __init__(self, begin):
        self.begin = begin

    def __contains__(self, cgroup):
        if self.begin is not None:
            begin, self.begin = self.begin, None
            begin()
        return False


@pytest.mark.parametrize("is_untold", [True, False])
def test_the_end_of_a_pod_is_not_told_of_its_successor(server, node, is_untold):
    victim = put(server)
    server.store.delete("pods", "batch", "rec-0")
    successor = put(server, uid="its-successor")
    node.begin(evict(), victim)
    if is_untold:
        node.evictions.work(node.clock.now)
        node.evictions.work(node.clock.now)
        node.begin(evict(), successor)
    else:
        node.busy = _AskedAsTheNextBegins(lambda: node.begin(evict(), successor))
    assert node.pass_time(2) == {}
    assert [asked["deleteOptions"]["preconditions"] for asked in posted(server)] == [{"uid": "its-successor"}]
    server.ends.finish("batch", "rec-0")
    assert node.pass_time(2)["batch/rec-0"].done


def test_a_pod_replaced_between_two_requests_is_left_alone(server, node):
    victim = put(server)
    server.store.delete("pods", "batch", "rec-0")
    server.store.create("pods", pod("rec-0", uid="its-successor"))
    told = json.dumps({"kind": "Pod", "metadata": {"name": "rec-0", "namespace": "batch", "uid": victim.uid}}).encode()
    server.faults.answer(200, told, method="GET", content_type="application/json")
    node.begin(evict(), victim)
    assert node.pass_time(2)["batch/rec-0"].done
    assert "deletionTimestamp" not in server.store.get("pods", "batch", "rec-0")["metadata"]
    assert node.memory.evicted_lately() == 0


def test_a_pod_on_its_way_out_is_waited_for_and_not_evicted_again(server, node):
    victim = put(server)
    server.ends.delete("batch", "rec-0", {})
    node.begin(evict(), victim)
    assert node.pass_time(2) == {}
    server.ends.finish("batch", "rec-0")
    assert node.pass_time(2)["batch/rec-0"].done
    assert posted(server) == []


def test_a_missing_permission_is_named_and_said_once(server, node, caplog):
    first, second = put(server), put(server, "rec-1")
    server.forbidden.add(("create", "pods/eviction"))
    node.begin(evict(), first)
    ended = node.pass_time()
    assert "not permitted: create pods/eviction in namespace batch" in ended["batch/rec-0"].error
    assert "not permitted" in node.begin(evict("rec-1"), second)
    node.clock.now += 61
    assert node.begin(evict("rec-1"), second) == ""
    node.pass_time()
    assert caplog.text.count("EvictionRefused") == 1
    assert node.memory.evicted_lately() == 0


WEBHOOK = 'admission webhook "guard.example.com" denied the request: the database is being copied'
POLICY = "pods \"rec-0\" is forbidden: ValidatingAdmissionPolicy 'guard' with binding 'guard' denied request: not today"


@pytest.mark.parametrize("words", [WEBHOOK, POLICY])
def test_admission_that_refuses_one_pod_keeps_no_other_of_its_namespace(server, node, words):
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": words, "reason": "Forbidden", "code": 403}
    server.faults.answer(403, json.dumps(status).encode(), method="POST", part="/eviction", content_type="application/json")
    victim = put(server)
    node.begin(evict(), victim)
    error = node.pass_time(2)["batch/rec-0"].error
    assert (words in error, "not permitted" in error) == (True, False)
    assert "to be asked for again in" in node.begin(evict(), victim)
    assert node.memory.evicted_lately() == 0
    assert node.begin(evict("other-0"), put(server, "other-0", owner="other")) == ""


@pytest.mark.parametrize("status", [500, 502, 504])
def test_a_server_in_trouble_is_asked_again(server, node, status):
    victim = put(server)
    server.faults.answer(status, method="POST", part="/eviction", times=2)
    node.begin(evict(), victim)
    node.pass_time(5)
    assert len(posted(server)) == 3
    assert "deletionTimestamp" in server.store.get("pods", "batch", "rec-0")["metadata"]
    assert node.memory.evicted_lately() == 1


def test_a_server_that_has_too_much_to_do_is_no_disruption_budget(server, node):
    victim = put(server)
    busy = b"Too many requests, please try again later."
    server.faults.answer(429, busy, method="POST", part="/eviction", content_type="text/plain", headers={"Retry-After": "1"})
    node.begin(evict(), victim)
    assert node.pass_time(5) == {}
    assert len(posted(server)) == 2
    assert "deletionTimestamp" in server.store.get("pods", "batch", "rec-0")["metadata"]
    assert node.memory.evicted_lately() == 1


@pytest.mark.parametrize("end", ["delete", "finish"])
def test_an_eviction_whose_answer_was_lost_is_told_all_the_same(server, node, end):
    victim = put(server)
    server.faults.answer(504, method="POST", part="/eviction")
    node.begin(evict(leaking=True, growth=9e6), victim)
    node.pass_time()
    server.ends.delete("batch", "rec-0", {})  # the server had heard it
    if end == "finish":
        server.ends.finish("batch", "rec-0")
    node.pass_time(2)
    node.tell()
    assert "Evicted" in [event["reason"] for event in server.events()]
    assert (len(posted(server)), node.memory.evicted_lately(), len(node.memory.leaks)) == (1, 1, 1)


def test_a_server_in_trouble_for_long_has_the_next_candidate_chosen(server, node):
    server.faults.answer(500, method="POST", part="/eviction", times=99)
    node.begin(evict(), put(server))
    assert "create pods/eviction" in node.pass_time(12)["batch/rec-0"].error


def test_what_a_server_in_trouble_never_did_is_not_counted(server):
    server.faults.answer(500, method="POST", part="/eviction", times=99)
    paper, clock = Paper(), HandClock()
    with asking(server) as api:
        node = Evicting(api, paper, clock)
        for number in range(10):
            node.begin(evict(f"rec-{number}"), put(server, f"rec-{number}", owner=f"owner-{number}"))
        node.pass_time()
        assert node.memory.evicted_lately() == 10, "while nobody knows, all count"
        ended = node.pass_time(12)
        assert len(ended) == 10
        assert "create pods/eviction" in ended["batch/rec-9"].error
        for agent in (node, Evicting(api, paper, clock)):  # and its successor
            assert (agent.memory.evicted_lately(), agent.evictions.barred) == (0, "")
        server.faults.clear()
        node.begin(evict("rec-10"), put(server, "rec-10", owner="owner-0"))
        node.pass_time()
    assert "deletionTimestamp" in server.store.get("pods", "batch", "rec-10")["metadata"], "its owner has lost none"


def test_an_eviction_that_was_given_up_and_happened_all_the_same_is_told_and_counted(server, node):
    victim = put(server)
    server.faults.answer(500, method="POST", part="/eviction", times=99)
    node.begin(evict(), victim)
    assert node.pass_time(7.5) == {}
    assert (len(posted(server)), node.evictions.unsettled()) == (5, {"batch/rec-0"})
    server.ends.delete("batch", "rec-0", {})  # the server had heard the last one
    assert node.pass_time(2) == {}
    assert (len(posted(server)), node.memory.evicted_lately()) == (5, 1)
    server.ends.finish("batch", "rec-0")
    assert node.pass_time(1)["batch/rec-0"].done
    node.tell()
    assert "Evicted" in [event["reason"] for event in server.events()]


def test_an_eviction_that_nobody_can_be_asked_about_counts(server, node):
    victim = put(server)
    server.faults.answer(500, method="POST", part="/eviction", times=99)
    node.begin(evict(), victim)
    node.pass_time(7.5)
    server.kill()
    assert "the API server is not reached" in node.pass_time(2)["batch/rec-0"].error
    assert node.memory.evicted_lately() == 1


def test_an_eviction_that_is_withheld_the_second_time_is_not_counted(server, node):
    server.faults.answer(500, method="POST", part="/pods/rec-1/eviction")
    for number in range(2):
        node.begin(evict(f"rec-{number}"), put(server, f"rec-{number}", owner=f"owner-{number}"))
    node.pass_time()
    node.evictions.use(Settings(eviction_budget=1))
    assert "evictionBudget is 1" in node.pass_time(1)["batch/rec-1"].error
    assert node.memory.evicted_lately() == 1


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        HTML,
        b"[]",
        b"null",
        b'{"kind": 3}',
        b'{"kind": "Pod", "metadata": []}',
        b'{"kind": "Status", "status": "Failure"}',
        b"\xff\xfe",
        b"[" * 5000,
    ],
)
def test_garbage_is_no_success(server, node, garbage):
    victim = put(server)
    for method in ("GET", "POST"):
        server.faults.answer(200, garbage, method=method, part="/pods/", times=99)
    node.begin(evict(), victim)
    ended = node.pass_time(12)
    assert not ended["batch/rec-0"].done
    assert "deletionTimestamp" not in server.store.get("pods", "batch", "rec-0")["metadata"]


@pytest.mark.parametrize("page", [HTML, b'{"message": "no Route matched with those values"}'])
def test_a_page_of_a_proxy_is_not_taken_for_a_pod_that_is_gone(server, node, page):
    victim = put(server)
    server.faults.answer(404, page, times=99)
    node.begin(evict(), victim)
    assert not node.pass_time(12)["batch/rec-0"].done


def test_while_the_server_is_not_reached_nobody_is_evicted_and_it_says_why(server, node):
    victim, other = put(server), put(server, "rec-1")
    assert node.evictions.barred == ""
    server.kill()
    node.begin(evict(), victim)
    assert "the API server is not reached" in node.pass_time(12)["batch/rec-0"].error
    assert node.evictions.barred
    assert "the API server is not reached" in node.begin(evict("rec-1"), other)
    server.revive()
    node.pass_time()
    assert node.evictions.barred == ""
    assert node.begin(evict("rec-1"), other) == ""


def test_the_budget_of_an_hour_is_kept(server, node):
    node.evictions.use(Settings(eviction_budget=2))
    for number in range(3):
        node.begin(evict(f"rec-{number}"), put(server, f"rec-{number}", owner=f"owner-{number}"))
    ended = node.pass_time()
    assert list(ended) == ["batch/rec-2"]
    assert "2 pods evicted on this node in the last hour, evictionBudget is 2" in ended["batch/rec-2"].error
    assert "evictionBudget is 2" in node.evictions.barred
    node.clock.now += 3600
    assert node.evictions.barred == ""
    assert node.begin(evict("rec-3"), put(server, "rec-3", owner="owner-3")) == ""


def test_the_budget_survives_the_agent(server):
    paper, clock = Paper(), HandClock()
    with asking(server) as api:
        before = Evicting(api, paper, clock)
        before.begin(evict(), put(server))
        before.pass_time()
        after = Evicting(api, paper, clock)
        after.evictions.use(Settings(eviction_budget=1))
        assert "evictionBudget is 1" in after.begin(evict("other-0"), put(server, "other-0", owner="other"))


def test_one_owner_loses_one_pod_in_ten_minutes_and_an_event_tells_the_rest(server, node):
    first, second = put(server), put(server, "rec-1")
    node.begin(evict(), first)
    node.pass_time()
    node.begin(evict("rec-1"), second)
    assert "a pod of the same owner was evicted" in node.pass_time()["batch/rec-1"].error
    node.tell()
    (told,) = [event for event in server.events() if event["reason"] == "EvictionWithheld"]
    assert told["regarding"]["name"] == "rec-1"
    assert "would evict it to free 1.50 cores, but a pod of the same owner" in told["note"]
    node.clock.now += 600
    node.begin(evict("rec-1"), second)
    node.pass_time()
    assert "deletionTimestamp" in server.store.get("pods", "batch", "rec-1")["metadata"]


def test_events_tell_of_it_on_the_pod_and_on_the_node(server, node):
    victim = put(server)
    node.begin(evict(), victim)
    node.pass_time()
    node.tell()
    told = {event["reason"]: event for event in server.events()}
    assert told["Evicted"]["regarding"] == {"apiVersion": "v1", "kind": "Pod", "name": "rec-0", "namespace": "batch", "uid": victim.uid}
    assert told["Evicted"]["note"] == "CPUEvict: score 95.0"
    assert told["CPUEviction"]["regarding"]["kind"] == "Node"
    assert told["CPUEviction"]["note"] == "evicted batch/rec-0 to free 1.50 cores: score 95.0"


def test_people_find_them_by_kubectl(server, node, tmp_path):
    node.begin(evict(), put(server))
    node.pass_time()
    node.tell()
    found = kubectl(server, tmp_path, "get", "events", "-A", "-o", "custom-columns=R:.reason,ON:.involvedObject.name,WHY:.message")
    assert [line.split(maxsplit=2) for line in found.splitlines() if "Evicted" in line] == [["Evicted", "rec-0", "CPUEvict: score 95.0"]]
    assert "CPUEviction" in kubectl(server, tmp_path, "get", "events", "-A")


def test_a_leak_is_told_with_its_growth_and_its_owner_remembered(server, node):
    put_first = put(server, owner="rec", owner_uid="uid-of-rec")
    node.begin(evict(plugin=Plugin.MEMORY_EVICT, leaking=True, growth=12_300_000.0), put_first)
    node.pass_time()
    node.tell()
    told = {event["reason"]: event["note"] for event in server.events()}
    assert "leaks 12.3 MB/min" in told["Evicted"]
    assert "to free 64.00 MiB" in told["MemoryEviction"]
    (leak,) = node.memory.leaks
    assert (leak.owner, leak.name, leak.pod, leak.growth) == ("uid-of-rec", "batch/ReplicaSet/rec", "batch/rec-0", 12_300_000.0)


def test_the_successor_of_a_leaking_pod_stays_until_it_leaks_too(server, node):
    node.begin(evict(leaking=True, growth=9e6), put(server))
    node.pass_time()
    node.clock.now += 700
    successor = put(server, "rec-1")
    node.begin(evict("rec-1"), successor)
    assert "leaked and was evicted" in node.pass_time()["batch/rec-1"].error
    node.begin(evict("rec-1", leaking=True, growth=9e6), successor)
    node.pass_time()
    assert "deletionTimestamp" in server.store.get("pods", "batch", "rec-1")["metadata"]


def test_a_pod_that_the_server_has_not_named_is_not_evicted(node):
    assert node.begin(evict(), workload(uid="")) == "the API server has not named this pod yet"


def test_a_pod_that_does_not_go_is_given_up(server, node):
    node.begin(evict(), put(server, grace=30))
    node.pass_time()
    node.clock.now += 148
    assert node.pass_time() == {}
    assert "the API server still has it, 120 s after its grace period" in node.pass_time(5)["batch/rec-0"].error


def test_the_cycle_does_not_wait_for_a_silent_server(server, node):
    victim = put(server)
    server.faults.silence()
    node.evictions.start()
    try:
        asked = threading.Thread(target=node.begin, args=(evict(), victim))
        asked.start()
        asked.join(60)
        assert not asked.is_alive()
        assert node.evictions.poll(node.clock.now) == {}
    finally:
        server.faults.speak()
        node.evictions.stop()
