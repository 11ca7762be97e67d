"""Latency out of a queue: quantiles of requests that waited for different times."""

from math import log

import pytest

from qosmanager.simulate.latency import SLICE, Second, alone, quantile


def test_a_service_time_by_itself_is_exponential():
    assert alone(0.01, 0.5) == pytest.approx(0.01 * log(2))
    assert alone(0.01, 0.99) == pytest.approx(0.01 * log(100))


def second(*waits, late=0.0, at_once=0.0):
    made = Second()
    made.waits += waits
    made.late = late
    made.at_once = at_once
    return made


def test_requests_that_all_wait_equally_are_that_much_later():
    points = second((0.5, 100.0)).points(0.01, 0.0, 10.0)
    assert quantile(points, 0.5) == pytest.approx(0.5 + 0.01 * log(2), rel=0.01)
    assert quantile(points, 0.99) == pytest.approx(0.5 + 0.01 * log(100), rel=0.01)


def test_the_slow_two_percent_are_the_99th_percentile():
    # 98 of 100 at once, 2 wait a second: the p99 lies in the middle of those two.
    points = second((1.0, 2.0), at_once=98.0).points(0.001, 0.0, 10.0)
    assert quantile(points, 0.99) == pytest.approx(1.0007, abs=0.001)
    assert quantile(points, 0.5) < 0.001


def test_slowness_from_elsewhere_comes_on_top_and_a_timeout_ends_all():
    assert quantile(second(at_once=10.0).points(0.01, 0.3, 10.0), 0.5) == pytest.approx(0.3 + 0.01 * log(2), rel=0.02)
    assert quantile(second((9.0, 10.0)).points(0.01, 0.0, 5.0), 0.5) == 5.0


def test_a_share_of_late_requests_waits_for_a_time_slice():
    # One in ten waits 9 ms on average, exponentially: of those a tenth, 21 ms, is the p99 where the work itself is nothing.
    points = second(at_once=10.0, late=0.1).points(1e-9, 0.0, 10.0)
    assert quantile(points, 0.85) < 0.001
    assert quantile(points, 0.99) == pytest.approx(SLICE * log(10), rel=0.2)
