"""When a leaking pod has used up what there is, and how sure that is."""

import pytest
from msgspec.structs import replace

from builders import GIB, MB, be, judged, snapshot


def leaking(name="etl", *, growth, before=0.0, rss=GIB, limit=None):
    pod = be(name, usage=1.0, rss=rss, growth=growth)
    return replace(pod, memory=replace(pod.memory, limit=limit, growth_before=before))


def found(*pods, available=6000 * MB):
    return judged(snapshot(*pods, cpu_usage=1.0, memory_total=64 * GIB, memory_available=available)).leaks


def test_a_pod_that_does_not_leak_is_none():
    assert found(leaking(growth=5 * MB), leaking("b", growth=0.0)) == ()


def test_what_the_node_has_lasts_as_long_as_at_the_present_rate():
    (leak,) = found(leaking(growth=10 * MB))
    assert (leak.pod, leak.growth, leak.own_limit) == ("batch/etl", 10 * MB, False)
    assert leak.seconds == pytest.approx(600 * 60)
    assert (leak.earliest, leak.latest, leak.confidence) == (None, None, None)


def test_its_own_limit_may_be_reached_first():
    (leak,) = found(leaking(growth=10 * MB, rss=900 * MB, limit=1000 * MB))
    assert leak.own_limit
    assert leak.seconds == pytest.approx(10 * 60)


def test_where_both_end_at_once_it_is_its_own_limit():
    (leak,) = found(leaking(growth=10 * MB, rss=4000 * MB, limit=10_000 * MB), available=6000 * MB)
    assert leak.own_limit


def test_several_leaks_share_what_the_node_has():
    first, second = found(leaking("a", growth=10 * MB), leaking("b", growth=20 * MB, rss=1900 * MB, limit=2000 * MB))
    assert (first.pod, first.seconds) == ("batch/b", pytest.approx(5 * 60))
    assert (second.pod, second.seconds) == ("batch/a", pytest.approx(200 * 60))


def test_two_unlike_rises_give_a_span_and_less_confidence():
    # 8 and then 12 MB/min: 10 on average; at 12 it takes 500 minutes, at 8 it takes 750.
    (leak,) = found(leaking(growth=10 * MB, before=8 * MB))
    assert (leak.earliest, leak.latest) == (pytest.approx(500 * 60), pytest.approx(750 * 60))
    assert leak.confidence == pytest.approx(2 / 3)


# 15 and then 7.5: half of it; 16 and then 7: less.
@pytest.mark.parametrize(("growth", "before", "warm"), [(11.25, 15, False), (11.5, 16, True)])
def test_a_rise_that_halves_is_a_pod_that_warms_up(growth, before, warm):
    (leak,) = found(leaking(growth=growth * MB, before=before * MB))
    assert leak.warming_up is warm
    assert (leak.seconds is None) is warm


def test_a_leak_with_a_time_comes_before_one_without():
    leaks = found(leaking("a", growth=11.5 * MB, before=16 * MB), leaking("b", growth=10 * MB))
    assert [(leak.pod, leak.seconds is None) for leak in leaks] == [("batch/b", False), ("batch/a", True)]


def test_where_memory_is_not_measured_no_time_is_told():
    (leak,) = found(leaking(growth=10 * MB), available=None)
    assert leak.seconds is None
