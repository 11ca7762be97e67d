import pytest

from qosmanager.collect.conditions import Pace


def dues(pace, moments):
    return [moment for moment in moments if pace.due(float(moment))]


def test_the_first_time_is_at_once_the_second_after_the_phase_then_each_period():
    assert dues(Pace(5.0, 0.5), range(100, 120)) == [100, 103, 108, 113, 118]


@pytest.mark.parametrize(("phase", "after"), [(0.15, [101, 106, 111]), (0.95, [105, 110, 115])])
def test_what_was_spread_stays_spread_after_a_long_stop(phase, after):
    pace = Pace(5.0, phase)
    pace.due(0.0)
    assert pace.due(100.0)  # everything is late, together
    assert dues(pace, range(101, 117))[: len(after)] == after
