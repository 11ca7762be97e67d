"""Demand over time: values at ticks of 100 ms, and until when each holds."""

import statistics

import pytest

from qosmanager.simulate.curve import Curve
from qosmanager.simulate.scenario import Burst, CpuDemand, Hour, Step


def curve(*, points=(), start=0.0, **demand):
    return Curve(CpuDemand(**demand), points, start, "seed")


def values(made, *ticks):
    return [made.at(tick)[0] for tick in ticks]


def test_a_constant_holds_for_ever():
    value, until = curve(constant=2.5).at(0)
    assert value == 2.5
    assert until > 10**9


def test_steps_come_at_their_tick_and_say_when_the_next_one_is_due():
    made = curve(steps=(Step(at=0, value=1), Step(at=2, value=3)))
    assert made.at(0) == (1, 20)
    assert values(made, 19, 20, 21) == [1, 3, 3]


def test_before_the_first_step_nothing_is_wanted():
    assert curve(steps=(Step(at=1, value=3),)).at(0) == (0, 10)


def test_a_ramp_rises_in_a_straight_line_from_the_value_before():
    made = curve(steps=(Step(at=0, value=1), Step(at=1, value=3, over=2)))
    assert values(made, 10, 20, 30, 40) == pytest.approx([1, 2, 3, 3], abs=1e-5)
    assert made.at(15)[1] == 16


def test_hours_of_day_begin_at_the_start_of_the_node_and_come_again():
    made = curve(daily=(Hour(hour=6, value=1), Hour(hour=18, value=2)), start=5.5 * 3600)
    assert made.at(0) == (2, 18_000)  # half past five: still the evening's value, for half an hour
    assert values(made, 18_000, 18_000 + 12 * 36_000, 18_000 + 24 * 36_000) == [1, 2, 1]


def test_a_burst_replaces_the_value_again_and_again():
    made = curve(constant=1, bursts=(Burst(first=1, length=0.5, every=2, value=4),))
    assert made.at(9) == (1, 10)
    assert values(made, 10, 14, 15, 30, 35) == [4, 4, 1, 4, 1]
    assert values(curve(constant=1, bursts=(Burst(first=1, length=0.5, value=4),)), 10, 15, 30) == [4, 1, 1]


def test_a_series_holds_each_value_until_the_next_row():
    assert values(curve(points=((0.0, 1.0), (60.0, 2.0))), 0, 599, 600, 9_000) == [1, 1, 2, 2]


def test_noise_is_drawn_each_second_with_the_given_deviation_and_is_the_same_for_the_same_seed():
    drawn = [value for value, _ in (curve(constant=10, noise=0.02).at(0) for _ in range(3))]
    assert len(set(drawn)) == 1
    made = curve(constant=10, noise=0.02)
    many = [made.at(tick)[0] for tick in range(0, 20_000, 10)]
    assert statistics.mean(many) == pytest.approx(10, abs=0.05)
    assert statistics.stdev(many) == pytest.approx(0.2, rel=0.1)
    assert made.at(0)[1] == 10
