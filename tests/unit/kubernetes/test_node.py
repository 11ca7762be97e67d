import json
import threading

import pytest
from msgspec.structs import replace

from cluster_parts import Paper, asking
from loopback_api.objects import NODE, node
from loopback_api.server import LoopbackApi
from measuring import HandClock
from qosmanager.kubernetes.batch_resources import BatchNote
from qosmanager.kubernetes.memory import AgentMemory, Leak
from qosmanager.kubernetes.node import NodeReader, NodeWriter, Unpublished
from qosmanager.kubernetes.node_pause import NodePause
from qosmanager.kubernetes.node_status import StatusNote
from qosmanager.model.actions import Plan, Resources
from qosmanager.model.assessment import OomRisk
from qosmanager.model.qos import Level
from records import ASSESSMENT, record

GIB = 1 << 30
RESOURCES = Resources(
    cpus=4.0,
    node_available=3.5,
    system_reserved=0.5,
    system_usage=0.5,
    ls_request=1.0,
    exclusive_cpus=0.0,
    be_allowance=2.5,
    be_memory=5 * GIB,
)
LEAK = Leak(owner="uid-of-rec", name="batch/ReplicaSet/rec", pod="batch/rec-0", at=1_790_000_000.0, growth=9e6)


class Desk:
    """The parts that speak of the node, with a clock that is moved by hand."""

    def __init__(self, api, server, batch):
        self.clock = HandClock()
        self.server = server
        self.memory = AgentMemory(Paper(), self.clock)
        self.pause = NodePause(self.memory, "boot-1", self.clock)
        self.reader = NodeReader(self.memory, self.pause)
        self.writer = NodeWriter(api, NODE, self.reader, (StatusNote(self.memory), batch), self.clock)

    def look(self, seen, after=0.0):
        self.clock.advance(after)
        self.writer.observe(seen)
        self.writer.work(self.clock.now)

    def read(self):
        """Take the node in, as the watch does."""
        self.reader.take(json.dumps(self.server.store.get("nodes", "", NODE)).encode())

    @property
    def node(self):
        return self.server.store.get("nodes", "", NODE)

    @property
    def status(self):
        return json.loads(self.node["metadata"]["annotations"]["qosmanager.io/status"])

    @property
    def allocatable(self):
        found = self.node["status"]["allocatable"]
        return {key.partition("/")[2]: value for key, value in found.items() if "/" in key}


@pytest.fixture
def server():
    with LoopbackApi() as api:
        api.store.create("nodes", node(labels={"pool": "batch"}))
        yield api


@pytest.fixture
def desk(server):
    with asking(server) as api:
        yield Desk(api, server, Unpublished())


@pytest.fixture
def publishing(server):
    with asking(server) as api:
        yield Desk(api, server, BatchNote())


def at_level(level, number=1, *, be_limit=2.0, degraded=()):
    plan = Plan(resources=RESOURCES, level=level, degraded=degraded)
    made = record(number, assessment=replace(ASSESSMENT, effective_level=level), plan=plan)
    return replace(made, state=replace(made.state, be_limit=be_limit))


def test_the_status_is_small_json_of_what_the_agent_sees(desk):
    desk.look(at_level(Level.HIGH))
    told = desk.status
    assert (told["agent"], told["level"], told["slo"], told["cpuPressure"], told["beLimit"]) == ("running", "HIGH", "ok", 30.0, 2.0)
    assert told["time"] == "2027-01-15T08:00:01Z"
    assert len(json.dumps(told)) < 500


def test_it_is_written_when_a_word_changes_and_at_most_once_a_minute(desk, server):
    desk.look(at_level(Level.HIGH))
    for _ in range(11):
        desk.look(at_level(Level.MEDIUM), after=5)
    assert desk.status["level"] == "HIGH"
    desk.look(at_level(Level.MEDIUM), after=5)
    assert desk.status["level"] == "MEDIUM"
    for number in range(60):
        desk.look(at_level(Level.MEDIUM, number), after=5)  # only the time goes on
    assert len(server.asked("PATCH", "/nodes/")) == 2
    for number in range(60):
        desk.look(at_level(Level.MEDIUM, number), after=5)
    assert len(server.asked("PATCH", "/nodes/")) == 3


def test_labels_and_a_pause_are_read_from_the_node(desk):
    assert desk.memory.labels is None
    desk.read()
    assert desk.memory.labels == {"kubernetes.io/hostname": NODE, "pool": "batch"}
    assert desk.pause.current() is None
    changed = desk.node
    changed["metadata"]["annotations"]["qosmanager.io/pause"] = "10m"
    desk.server.store.replace("nodes", changed)
    desk.read()
    assert desk.pause.current().ends == 1600.0


def test_a_leak_is_in_the_status_until_a_person_takes_it_away(desk):
    desk.memory.remember_leak(LEAK)
    desk.read()  # not written yet: that nothing is there is nobody's doing
    assert desk.memory.leak_of("uid-of-rec") is not None
    desk.look(at_level(Level.LOW))
    (told,) = desk.status["leaking"]
    assert told == {
        "owner": "batch/ReplicaSet/rec",
        "uid": "uid-of-rec",
        "pod": "batch/rec-0",
        "time": "2026-09-21T14:13:20Z",
        "growth": 9000000.0,
    }
    desk.read()
    assert desk.memory.leak_of("uid-of-rec") is not None
    bare = desk.node
    del bare["metadata"]["annotations"]["qosmanager.io/status"]
    desk.server.store.replace("nodes", bare)
    desk.read()
    assert desk.memory.leaks == ()


def test_a_node_that_was_made_anew_has_cleared_nothing_and_is_told_again(desk):
    desk.memory.remember_leak(LEAK)
    desk.look(at_level(Level.LOW))
    desk.read()
    desk.server.store.delete("nodes", "", NODE)
    desk.reader.take(None)
    desk.server.store.create("nodes", node(annotations={}))
    desk.read()
    assert desk.memory.leak_of("uid-of-rec") == replace(LEAK, shown=False)
    desk.look(at_level(Level.LOW), after=60)
    assert [leak["uid"] for leak in desk.status["leaking"]] == ["uid-of-rec"]


def test_a_leak_survives_the_agent_and_its_state_directory(desk):
    desk.memory.remember_leak(LEAK)
    desk.look(at_level(Level.LOW))
    successor = AgentMemory(Paper(), desk.clock)
    NodeReader(successor, NodePause(successor, "boot-1", desk.clock)).take(json.dumps(desk.node).encode())
    assert successor.leak_of("uid-of-rec") == replace(LEAK, shown=True)


TIMES_THAT_ARE_NONE = [
    json.dumps({"leaking": [{"owner": "x", "uid": "u", "pod": "p", "growth": 1, "time": time}]})
    for time in ("1e300", "1e400", "-1e13", "1e12")
]


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "3", '{"leaking": 3}', '{"leaking": [{"uid": "x"}]}', "{" * 2000, "\x00", *TIMES_THAT_ARE_NONE]
)
def test_a_status_that_somebody_spoilt_clears_nothing(desk, text):
    desk.memory.remember_leak(LEAK)
    desk.look(at_level(Level.LOW))
    desk.read()
    spoilt = desk.node
    spoilt["metadata"]["annotations"]["qosmanager.io/status"] = text
    desk.server.store.replace("nodes", spoilt)
    desk.read()
    assert [leak.owner for leak in desk.memory.leaks] == ["uid-of-rec"]
    desk.look(at_level(Level.HIGH), after=60)
    assert desk.status["level"] == "HIGH"


def test_what_be_may_use_is_published_in_millicores_and_bytes(publishing):
    publishing.look(at_level(Level.MEDIUM))
    assert publishing.allocatable == {"batch-cpu": "2000", "batch-memory": str(5 * GIB)}
    assert publishing.node["status"]["capacity"]["kubernetes.io/batch-cpu"] == "2000"


def test_without_a_limit_be_may_use_what_ls_has_not_asked_for(publishing):
    publishing.look(at_level(Level.LOW, be_limit=None))
    assert publishing.allocatable["batch-cpu"] == "2500"


def test_a_change_of_ten_percent_is_none_and_nothing_comes_twice_in_15_seconds(publishing, server):
    publishing.look(at_level(Level.MEDIUM))
    publishing.look(at_level(Level.MEDIUM, be_limit=2.2), after=15)
    assert publishing.allocatable["batch-cpu"] == "2000"
    publishing.look(at_level(Level.MEDIUM, be_limit=2.21), after=15)
    assert publishing.allocatable["batch-cpu"] == "2210"
    publishing.look(at_level(Level.CRITICAL), after=10)
    assert publishing.allocatable["batch-cpu"] == "2210"
    publishing.look(at_level(Level.CRITICAL), after=5)
    assert publishing.allocatable == {"batch-cpu": "0", "batch-memory": "0"}
    assert len(server.asked("PATCH", "/status")) == 3


def test_while_memory_runs_out_nothing_is_offered(publishing):
    publishing.look(record(1, plan=Plan(resources=RESOURCES), assessment=replace(ASSESSMENT, oom=OomRisk(present=True, reasons=("x",)))))
    assert publishing.allocatable == {"batch-cpu": "0", "batch-memory": "0"}


def test_while_nothing_is_decided_what_is_published_stays(publishing):
    publishing.look(at_level(Level.MEDIUM))
    publishing.look(at_level(Level.MEDIUM, be_limit=0.5, degraded=("node_stale",)), after=60)
    assert publishing.allocatable["batch-cpu"] == "2000"


def test_a_kubelet_that_makes_its_node_anew_gets_them_again(publishing):
    publishing.look(at_level(Level.MEDIUM))
    anew = publishing.node
    for part in ("capacity", "allocatable"):
        del anew["status"][part]["kubernetes.io/batch-cpu"]
    publishing.server.store.replace("nodes", anew)
    publishing.read()
    publishing.look(at_level(Level.MEDIUM), after=15)
    assert publishing.allocatable["batch-cpu"] == "2000"


def test_amounts_in_the_words_of_the_api_server_are_the_same_amounts(publishing, server):
    publishing.look(at_level(Level.MEDIUM))
    shown = publishing.node
    shown["status"]["allocatable"] |= {"kubernetes.io/batch-cpu": "2k", "kubernetes.io/batch-memory": "5Gi"}
    server.store.replace("nodes", shown)
    for _ in range(3):
        publishing.read()
        publishing.look(at_level(Level.MEDIUM), after=15)
    assert len(server.asked("PATCH", "/status")) == 1


def test_when_the_agent_is_taken_away_so_is_what_it_offered_and_whom_it_remembers_stays(publishing):
    publishing.memory.remember_leak(LEAK)
    publishing.look(at_level(Level.MEDIUM))
    publishing.writer.withdraw()
    assert publishing.allocatable == {}
    assert "kubernetes.io/batch-memory" not in publishing.node["status"]["capacity"]
    assert publishing.status["agent"] == "stopped"
    assert [leak["uid"] for leak in publishing.status["leaking"]] == ["uid-of-rec"]


def test_while_the_agent_is_away_nothing_is_offered(publishing):
    publishing.look(at_level(Level.MEDIUM))
    publishing.writer.rest()
    assert publishing.allocatable == {"batch-cpu": "0", "batch-memory": "0"}
    assert publishing.status["agent"] == "stopped"


def test_who_publishes_nothing_takes_nothing_back(desk, server):
    desk.look(at_level(Level.MEDIUM))
    desk.writer.withdraw()
    assert server.asked("PATCH", "/status") == []


def test_a_missing_permission_is_said_once_and_tried_again_after_ten_minutes(desk, server, caplog):
    server.forbidden.add(("patch", "nodes"))
    for _ in range(20):
        desk.look(at_level(Level.HIGH), after=5)
    assert caplog.text.count("not permitted: patch nodes") == 1
    assert len(server.asked("PATCH", "/nodes/")) == 1
    server.forbidden.clear()
    desk.look(at_level(Level.HIGH), after=600)
    assert desk.status["level"] == "HIGH"


@pytest.mark.parametrize("status", [200, 401, 409, 429, 500])
def test_a_server_in_trouble_is_told_later(desk, server, status):
    server.faults.answer(status)
    desk.look(at_level(Level.HIGH))
    desk.look(at_level(Level.HIGH), after=5)
    assert desk.status["level"] == "HIGH"


def test_the_cycle_does_not_wait_for_a_silent_server(desk, server):
    server.faults.silence()
    desk.writer.start()
    try:
        telling = threading.Thread(target=desk.writer.observe, args=(at_level(Level.HIGH),))
        telling.start()
        telling.join(60)
        assert not telling.is_alive()
    finally:
        server.faults.speak()
        desk.writer.stop()
