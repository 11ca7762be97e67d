import pytest

from cluster_parts import Paper
from measuring import HandClock
from qosmanager.kubernetes.memory import AgentMemory
from qosmanager.kubernetes.node_pause import LongerPause, NodePause
from qosmanager.model.pause import Pause


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def pause(clock):
    return NodePause(AgentMemory(Paper(), clock), "boot-1", clock)


def test_a_duration_counts_from_when_it_was_first_seen(pause, clock):
    pause.take("10m")
    clock.advance(599)
    pause.take("10m")
    assert pause.current() == Pause(
        boot_id="boot-1", ends=1600.0, since=1_790_001_000.0, until=1_790_001_600.0, by="annotation qosmanager.io/pause of the node"
    )
    clock.advance(1)
    assert pause.current() is None


def test_it_counts_on_after_a_restart(clock):
    paper = Paper()
    NodePause(AgentMemory(paper, clock), "boot-1", clock).take("10m")
    clock.advance(300)
    after = NodePause(AgentMemory(paper, clock), "boot-1", clock)
    after.take("10m")
    assert after.current().ends == 1600.0


def test_a_time_is_meant_as_it_is(pause):
    pause.take("2026-09-21T14:40:00Z")  # 600 s after the clock's wall time, 14:30:00
    assert pause.current().ends == 1600.0


def test_a_time_that_is_over_pauses_nothing_and_is_no_mistake(pause):
    pause.take("2026-09-21T14:00:00Z")
    assert (pause.current(), pause.problem) == (None, "")


def test_without_the_annotation_nothing_is_paused_and_the_same_words_begin_anew(pause, clock):
    pause.take("10m")
    pause.take(None)
    assert pause.current() is None
    clock.advance(50)
    pause.take("10m")
    assert pause.current().ends == 1650.0


@pytest.mark.parametrize(
    "text", ["", "soon", "10", "1e5", "-5m", "0s", "200h", "2026-11-11", "2028-01-01T00:00:00Z", "9" * 100_000 + "s", "10m\x1b[2J"]
)
def test_anything_else_pauses_nothing_and_says_so(pause, text):
    pause.take("10m")
    pause.take(text)
    assert pause.current() is None
    assert "pauses nothing; a duration from 1s to 168h (30m) or a time" in pause.problem
    assert pause.problem.isprintable()
    assert len(pause.problem) < 400


def test_of_two_pauses_the_longer_one_holds(clock, pause):
    other = NodePause(AgentMemory(Paper(), clock), "boot-1", clock)
    both = LongerPause(pause, other)
    assert both.current() is None
    pause.take("10m")
    other.take("5m")
    assert both.current() == pause.current()
