from math import isnan

import pytest

from qosmanager.collect.metric_cache import DailyPeaks, MetricCache, Minima, Minutes, Recent

HOUR = 3600
DAY = 24 * HOUR


def filled(points):
    recent = Recent()
    for time, value in points:
        recent.add(time, value)
    return recent


def test_points_in_order():
    times, values = filled([(1.2, 10.0), (2.3, 20.0), (3.1, 30.0)]).since(2.0)
    assert list(times) == [2.3, 3.1]
    assert list(values) == [20.0, 30.0]


def test_values_of_one_second_become_their_mean():
    times, values = filled([(1.0, 10.0), (1.2, 20.0), (1.7, 60.0), (2.0, 1.0)]).since(0.0)
    assert list(times) == pytest.approx([1.3, 2.0])
    assert list(values) == pytest.approx([30.0, 1.0])


def test_five_minutes_are_kept_and_no_more():
    recent = filled([(float(second), float(second)) for second in range(1000)])
    times, values = recent.since(0.0)
    assert list(times) == list(values) == [float(second) for second in range(700, 1000)]
    assert recent.size() == 2 * 300 * 8


def test_many_samples_a_second_keep_five_minutes_too():
    recent = filled([(tenth / 10, 1.0) for tenth in range(10_000)])
    times, _ = recent.since(0.0)
    assert len(times) == 300
    assert times[0] < 701


def test_a_gap_is_a_gap():
    times, _ = filled([(1.0, 1.0), (2.0, 1.0), (7202.0, 1.0)]).since(6902.0)
    assert list(times) == [7202.0]


def test_the_mean_since_a_time():
    recent = filled([(1.0, 100.0), (2.0, 1.0), (3.0, 3.0)])
    assert recent.mean(2.0) == 2.0
    assert recent.mean(4.0) is None


def test_a_minute_is_the_mean_of_its_values():
    minutes = Minutes()
    assert minutes.add(0.0, 1.0) is None
    assert minutes.add(59.0, 3.0) is None
    assert minutes.add(60.0, 9.0) == 2.0
    assert list(minutes.last(30)) == [2.0]


def test_minutes_without_values_are_gaps():
    minutes = Minutes()
    for time, value in ((0.0, 1.0), (180.0, 2.0), (240.0, 3.0)):
        minutes.add(time, value)
    first, *gap, last = minutes.last(30)
    assert (first, last) == (1.0, 2.0)
    assert len(gap) == 2
    assert all(isnan(value) for value in gap)


def test_a_day_of_minutes_is_kept():
    minutes = Minutes()
    for minute in range(3000):
        minutes.add(minute * 60.0, float(minute))
    assert list(minutes.last(2)) == [2997.0, 2998.0]
    assert list(minutes.last(10_000)) == [float(minute) for minute in range(1559, 2999)]
    assert minutes.size() <= (1440 + 61) * 4


def test_a_hole_of_a_month_does_not_grow_it():
    minutes = Minutes()
    minutes.add(0.0, 1.0)
    minutes.add(30.0 * DAY, 2.0)
    assert minutes.size() <= (1440 + 61) * 4


def test_the_smallest_of_each_minute():
    minima = Minima()
    for time, value in ((0.0, 5.0), (20.0, 3.0), (40.0, 4.0), (60.0, 9.0)):
        minima.add(time, value)
    assert list(minima.last(5)) == [3.0]


def test_peaks_of_this_hour_of_day_over_a_week():
    peaks = DailyPeaks()
    for day in range(9):
        for minute in range(10):
            # day 0 and 1 are more than a week ago on day 8
            peaks.add(day * DAY + 10 * HOUR + minute * 60, 100.0 - day if day < 2 else float(minute))
        peaks.add(day * DAY + 11 * HOUR, 50.0)
    # 7 days x (0 to 9): 70 values; the 67th smallest is the 95th percentile
    assert peaks.at(8 * DAY + 10 * HOUR + 1800) == (9.0, 9.0)
    assert peaks.at(8 * DAY + 11 * HOUR + 60) == (50.0, 50.0)
    assert peaks.at(8 * DAY + 12 * HOUR) is None


def test_the_percentile_is_that_of_the_nearest_rank():
    peaks = DailyPeaks()
    for minute in range(40):
        peaks.add(minute * 60.0, float(minute + 1))
    assert peaks.at(0.0) == (40.0, 38.0)


def test_an_hour_holds_sixty_minutes_however_often_the_clock_is_set_back():
    peaks = DailyPeaks()
    for _ in range(1000):
        peaks.add(10.0, 1.0)
    assert peaks.size() == 60 * 4


def test_the_history_of_a_pod_goes_with_it():
    cache = MetricCache()
    cache.pod("a/b").add_usage(1.0, 0.5)
    assert cache.size() == 16
    assert len(cache) == 1
    cache.drop("a/b")
    cache.drop("a/b")
    assert (len(cache), cache.size()) == (0, 0)


def test_a_hundred_pods_for_a_day_stay_small():
    cache = MetricCache()
    for number in range(3):
        history = cache.pod(f"a/{number}")
        for second in range(0, 2 * DAY, 20):
            history.add_usage(float(second), 1.0)
            history.rss.add(float(second), 1.0)
    assert cache.size() / 3 < 17_000


def test_the_largest_minute_of_a_day_is_over_complete_ones_and_gaps():
    minutes = Minutes()
    assert minutes.largest() is None
    minutes.add(0.0, 9.0)
    assert minutes.largest() is None
    minutes.add(60.0, 2.0)
    minutes.add(300.0, 50.0)
    assert minutes.largest() == 9.0
    minutes.add(24 * 3600.0 + 120.0, 1.0)
    assert minutes.largest() == 50.0
