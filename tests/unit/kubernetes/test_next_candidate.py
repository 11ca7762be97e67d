"""Who goes when somebody may not: decisions, evictor and API server together (specification, section 9)."""

import pytest
from msgspec.structs import replace

from builders import NOW, be, slow, snapshot
from cluster_parts import Evicting, Paper, asking, workload
from loopback_api.objects import budget, pod
from loopback_api.server import LoopbackApi
from measuring import HandClock
from qosmanager.config.settings import Settings
from qosmanager.engine.step import step
from qosmanager.execute.evictor import Evictor
from qosmanager.model.actions import Evict
from qosmanager.model.qos import Level
from qosmanager.model.state import State
from qosmanager.model.workload import Placement
from qosmanager.verify import observe, settle

TRIED = State(time=NOW - 1, be_limit=1.2, suppress_level=Level.EMERGENCY, suppress_since=NOW - 60)


class Node:
    """A node short of CPU, with the batch pods that the API server has; one cycle a second."""

    def __init__(self, api, server):
        self.server = server
        self.evicting = Evicting(api, Paper(), HandClock())
        self.evictor = Evictor(self.evicting.evictions)
        self.state = TRIED
        self.time = NOW

    def cycle(self):
        """Run one; return who is to be evicted in it."""
        there = self.server.store.list("pods")[0]
        uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in there}
        # What the limit in force lets them have.
        batch = [be(name, uid=uid, usage=self.state.be_limit / len(uids)) for name, uid in uids.items()]
        # Usage 9.2 of 16 cores, twice what LS requests, a long queue: EMERGENCY, where all of BE is wanted.
        reading = snapshot(slow(usage=8.0, request=4.0, wait=3.0), *batch, cpu_usage=9.2, load1=32.0, time=self.time)
        placement = Placement(workloads={f"batch/{name}": workload(name, uid=uid) for name, uid in uids.items()})
        before, _ = observe(self.state, reading)
        planned, _, plan = step(before, reading, Settings())
        receipts = self.evictor.apply(plan, placement, self.evicting.clock.now)
        self.state, _ = settle(before, planned, plan, receipts, reading)
        self.evicting.evictions.work(self.evicting.clock.now)
        self.time += 1
        self.evicting.clock.advance(1)
        return [action.pod for action in plan.actions if isinstance(action, Evict)]


@pytest.fixture
def server():
    with LoopbackApi() as api:
        api.ends.by_itself = False
        for name in ("a", "b", "c"):
            api.store.create("pods", pod(name, owner=name, labels={"app": name}))
        yield api


@pytest.fixture
def node(server):
    with asking(server) as api:
        yield Node(api, server)


def gone(server):
    return [each["metadata"]["name"] for each in server.store.list("pods")[0] if "deletionTimestamp" in each["metadata"]]


def test_when_a_budget_forbids_one_the_next_goes_and_then_nobody(node, server):
    server.store.create("poddisruptionbudgets", budget("keep-a", {"app": "a"}, allowed=0))
    assert node.cycle() == ["batch/a"]
    assert gone(server) == []
    assert node.cycle() == []  # this one is told that a may not
    assert node.cycle() == ["batch/b"]
    assert gone(server) == ["b"]
    assert [node.cycle() for _ in range(20)] == [[]] * 20
    assert gone(server) == ["b"]


def test_while_the_server_does_not_answer_nobody_else_is_asked_for(node, server):
    server.faults.answer(500, method="POST", times=3)
    assert node.cycle() == ["batch/a"]
    assert [node.cycle() for _ in range(5)] == [[]] * 5
    assert gone(server) == ["a"]


def test_a_victim_that_ends_frees_what_it_had_and_the_cooldown_holds(node, server):
    assert node.cycle() == ["batch/a"]
    server.ends.finish("batch", "a")
    assert [node.cycle() for _ in range(59)] == [[]] * 59
    assert replace(node.state, watches=()).pending == ()


def test_when_all_are_forbidden_each_is_asked_once_in_half_a_minute(node, server):
    for name in ("a", "b", "c"):
        server.store.create("poddisruptionbudgets", budget(f"keep-{name}", {"app": name}, allowed=0))
    assert [chosen for _ in range(25) for chosen in node.cycle()] == ["batch/a", "batch/b", "batch/c"]
