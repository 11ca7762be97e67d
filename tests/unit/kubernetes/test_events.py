import json

import pytest

from cluster_parts import asking
from loopback_api.faults import HTML
from loopback_api.server import LoopbackApi
from measuring import HandClock
from qosmanager.kubernetes.events import About, Events, Happening


@pytest.fixture
def server():
    with LoopbackApi() as api:
        yield api


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def events(server, clock):
    with asking(server) as api:
        yield Events(api, "worker-1", clock)


def degraded(events, topic="node_stale", note="the sample is 9 s old"):
    return Happening(about=events.node, reason="QoSDegraded", action="HoldBack", note=note, topic=topic)


def test_an_event_on_the_node_lies_in_the_default_namespace(server, events, clock):
    events.say(degraded(events))
    events.work(clock.now)
    (told,) = server.events()
    assert told["metadata"]["namespace"] == "default"
    assert told["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": "worker-1", "uid": "worker-1"}
    assert (told["reason"], told["type"], told["note"]) == ("QoSDegraded", "Warning", "the sample is 9 s old")
    assert (told["reportingController"], told["reportingInstance"]) == ("qosmanager.io/agent", "worker-1")
    assert told["eventTime"] == "2026-09-21T14:30:00.000000Z"  # 1,790,001,000 s


def test_what_happens_again_is_a_series_on_the_first_event(server, events, clock):
    for note in ("9 s old", "10 s old", "11 s old"):
        events.say(degraded(events, note=note))
        events.work(clock.now)
        clock.advance(1)
    clock.advance(10)
    events.work(clock.now)
    (told,) = server.events()
    assert told["note"] == "9 s old"
    assert told["series"] == {"count": 3, "lastObservedTime": "2026-09-21T14:30:02.000000Z"}


def test_a_series_is_brought_up_to_date_every_ten_seconds_at_most(server, events, clock):
    for _ in range(30):
        events.say(degraded(events))
        events.work(clock.now)
        clock.advance(1)
    assert len(server.asked("PATCH", "/events/")) == 2


def test_something_else_is_an_event_of_its_own(server, events, clock):
    events.say(degraded(events))
    events.say(degraded(events, topic="pods_stale"))
    events.work(clock.now)
    assert len(server.events()) == 2


def test_after_half_an_hour_a_series_begins_anew(server, events, clock):
    events.say(degraded(events))
    events.work(clock.now)
    clock.advance(1801)
    events.say(degraded(events))
    events.work(clock.now)
    assert len(server.events()) == 2


def test_a_series_whose_event_has_expired_begins_anew(server, events, clock):
    events.say(degraded(events))
    events.work(clock.now)
    server.store.delete("events", "default", server.events()[0]["metadata"]["name"])
    for _ in range(2):
        clock.advance(11)
        events.say(degraded(events))
        events.work(clock.now)
    assert [event.get("series") for event in server.events()] == [None]
    assert events.dropped == 0


def test_an_event_whose_answer_was_lost_is_not_told_twice(server, events, clock):
    server.faults.answer(500, times=1)
    events.say(degraded(events))
    events.work(clock.now)
    name = server.asked("POST", "/events")[0].body
    server.store.create("events", json.loads(name))
    clock.advance(2)
    events.work(clock.now)
    assert (len(server.events()), events.dropped) == (1, 0)


def test_a_long_note_is_cut_to_what_a_server_takes(server, events, clock):
    events.say(degraded(events, note="ü" * 2000))
    events.work(clock.now)
    assert server.events()[0]["note"] == "ü" * 512


def test_the_queue_is_bounded_and_what_is_dropped_is_counted(server, events, clock):
    server.kill()
    for number in range(130):
        events.say(degraded(events, topic=str(number)))
    assert events.dropped == 30
    events.work(clock.now)
    server.revive()
    clock.advance(60)
    events.work(clock.now)
    assert len(server.events()) == 100


@pytest.mark.parametrize("status", [200, 429, 500, 503])
def test_a_server_in_trouble_is_told_later(server, events, clock, status):
    server.faults.answer(status, HTML)
    events.say(degraded(events))
    delay = events.work(clock.now)
    assert server.events() == []
    clock.advance(delay)
    events.work(clock.now)
    assert len(server.events()) == 1


def test_the_server_says_when_to_come_again(server, events, clock):
    server.faults.answer(429, headers={"Retry-After": "17"})
    events.say(degraded(events))
    assert events.work(clock.now) == 17
    clock.advance(16)
    assert events.work(clock.now) == 1
    assert server.events() == []


def test_a_missing_permission_drops_the_event_and_is_said_once(server, events, clock, caplog):
    server.forbidden.add(("create", "events"))
    for topic in ("a", "b"):
        events.say(degraded(events, topic=topic))
    events.work(clock.now)
    assert events.dropped == 2
    assert caplog.text.count("not permitted: create events.events.k8s.io in namespace default") == 1


def test_whoever_says_something_does_not_wait_for_a_silent_server(server, events):
    server.faults.silence()
    events.start()
    try:
        for number in range(500):
            events.say(
                Happening(about=About("Pod", f"rec-{number}", "batch"), reason="Evicted", action="Evict", note="", topic=str(number))
            )
        assert events.dropped >= 399
    finally:
        server.faults.speak()
        events.stop()


def test_a_name_that_is_cut_short_is_one_that_the_api_server_takes(server, events, clock):
    long = "a" * 199 + "-" + "b" * 20
    events.say(Happening(about=About("Pod", long, "batch", "u-1"), reason="Evicted", action="Evict", note="score 95.0"))
    events.work(clock.now)
    (told,) = server.events()
    assert told["metadata"]["name"].partition(".")[0] == "a" * 199
    assert told["regarding"]["name"] == long
