import pytest

from builders import GIB, judged, ls, snapshot
from qosmanager.model.assessment import MatrixInputs
from qosmanager.model.qos import Level, MatrixAction


def matrix(percent, *pods, available=50, trend=None):
    reading = snapshot(*pods, cpus=100.0, cpu_usage=percent, memory_total=100 * GIB, memory_available=available * GIB, cpu_trend=trend)
    found = judged(reading).matrix
    return found.priority, found.action


RISING = ls(usage=1.0, p99=0.09, slo=0.1, trend=6.0)
CALM = ls(usage=1.0, p99=0.09, slo=0.1, trend=5.0)


@pytest.mark.parametrize(
    ("percent", "available", "pod", "expected"),
    [
        (80.1, 14, RISING, MatrixAction.EVICT_BE_IMMEDIATELY),
        (80.0, 14, RISING, MatrixAction.THROTTLE_BE_MODERATE),
        (80.1, 15, RISING, MatrixAction.THROTTLE_BE_MODERATE),
        (80.1, 14, CALM, MatrixAction.THROTTLE_BE_MODERATE),
    ],
)
def test_eviction_at_once_needs_cpu_memory_and_latency(percent, available, pod, expected):
    assert matrix(percent, pod, available=available)[1] is expected


@pytest.mark.parametrize(
    ("percent", "trend", "expected"),
    [
        (70.1, 5.1, (Level.HIGH, MatrixAction.THROTTLE_BE_AGGRESSIVE)),
        (70.0, 5.1, (Level.MEDIUM, MatrixAction.THROTTLE_BE_MODERATE)),
        (70.1, 5.0, (Level.MEDIUM, MatrixAction.THROTTLE_BE_MODERATE)),
        (60.1, None, (Level.MEDIUM, MatrixAction.THROTTLE_BE_MODERATE)),
        (60.0, 9.0, (Level.LOW, MatrixAction.RELAX_BE_LIMIT)),
    ],
)
def test_rows_below_match_in_order(percent, trend, expected):
    assert matrix(percent, trend=trend) == expected


def test_the_matrix_shows_what_it_was_matched_with():
    reading = snapshot(RISING, cpus=100.0, cpu_usage=50.0, memory_total=100 * GIB, memory_available=14 * GIB, cpu_trend=3.0)
    assert judged(reading).matrix.inputs == MatrixInputs(cpu_percent=50.0, memory_percent=86.0, cpu_trend=3.0, latency_rising=True)
    unknown = MatrixInputs(cpu_percent=0.0, memory_percent=0.0, cpu_trend=0.0, latency_rising=False)
    assert judged(snapshot(cpu_usage=None)).matrix.inputs == unknown


def test_memory_that_is_not_measured_evicts_nobody_at_once():
    assert judged(snapshot(RISING, cpu_usage=16.0)).matrix.action is MatrixAction.THROTTLE_BE_MODERATE


def test_the_raw_level_is_the_higher_of_score_and_matrix():
    # 65 percent gives a score of 26 (LOW), the matrix says MEDIUM.
    assessment = judged(snapshot(cpus=100.0, cpu_usage=65.0))
    assert (assessment.cpu.level, assessment.raw_level) == (Level.LOW, Level.MEDIUM)
