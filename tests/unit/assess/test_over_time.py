"""Means and medians: what of the past a judgement looks back at."""

import pytest
from msgspec.structs import replace

from builders import NOW, be, judged, ls, remembered, run, snapshot
from qosmanager.assess.recollection import means, median, weights
from qosmanager.config.settings import Settings, Smoothing
from qosmanager.model.qos import Level
from qosmanager.model.state import Bucket, Burst, Moment, State


def reading(percent, **more):
    return snapshot(cpus=100.0, cpu_usage=percent, **more)


def levels(*percents):
    return [assessment.steady_level for _, assessment, _ in run([reading(percent) for percent in percents])]


def test_one_noisy_sample_raises_nothing_below_critical():
    # 65 percent is MEDIUM by the matrix; the median of the last three samples is what counts.
    assert levels(50, 50, 65, 50, 50) == [Level.LOW] * 5


def test_two_of_three_samples_raise():
    assert levels(50, 50, 65, 65, 50) == [Level.LOW, Level.LOW, Level.LOW, Level.MEDIUM, Level.MEDIUM]


def test_a_single_value_is_its_own_median_whatever_it_weighs():
    assert median([(0.0, 5.0)]) == 5.0


def test_the_median_looks_back_three_seconds():
    past = (Moment(time=NOW - 3, cpu_score=99, cpu_percent=99), Moment(time=NOW - 2.5, cpu_score=20, cpu_percent=50))
    # The oldest is out; the median of 50 and 65 percent is 57.5.
    assert judged(reading(65), State(recent=past, time=NOW - 1)).steady_level is Level.LOW


def test_critical_is_not_waited_for():
    pods = (ls(usage=60.0, request=25.0),)  # 60 points of ls_ratio
    results = run([snapshot(cpus=100.0, cpu_usage=10.0), snapshot(*pods, cpus=100.0, cpu_usage=60.0)])
    assert results[1][1].cpu.score == pytest.approx(84)
    assert results[1][1].steady_level is Level.CRITICAL


def test_a_median_of_the_past_never_raises_to_critical():
    past = tuple(Moment(time=NOW - age, cpu_score=95, cpu_percent=95) for age in (2, 1))
    assert judged(reading(10), State(recent=past, time=NOW - 1)).steady_level is Level.HIGH


def test_readings_are_remembered_for_five_seconds():
    state = run([reading(10) for _ in range(8)])[-1][0]
    assert [moment.time for moment in state.recent] == [NOW + 3, NOW + 4, NOW + 5, NOW + 6, NOW + 7]


def test_moments_ahead_of_a_clock_that_went_back_are_forgotten():
    state = State(recent=(Moment(time=NOW + 50, cpu_score=99, cpu_percent=99),), time=NOW + 50)
    assert [moment.time for moment in remembered(reading(10), state).recent] == [NOW]


def test_without_a_time_there_is_no_past():
    state = State(recent=(Moment(time=0.0, cpu_score=99, cpu_percent=99),))
    assert judged(reading(10, time=None), state).steady_level is Level.LOW
    assert remembered(reading(10, time=None), state).recent == (Moment(time=0.0, cpu_score=4.0, cpu_percent=10.0, system_usage=10.0),)


def test_cycles_of_a_tenth_of_a_second_are_remembered_each():
    state = State(time=NOW - 0.1, recent=tuple(Moment(time=NOW - age, cpu_score=0, cpu_percent=0) for age in (4.9, 0.1, 0.0)))
    assert len(remembered(reading(10), state).recent) == 4


def smoothed(*percents, window=60.0):
    return run([reading(percent) for percent in percents], settings=Settings(smoothing=Smoothing(window=window)))


def test_smoothing_holds_the_mean_of_the_window():
    # Scores 40, 20, 0: the mean is 20.
    assert smoothed(100, 50, 0)[-1][1].cpu.mean == pytest.approx(20)


def test_what_is_older_than_the_window_is_out_of_the_mean():
    assert smoothed(100, 50, 0, 0, window=3.0)[-1][1].cpu.mean == pytest.approx(20 / 3)


def test_smoothing_keeps_a_window_of_an_hour_in_sixty_slices():
    state = smoothed(*[50] * 300, window=3600.0)[-1][0]
    assert len(state.smoothing) == 5
    assert sum(bucket.count for bucket in state.smoothing) == 300


def test_a_slice_ends_with_its_length():
    # A minute in sixty slices of a second: each second begins one.
    state = smoothed(50, 25, 0, window=60.0)[-1][0]
    assert [(bucket.start, bucket.count, bucket.cpu) for bucket in state.smoothing] == [
        (NOW, 1, 20.0),
        (NOW + 1, 1, 10.0),
        (NOW + 2, 1, 0.0),
    ]
    state = smoothed(50, 25, 0, window=120.0)[-1][0]
    assert [(bucket.start, bucket.count, bucket.cpu) for bucket in state.smoothing] == [(NOW, 2, 30.0), (NOW + 2, 1, 0.0)]


@pytest.mark.parametrize("age", [0.0, 0.5, 0.99])
def test_cycles_of_less_than_a_second_share_a_slice(age):
    state = State(time=NOW - 0.1, smoothing=(Bucket(start=NOW - age, count=2, cpu=70.0, memory=9.0),))
    after = remembered(reading(50), state, Settings(smoothing=Smoothing(window=60.0)))
    assert after.smoothing == (Bucket(start=NOW - age, count=3, cpu=90.0, memory=9.0),)


def test_switched_off_smoothing_forgets():
    state = State(time=NOW - 1, smoothing=(Bucket(start=NOW - 9, count=2, cpu=70.0, memory=9.0),))
    assert remembered(reading(50), state).smoothing == ()
    assert remembered(reading(50), State(time=NOW - 1)).smoothing == ()


def test_what_is_remembered_of_a_raised_pod_is_its_demand_within_the_raised_limit():
    burst = Burst(pod="shop/api", base_limit=2.0, limit=3.0, started=NOW - 1)
    waiting = snapshot(ls(limit=2.0, usage=1.9, wait=5.0), cpu_usage=2.0)
    assert remembered(waiting, State(bursts=(burst,))).recent[-1].demand == {"shop/api": 3.0}
    assert remembered(waiting, State(bursts=(replace(burst, observed=True),))).recent[-1].demand == {"shop/api": 2.0}


def test_the_memory_score_is_smoothed_as_well():
    # 80 percent in use give 35 points, 40 give 17.5.
    full, half = (snapshot(cpu_usage=0.0, memory_total=100, memory_available=left) for left in (20, 60))
    results = run([full, half], settings=Settings(smoothing=Smoothing(window=3600.0)))
    assert results[-1][1].memory.mean == pytest.approx(26.25)
    assert results[-1][1].cpu.mean == 0


def test_a_window_of_a_second_holds_the_present():
    assert smoothed(100, 50, window=1.0)[-1][1].cpu.mean == pytest.approx(20)


def test_suppression_looks_at_the_larger_of_score_and_mean():
    busy = snapshot(ls(usage=60.0, request=25.0), cpus=100.0, cpu_usage=60.0)  # 84
    calm = reading(10)  # 4
    settings = Settings(smoothing=Smoothing(window=300.0))
    last = run([busy, busy, calm], settings=settings)[-1][1]
    assert last.cpu.score == pytest.approx(4)
    assert last.cpu.mean == pytest.approx((84 + 84 + 4) / 3)
    assert last.raw_level is Level.MEDIUM  # of 57.3


def test_without_smoothing_there_is_no_mean():
    assert judged(reading(10)).cpu.mean is None


def test_one_snapshot_without_time_is_its_own_mean():
    assessment = judged(reading(50, time=None), settings=Settings(smoothing=Smoothing(window=300.0)))
    assert assessment.cpu.mean is None
    assert assessment.raw_level is Level.LOW


def system_usage(*readings, state=None):
    return run(readings, state)[-1][0].system_usage


def test_system_usage_is_the_five_second_mean():
    readings = [snapshot(be(usage=1.0), cpu_usage=usage) for usage in (9.0, 2.0, 3.0, 2.0, 3.0, 2.5)]
    # 1, 2, 1, 2, 1.5: the first, 8, is 5 s old.
    assert system_usage(*readings) == pytest.approx(1.5)


def test_system_usage_is_not_negative():
    assert system_usage(snapshot(be(usage=3.0), cpu_usage=2.0)) == 0


def test_a_pod_that_is_not_measured_keeps_the_last_system_usage():
    known = snapshot(be(usage=1.0), cpu_usage=3.0)
    blind = snapshot(be(usage=1.0), ls(), cpu_usage=9.0)
    assert system_usage(known, blind, blind) == pytest.approx(2)


def test_the_mean_that_is_kept_does_not_drift_while_it_is_kept():
    known = [snapshot(be(usage=1.0), cpu_usage=usage) for usage in (3.0, 5.0)]
    blind = snapshot(be(usage=1.0), ls(), cpu_usage=9.0)
    # 2 and 4; in the last cycle the first is out of the window.
    assert [state.system_usage for state, _, _ in run([*known, *[blind] * 5])[1:]] == [pytest.approx(3)] * 6


def test_a_reading_that_cannot_be_decided_on_is_not_remembered():
    old = replace(reading(99), node_age=4.0)
    state = run([reading(10), old])[-1][0]
    assert [moment.time for moment in state.recent] == [NOW]


@pytest.mark.parametrize(("node_age", "expected"), [(0.5, 5.0), (0.51, 2.0)])
def test_a_held_node_sample_beside_fresh_pods_tells_no_system_usage(node_age, expected):
    # Measured together: 9 - 4 = 5. Of two moments: the pods' usage has fallen since, and what is left would be theirs, not the system's.
    state = State(system_usage=2.0, time=NOW - 1)
    now = snapshot(ls(usage=4.0), cpus=16.0, cpu_usage=9.0, memory_available=7, node_age=node_age)
    after = remembered(now, state)
    assert (after.system_usage, after.recent[-1].memory_available) == (expected, 7 if expected == 5.0 else None)


def early(*times_and_percents):
    return tuple(
        Moment(time=NOW + time, cpu_score=percent, cpu_percent=percent, system_usage=percent) for time, percent in times_and_percents
    )


def test_many_cycles_in_one_second_weigh_as_much_as_that_second():
    # Two calm seconds, then half a second in which five cycles saw 65 percent: more than half of the samples, a fifth of the time.
    past = early((-2.5, 20), (-1.5, 20), (-0.5, 20), (-0.4, 65), (-0.3, 65), (-0.2, 65), (-0.1, 65))
    assert judged(reading(65), State(recent=past, time=NOW - 0.1)).steady_level is Level.LOW
    # Of 2.6 s, 1.6 at 65 percent are more than half.
    past = early((-1.6, 20), (-0.6, 65), (-0.3, 65))
    assert judged(reading(65), State(recent=past, time=NOW - 0.3)).steady_level is Level.MEDIUM


def test_weights_are_the_time_since_the_cycle_before_and_a_late_cycle_is_one_cycle():
    assert weights(early((0, 1), (1, 1), (1.1, 1), (1.5, 1), (4.5, 1)), 1.0) == [1.0, 1.0, pytest.approx(0.1), pytest.approx(0.4), 1.0]
    assert weights(early((0, 1), (0.5, 1)), 2.0) == [1.0, 0.25]
    assert weights((), 1.0) == []


def test_a_median_between_two_halves_is_their_mean():
    assert median([(1.0, 4.0), (1.0, 2.0)]) == 3.0
    assert median([(1.0, 4.0), (1.0, 2.0), (0.1, 3.0)]) == 3.0
    assert median([(0.2, 9.0), (0.2, 8.0), (1.0, 1.0)]) == 1.0
    assert median([(1.0, 7.0)]) == 7.0


def test_the_mean_of_the_system_is_one_over_time():
    past = early((-2.0, 1.0), (-1.0, 1.0), (-0.8, 3.0))
    # Two seconds at 1 core, 0.2 s at 3; the last cycle, after more than half a period, is a whole one.
    state = remembered(reading(4.0), State(recent=past, time=NOW - 0.8))
    assert state.system_usage == pytest.approx((1 + 1 + 0.2 * 3 + 4) / 3.2)


def test_the_smoothing_window_counts_a_cycle_that_came_early_for_less():
    settings = Settings(smoothing=Smoothing(window=300.0))
    state = remembered(reading(10.0, time=NOW), None, settings)
    state = remembered(reading(90.0, time=NOW + 0.1), state, settings)
    assert means(state)[0] == pytest.approx((1.0 * 4.0 + 0.1 * 36.0) / 1.1)
