"""The level BE is held at: at once up, one by one down (specification, section 4)."""

import pytest
from msgspec.structs import replace

from builders import NOW, be, judged, ls, remembered, run, snapshot
from qosmanager.config.settings import CpuSuppressSettings, Hysteresis, Settings, Smoothing, Strategy
from qosmanager.model.qos import Level, Mode
from qosmanager.model.state import Bucket, Moment, State


def reading(score, *pods, **more):
    """Build a snapshot of this CPU score (0 to 60) at 0 percent of use: all of it LS use of LS requests."""
    return snapshot(ls(usage=score / 30 * 25.0, request=25.0), *pods, cpus=100.0, cpu_usage=0.0, **more)


def held(level, below_for=None, since=-10.0, **more):
    below = None if below_for is None else NOW - below_for
    return State(time=NOW - 1, suppress_level=level, suppress_since=NOW + since, below_since=below, **more)


def effective(snapshot_, state, settings=None):
    return judged(snapshot_, state, settings).effective_level


def test_without_memory_the_level_is_the_raw_one():
    assert effective(reading(45), State()) is Level.MEDIUM
    state = remembered(reading(45), State())
    assert (state.suppress_level, state.suppress_since, state.below_since) == (Level.MEDIUM, NOW, None)


def test_a_rise_is_at_once_and_starts_the_clock():
    state = remembered(reading(45), held(Level.LOW, below_for=9))
    assert (state.suppress_level, state.suppress_since, state.below_since) == (Level.MEDIUM, NOW, None)


def test_a_rise_may_skip_levels():
    busy = snapshot(ls(usage=50.0, request=25.0), cpus=100.0, cpu_usage=50.0)  # 60 + 20
    assert effective(busy, held(Level.LOW)) is Level.CRITICAL


@pytest.mark.parametrize(("below_for", "expected"), [(None, Level.HIGH), (2.9, Level.HIGH), (3.0, Level.MEDIUM), (60, Level.MEDIUM)])
def test_a_fall_waits_until_it_has_been_possible_for_the_hold(below_for, expected):
    assert effective(reading(20), held(Level.HIGH, below_for)) is expected


def test_a_fall_is_one_level_and_the_count_begins_anew():
    state = remembered(reading(5), held(Level.CRITICAL, below_for=3))
    assert (state.suppress_level, state.below_since) == (Level.HIGH, None)


def test_a_fall_keeps_the_time_since_when_the_level_is_this_or_tighter():
    assert remembered(reading(5), held(Level.EMERGENCY, below_for=3, since=-40)).suppress_since == NOW - 40


def test_the_first_possible_moment_is_remembered():
    assert remembered(reading(5), held(Level.HIGH)).below_since == NOW


def test_a_level_that_stays_keeps_the_time_since_when_it_is_held():
    for score in (58, 65):
        state = remembered(reading(score), held(Level.HIGH, below_for=2, since=-40))
        assert (state.suppress_level, state.suppress_since, state.below_since) == (Level.HIGH, NOW - 40, None)


def test_a_break_counts_from_the_start():
    assert remembered(reading(58), held(Level.HIGH, below_for=2)).below_since is None


@pytest.mark.parametrize(("score", "possible"), [(56.9, True), (57.0, False)])
def test_the_score_must_be_inside_the_lower_level_by_the_margin(score, possible):
    assert (remembered(reading(score), held(Level.HIGH)).below_since is not None) is possible


def test_where_batch_makes_way_nothing_more_of_it_is_looked_ahead():
    settings = Settings(cpu_suppress=CpuSuppressSettings(strategy=Strategy.USAGE))
    assert remembered(reading(56.9, be(usage=20.0)), held(Level.HIGH, be_limit=20.0), settings).below_since is not None


@pytest.mark.parametrize(("percent", "possible"), [(57.0, True), (57.1, False)])
def test_the_matrix_must_be_lower_at_a_percent_above_by_the_margin(percent, possible):
    # 57 percent scores 22.8; with the margin it is 60 percent, which is not above 60.
    state = remembered(snapshot(cpus=100.0, cpu_usage=percent), held(Level.MEDIUM))
    assert (state.below_since is not None) is possible


def test_with_smoothing_the_larger_of_score_and_mean_must_be_lower():
    # 60 seconds of 65 points and one of 5 or 65: a mean of 64 or 65, HIGH.
    settings = Settings(smoothing=Smoothing(window=300.0))
    high, low = (held(Level.HIGH, smoothing=(Bucket(start=NOW - 60, count=60, cpu=60 * score, memory=0.0),)) for score in (65.0, 5.0))
    assert remembered(reading(5), high, settings).below_since is None
    assert remembered(reading(5), low, settings).below_since == NOW
    assert remembered(reading(58), low, settings).below_since is None


def test_margin_and_hold_are_settings():
    settings = Settings(hysteresis=Hysteresis(margin=0.0, hold=0.0))
    assert effective(reading(59.9), held(Level.HIGH), settings) is Level.MEDIUM


# Where BE could stay: 100 CPUs, LS claims 25 and uses little, MEDIUM leaves 75 x 0.8 = 60, HIGH 75 x 0.5 = 37.5.


def with_batch(usage, limit, node=40.0, ls_usage=5.0, **more):
    reading_ = snapshot(ls(usage=ls_usage, request=25.0), be(usage=usage), cpus=100.0, cpu_usage=node)
    return remembered(reading_, held(Level.HIGH, be_limit=limit, **more))


def test_batch_that_uses_its_limit_must_be_able_to_stay_at_the_lower_level():
    # Score 16 + 6 = 22 at 40 percent; 22.5 more cores of batch would make it 36.25 points and 65.5 percent: MEDIUM, not above.
    assert with_batch(usage=37.5, limit=37.5).below_since == NOW


def test_batch_that_would_bring_the_level_back_keeps_it():
    # 50 percent and 20 + 6 points; 37.5 cores would make 90.5 percent and 47.75 points: still MEDIUM. So 45 points of LS beside it:
    # 20 + 30 + 3 + 50 x 0.375 = 71.75 points: HIGH.
    state = with_batch(usage=22.5, limit=22.5, node=50.0, ls_usage=25.0)
    assert state.below_since is None


def test_batch_that_does_not_use_its_limit_brings_nothing_back():
    # As above, but under 0.9 x 22.5 = 20.25.
    assert with_batch(usage=20.2, limit=22.5, node=50.0, ls_usage=25.0).below_since == NOW


def test_batch_at_exactly_nine_tenths_of_its_limit_uses_it():
    assert with_batch(usage=0.9 * 22.5, limit=22.5, node=50.0, ls_usage=25.0).below_since is None


def test_batch_that_is_not_measured_is_not_taken_for_idle():
    reading_ = snapshot(ls(usage=25.0, request=25.0), be("a", usage=1.0), be("b"), cpus=100.0, cpu_usage=50.0)
    assert remembered(reading_, held(Level.HIGH, be_limit=22.5)).below_since is None


def test_without_a_limit_in_force_nothing_is_looked_ahead():
    assert with_batch(usage=22.5, limit=None, node=50.0, ls_usage=25.0).below_since == NOW


def test_the_matrix_is_looked_ahead_as_well():
    # LOW would give 75 instead of 53 cores: 49 + 3 + 22 percent is MEDIUM by the matrix; 20.8 + 3 + 11 points would be LOW.
    reading_ = snapshot(ls(usage=1.0, request=25.0), be(usage=48.0), cpus=100.0, cpu_usage=49.0)
    assert remembered(reading_, held(Level.MEDIUM, be_limit=53.0)).below_since is None
    # 4.9 more: 49 + 3 + 4.9.
    assert remembered(reading_, held(Level.MEDIUM, be_limit=70.1)).below_since == NOW


@pytest.mark.parametrize(("ls_usage", "possible"), [(18.7, True), (18.8, False)])
def test_half_a_point_is_looked_ahead_for_each_percent_of_the_node(ls_usage, possible):
    # Batch would have 30 cores more: 0.4 x (18.7 + 30) + 18.7 / 25 x 30 + 3 + 50 x 0.3 = 59.92 points; of 18.8 cores 60.08: HIGH.
    state = with_batch(usage=30.0, limit=30.0, node=ls_usage + 30.0, ls_usage=ls_usage)
    assert (state.below_since is not None) is possible


@pytest.mark.parametrize(
    ("node", "limit", "possible"),
    [
        (41.0, 59.1, True),  # 41 + 3 + 75 - 59.1 = 59.9 percent
        (41.0, 58.9, False),  # 60.1
        (56.9, 80.0, True),  # 59.9: a lower level that gives no more adds nothing
    ],
)
def test_each_core_that_batch_would_have_more_is_looked_ahead_in_full(node, limit, possible):
    reading_ = snapshot(ls(usage=1.0, request=25.0), be("a", usage=40.0), be("b"), cpus=100.0, cpu_usage=node)
    assert (remembered(reading_, held(Level.MEDIUM, be_limit=limit)).below_since is not None) is possible


def test_one_high_sample_over_a_low_median_neither_raises_nor_lowers():
    past = tuple(Moment(time=NOW - age, cpu_score=5, cpu_percent=5) for age in (2, 1))
    state = held(Level.MEDIUM, recent=past)
    after = remembered(snapshot(ls(usage=50.0, request=25.0), cpus=100.0, cpu_usage=5.0), state)  # 62: HIGH
    assert (after.suppress_level, after.suppress_since) == (Level.MEDIUM, NOW - 10)


def test_with_cpu_suppress_off_the_level_is_the_raw_one_and_not_remembered():
    settings = Settings(cpu_suppress=CpuSuppressSettings(mode=Mode.OFF))
    state = held(Level.CRITICAL)
    assert effective(reading(5), state, settings) is Level.LOW
    assert remembered(reading(5), state, settings).suppress_level is None


def test_a_fall_that_began_counts_as_long_enough_without_a_time():
    assert effective(reading(5, time=None), held(Level.HIGH, below_for=0)) is Level.MEDIUM
    assert effective(reading(5, time=None), held(Level.HIGH)) is Level.HIGH


def test_the_way_down_takes_the_hold_for_each_level():
    results = run([reading(5)] * 14, held(Level.CRITICAL))
    levels = [assessment.effective_level for _, assessment, _ in results]
    # Possible at once, counted from the next cycle after each fall: falls at 3, 7 and 11 s.
    assert [levels.index(level) for level in (Level.HIGH, Level.MEDIUM, Level.LOW)] == [3, 7, 11]


def test_a_gap_is_a_break_of_what_must_last():
    state = replace(held(Level.HIGH, below_for=7200), time=NOW - 7200)
    assert effective(reading(5), state) is Level.HIGH
    assert remembered(reading(5), state).below_since == NOW


def test_a_clock_that_went_back_is_a_break_too():
    state = replace(held(Level.HIGH, below_for=-300), time=NOW + 300)
    assert effective(reading(5), state) is Level.HIGH
