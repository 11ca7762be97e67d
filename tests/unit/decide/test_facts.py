"""Times as every plugin reads them (specification, sections 4 and 8)."""

import math

import pytest

from builders import NOW, be, ls, snapshot
from qosmanager.config.settings import Settings
from qosmanager.decide.facts import Facts
from qosmanager.engine.step import judge
from qosmanager.model.state import State


def facts(time=NOW):
    reading = snapshot(ls(usage=1.0), be(usage=1.0), cpu_usage=2.0, time=time)
    found = judge(State(), reading, Settings())
    return Facts(snapshot=reading, census=found.census, assessment=found.assessment, settings=Settings(), before=State(), dt=1.0)


@pytest.mark.parametrize(("until", "seconds"), [(NOW + 7.5, 7.5), (NOW, 0.0), (NOW - 3, 0.0), (None, 0.0)])
def test_what_remains_of_a_cooldown_is_never_negative(until, seconds):
    assert facts().remaining(until) == seconds


def test_without_a_time_nothing_remains_and_everything_is_over():
    assert facts(None).remaining(NOW + 9) == 0
    assert facts(None).is_over(NOW + 9)
    assert facts(None).elapsed(NOW) == math.inf


@pytest.mark.parametrize(("since", "seconds"), [(NOW - 5, 5.0), (NOW, 0.0), (NOW + 1, math.inf), (None, math.inf)])
def test_what_began_at_an_unknown_time_or_lies_ahead_is_long_ago(since, seconds):
    assert facts().elapsed(since) == seconds


@pytest.mark.parametrize(("since", "held"), [(NOW - 5 + 2e-9, False), (NOW - 5 + 2e-10, True), (NOW - 5, True), (None, True)])
def test_times_are_compared_at_nine_digits(since, held):
    assert facts().has_held(since, 5.0) is held
