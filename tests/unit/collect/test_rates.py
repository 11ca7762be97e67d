import pytest

from qosmanager.collect.rates import ThrottleWindow, Trail, rise


def test_rises():
    assert rise(5, 3) == 2
    assert rise(3, 3) == 0
    assert rise(3, 5) is None
    assert rise(None, 5) is None
    assert rise(5, None) is None


def test_the_first_sample_is_no_window():
    window = ThrottleWindow()
    assert window.add(0.0, 100, 50, 15.0) is None
    assert window.add(1.0, 110, 53, 15.0) == pytest.approx(0.3)
    assert window.add(2.0, 120, 53, 15.0) == 0.0


def test_short_cycles_share_a_window_of_a_second():
    window = ThrottleWindow()
    ratios = [window.add(tenth / 10, tenth, tenth // 2, 15.0) for tenth in range(21)]
    assert ratios[:10] == [None] * 10
    assert ratios[10] == pytest.approx(0.5)
    assert ratios[20] == pytest.approx(0.5)


def test_a_group_that_had_no_period_was_not_throttled():
    window = ThrottleWindow()
    window.add(0.0, 100, 50, 15.0)
    assert window.add(1.0, 100, 50, 15.0) == 0.0


def test_a_reset_and_a_gap_begin_anew():
    window = ThrottleWindow()
    window.add(0.0, 100, 50, 15.0)
    assert window.add(1.0, 5, 5, 15.0) is None
    assert window.add(2.0, 15, 5, 15.0) == 0.0
    assert window.add(100.0, 900, 800, 15.0) is None
    assert window.add(101.0, 910, 801, 15.0) == pytest.approx(0.1)


def test_a_trail_begins_at_the_newest_reading_that_is_old_enough():
    trail = Trail()
    assert trail.begin(0.0, 0.5) is None
    for time, reading in ((0.0, "a"), (1.0, "b"), (1.3, "c"), (1.4, "d")):
        trail.add(time, reading)
    assert trail.begin(2.0, 0.5) == (1.4, "d")
    assert trail.begin(1.6, 0.5) == (1.0, "b")
    assert trail.begin(1.6, 0.0) == (1.4, "d")
    assert trail.newest == (1.4, "d")


def test_a_trail_that_is_too_young_begins_at_its_oldest_reading():
    trail = Trail()
    trail.add(0.0, "a")
    trail.add(0.1, "b")
    assert trail.begin(0.2, 0.5) == (0.0, "a")
    trail.clear()
    assert trail.newest is None


def test_a_trail_keeps_no_more_than_it_needs():
    trail = Trail()
    for tenth in range(100):
        trail.add(tenth / 10, tenth)
    assert trail.begin(10.4, 100.0) == (pytest.approx(9.4), 94), "the oldest that is kept"
