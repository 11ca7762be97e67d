import json

import pytest

from cluster_parts import Paper
from measuring import HandClock
from qosmanager.kubernetes.memory import AgentMemory


class Broken(Paper):
    """A notebook on a full disk."""

    def save(self, text):
        del text
        raise OSError(28, "No space left on device")


@pytest.fixture
def clock():
    return HandClock()


def test_what_cannot_be_written_counts_all_the_same_and_is_said_once(clock, caplog):
    memory = AgentMemory(Broken(), clock)
    memory.spend("uid-1", "owner-1")
    memory.spend("uid-2", "owner-2")
    assert memory.evicted_lately() == 2
    assert caplog.text.count("count for this run only: No space left on device") == 1


def test_what_cannot_be_read_is_said_and_nothing_is_counted(clock, caplog):
    assert AgentMemory(Paper(b"{"), clock).evicted_lately() == 0
    assert "cannot be read" in caplog.text


def test_the_same_pod_counts_once_and_can_be_given_back(clock):
    memory = AgentMemory(Paper(), clock)
    memory.spend("uid-1", "owner-1")
    memory.spend("uid-1", "owner-1")
    assert memory.evicted_lately() == 1
    assert memory.exhausted(1, "uid-1") == ""
    memory.give_back("uid-1")
    assert memory.evicted_lately() == 0


def test_pods_without_a_controller_do_not_stand_in_for_each_other(clock):
    memory = AgentMemory(Paper(), clock)
    memory.spend("uid-1", "")
    assert memory.rests("uid-2", "") == ""


def test_another_boot_knows_nothing_of_this_one(clock):
    paper = Paper()
    AgentMemory(paper, clock).spend("uid-1", "owner-1")
    clock.now = 5.0
    assert AgentMemory(paper, clock).evicted_lately() == 0


def test_times_that_never_were_are_not_taken_over(clock):
    leaks = [{"owner": owner, "name": "rec", "pod": "batch/rec-0", "at": at, "growth": 1} for owner, at in (("one", 1e300), ("two", 1e9))]
    memory = AgentMemory(Paper(json.dumps({"asked": {"text": "1h", "since": 1e300, "at": 0}, "leaks": leaks}).encode()), clock)
    assert [leak.owner for leak in memory.leaks] == ["two"]
    assert memory.asked_since("1h").since == clock.wall()
