import pytest

from builders import be, judged, ls, snapshot
from qosmanager.model.qos import QoS, Slo


def signal(*pods):
    return judged(snapshot(*pods, cpu_usage=1.0)).slo


def rises(**latency):
    return bool(judged(snapshot(ls(**latency), cpu_usage=1.0)).latency_rising)


def test_one_pod_above_its_slo_is_a_violation():
    assert signal(ls("a", p99=0.05, slo=0.1), ls("b", QoS.LSE, p99=0.11, slo=0.1)) is Slo.VIOLATED


def test_a_pod_at_its_slo_is_inside_it():
    assert signal(ls(p99=0.1, slo=0.1)) is Slo.OK


@pytest.mark.parametrize("latency", [{"p99": 0.3}, {"slo": 0.1}, {}])
def test_half_a_reading_is_no_signal(latency):
    assert signal(ls(**latency)) is Slo.UNKNOWN


def test_latency_of_batch_does_not_count():
    assert signal(be(p99=1.0, slo=0.1)) is Slo.UNKNOWN


def test_one_known_pod_among_unknown_ones_is_ok():
    assert signal(ls("a"), ls("b", p99=0.01, slo=0.1)) is Slo.OK


@pytest.mark.parametrize(
    ("p99", "trend", "median", "expected"),
    [
        (0.081, 5.1, None, True),
        (0.080, 5.1, None, False),
        (0.081, 5.0, None, False),
        (0.101, None, 0.08, True),
        (0.101, None, 0.085, False),  # 1.2 x 0.085 = 0.102
        (0.100, None, 0.05, False),
        (0.5, None, None, False),
    ],
)
def test_latency_rises_near_the_slo_or_out_of_its_habit(p99, trend, median, expected):
    assert rises(p99=p99, slo=0.1, trend=trend, median=median) is expected


def test_the_pods_are_named():
    pods = (ls("a", p99=0.2, slo=0.1, median=0.1), ls("b", p99=0.2, slo=0.1), ls("c", p99=0.09, slo=0.1, trend=6.0), ls("d"))
    assessment = judged(snapshot(*pods, cpu_usage=1.0))
    assert assessment.slo_violated_by == ("shop/a", "shop/b")
    assert assessment.latency_rising == ("shop/a", "shop/c")


def test_latency_without_an_slo_does_not_rise():
    assert not rises(p99=9.0, trend=50.0, median=0.1)
