import pytest

from qosmanager.collect.rates import ThrottleWindow, rise


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
