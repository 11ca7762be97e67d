"""A recording's own time: gaps, clocks that are set, restarts."""

from msgspec.structs import replace

from qosmanager.config.settings import Settings
from qosmanager.model.actions import Plan
from qosmanager.record.decoder import Recorded
from qosmanager.record.elapsed import Elapsed
from qosmanager.record.messages import Places

FIRST = Recorded(
    version="0.1.0",
    number=1,
    time=500.0,
    wall=1_800_000_000.0,
    settings=Settings(),
    plan=Plan(),
    receipts=(),
    outcomes=(),
    places=Places(),
    pods=1,
    before=None,
    pause=None,
    own=None,
    durations={},
)


def passed(*cycles):
    elapsed = Elapsed()
    steps = [elapsed.add(replace(FIRST, number=number, time=time, wall=FIRST.wall + wall)) for number, time, wall in cycles]
    assert elapsed.seconds == sum(steps)
    return steps, elapsed.gaps


def test_cycles_are_as_long_as_the_clock_says_that_nobody_sets():
    assert passed((1, 500.0, 0), (2, 501.0, -3600), (3, 502.5, 7200)) == ([0, 1.0, 1.5], 0)


def test_a_stretch_without_a_cycle_counts_as_one_period():
    assert passed((1, 500.0, 0), (2, 501.0, 1), (3600, 4100.0, 3600)) == ([0, 1.0, 1.0], 1)


def test_an_agent_that_was_started_again_goes_on_by_the_walls_clock():
    assert passed((1, 500.0, 0), (2, 501.0, 1), (1, 503.0, 3)) == ([0, 1.0, 2.0], 0)
    # Another boot, an hour later, and one whose clock is behind.
    assert passed((1, 500.0, 0), (2, 501.0, 1), (1, 20.0, 3600), (1, 30.0, 100)) == ([0, 1.0, 1.0, 1.0], 2)


def test_lost_cycles_are_passed_over():
    assert passed((1, 500.0, 0), (4, 503.0, 3)) == ([0, 3.0], 0)


def test_slow_cycles_are_no_gaps():
    elapsed = Elapsed()
    slow = Settings(sync_period=10.0)
    steps = [elapsed.add(replace(FIRST, number=number, time=500.0 + 30 * number, settings=slow)) for number in (1, 2)]
    assert (steps, elapsed.gaps) == ([0, 30.0], 0)
