import pytest
from msgspec.structs import replace

from cluster_parts import asking
from loopback_api.objects import NODE, node
from loopback_api.server import LoopbackApi
from measuring import HandClock
from qosmanager.config.settings import Settings
from qosmanager.kubernetes.events import Events
from qosmanager.kubernetes.telling import Telling
from qosmanager.model.actions import Plan, Refusal
from qosmanager.model.qos import Plugin
from records import record


class Heard:
    """A listener, and a writer of the node, that only remember."""

    def __init__(self):
        self.cycles = []
        self.failures = []
        self.observed = []

    def cycle_done(self, done, settings):
        self.cycles.append((done, settings))

    def cycle_failed(self, error):
        self.failures.append(error)

    def observe(self, done):
        self.observed.append(done)


@pytest.fixture
def server():
    with LoopbackApi() as api:
        api.store.create("nodes", node())
        yield api


class Scene:
    def __init__(self, api, server):
        self.clock = HandClock()
        self.server = server
        self.heard = Heard()
        self.events = Events(api, NODE, self.clock)
        self.telling = Telling(self.heard, self.events, self.heard)

    def cycle(self, number=2, **changes):
        self.telling.cycle_done(record(number, **changes), Settings())
        self.clock.advance(1)

    def told(self):
        self.events.work(self.clock.now)
        return [(event["reason"], event["note"]) for event in self.server.events()]


@pytest.fixture
def scene(server):
    with asking(server) as api:
        yield Scene(api, server)


def degraded(*reasons):
    return {"plan": Plan(degraded=reasons)}


def test_each_cycle_goes_on_to_the_node_and_to_the_listener_behind(scene):
    scene.cycle()
    assert [done.number for done, _ in scene.heard.cycles] == [2]
    assert [done.number for done in scene.heard.observed] == [2]
    assert scene.told() == []


def test_a_degradation_is_told_when_it_begins(scene):
    for _ in range(3):
        scene.cycle(**degraded("node_stale: the sample is 9 s old"))
    assert scene.told() == [("QoSDegraded", "node_stale: the sample is 9 s old")]


def test_one_that_begins_again_is_a_series(scene):
    for reasons in (("node_stale",), (), ("node_stale",)):
        scene.cycle(**degraded(*reasons))
        scene.told()
    scene.clock.advance(10)
    scene.told()
    assert [event["series"]["count"] for event in scene.server.events()] == [2]


def test_a_pause_is_no_degradation(scene):
    scene.cycle(**degraded("paused"))
    assert scene.told() == []


def test_batch_at_its_floor_for_ten_minutes_is_told(scene):
    starved = record().state
    starved = replace(starved, floor_since=starved.time - 660.0)
    scene.cycle(state=starved)
    ((reason, note),) = scene.told()
    assert (reason, "held at its floor of 0.60 cores for 10 minutes" in note) == ("BestEffortStarving", True)


def test_an_eviction_that_cannot_be_is_told_once(scene):
    barred = Refusal(Plugin.CPU_EVICT, None, "barred", "10 pods evicted on this node in the last hour, evictionBudget is 10")
    for _ in range(3):
        scene.cycle(plan=Plan(refusals=(barred,)))
    ((reason, note),) = scene.told()
    assert (reason, note) == ("EvictionWithheld", f"CPUEvict would evict, but {barred.reason}")


def test_a_configuration_that_is_refused_is_told(scene):
    scene.telling.rejected("config.yaml:3: qosManager.syncPeriod: 0 is not allowed")
    assert scene.told() == [
        ("QoSConfigRejected", "the old configuration stays in force: config.yaml:3: qosManager.syncPeriod: 0 is not allowed")
    ]


def test_a_cycle_that_fails_is_told_and_goes_on_to_the_listener_behind(scene):
    scene.telling.cycle_failed(ValueError("no"))
    assert scene.told() == [("QoSDegraded", "a cycle failed: ValueError: no")]
    assert len(scene.heard.failures) == 1
