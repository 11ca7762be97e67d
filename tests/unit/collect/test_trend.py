from math import nan

import pytest

from qosmanager.collect.trend import leak_rates, slope

MB = 1_000_000


def leak_growth(minima, threshold):
    rates = leak_rates(minima, threshold)
    return 0.0 if rates is None else sum(rates) / 2


def line(count, start, per_second, spacing=1.0):
    times = [1000.0 + number * spacing for number in range(count)]
    return times, [start + per_second * (time - times[0]) for time in times]


def test_a_straight_rise_is_its_slope_per_minute():
    assert slope(*line(121, 10.0, 0.05)) == pytest.approx(3.0)


def test_a_fall_counts_as_none():
    assert slope(*line(121, 90.0, -0.5)) == 0.0


def test_nothing_before_sixty_seconds_of_history():
    assert slope(*line(60, 10.0, 1.0)) == 0.0
    assert slope(*line(61, 10.0, 1.0)) == pytest.approx(60.0)
    assert slope([0.0, 100.0], [0.0, 100.0]) == 0.0
    assert slope([], []) == 0.0


def test_twice_the_standard_error_is_taken_off():
    # Points (0,0) (30,3) (60,0) (90,3): means 45 and 1.5; Sxx 4500, Sxy 90, Syy 9; slope 0.02/s, residual 9 - 1.8 = 7.2,
    # variance 3.6, standard error sqrt(3.6 / 4500) = 0.028284: 0.02 - 2 x 0.028284 is below 0.
    assert slope([0.0, 30.0, 60.0, 90.0], [0.0, 3.0, 0.0, 3.0]) == 0.0
    # Points (0,0) (30,4) (60,5) (90,9): Sxy 420, Syy 41; slope 0.093333/s, residual 41 - 39.2 = 1.8, standard error
    # sqrt(0.9 / 4500) = 0.0141421: 0.093333 - 0.0282843 = 0.0650491/s.
    assert slope([0.0, 30.0, 60.0, 90.0], [0.0, 4.0, 5.0, 9.0]) == pytest.approx(3.902944, abs=1e-6)


def test_noise_around_a_level_is_no_trend():
    times = [float(number) for number in range(120)]
    assert slope(times, [50.0 + (number * 7919 % 13) for number in range(120)]) < 0.5


def windows(*lows):
    """Thirty minutes, of which each ten have one low among higher values."""
    return [value for low in lows for value in ([low + 50 * MB] * 4 + [low] + [low + 50 * MB] * 5)]


def test_a_leak_raises_the_minima_of_three_windows():
    # 5 MB/min threshold: each step must be above 40 MB. 100 -> 150 -> 200: 50 MB each; 100 MB over 20 minutes.
    assert leak_growth(windows(100 * MB, 150 * MB, 200 * MB), 5 * MB) == pytest.approx(5 * MB)


def test_a_step_must_be_above_four_fifths_of_the_threshold():
    assert leak_growth(windows(100 * MB, 140 * MB, 180 * MB), 5 * MB) == 0.0
    assert leak_growth(windows(100 * MB, 141 * MB, 182 * MB), 5 * MB) == pytest.approx(4.1 * MB)


def test_one_window_that_does_not_rise_is_no_leak():
    assert leak_growth(windows(100 * MB, 100 * MB, 300 * MB), 5 * MB) == 0.0
    assert leak_growth(windows(100 * MB, 300 * MB, 300 * MB), 5 * MB) == 0.0


def test_a_saw_tooth_heap_is_no_leak():
    heap = [(100 + 40 * (minute % 7)) * MB for minute in range(30)]
    assert leak_growth(heap, 5 * MB) == 0.0


def test_a_steady_rise_is_its_rate():
    assert leak_growth([(100 + 6 * minute) * MB for minute in range(30)], 5 * MB) == pytest.approx(6 * MB)


def test_less_than_thirty_minutes_is_no_leak():
    assert leak_growth([(100 + 6 * minute) * MB for minute in range(29)], 5 * MB) == 0.0
    assert leak_growth([], 5 * MB) == 0.0


def test_a_window_of_which_more_than_half_is_missing_says_nothing():
    rising = [(100 + 6 * minute) * MB for minute in range(30)]
    assert leak_growth(rising[:1] + [nan] * 5 + rising[6:], 5 * MB) == pytest.approx(6 * MB)
    assert leak_growth(rising[:1] + [nan] * 6 + rising[7:], 5 * MB) == 0.0


def test_only_the_last_thirty_minutes_count():
    assert leak_growth([1.0] * 60 + windows(100 * MB, 150 * MB, 200 * MB), 5 * MB) == pytest.approx(5 * MB)


def test_what_comes_back_after_a_restart_to_what_it_held_before_is_no_leak():
    coming_back = windows(10 * MB, 300 * MB, 500 * MB)
    assert leak_growth(windows(600 * MB, 600 * MB, 600 * MB) + coming_back, 5 * MB) == 0.0
    assert leak_growth(windows(400 * MB, 400 * MB, 400 * MB) + coming_back, 5 * MB) == pytest.approx(24.5 * MB)


def test_what_leaks_again_after_a_restart_is_a_leak():
    # It never held what it had grown to: each window was above the one before by more than 40 MB.
    assert leak_rates(windows(400 * MB, 500 * MB, 600 * MB) + windows(10 * MB, 110 * MB, 310 * MB), 5 * MB) == (10 * MB, 20 * MB)
