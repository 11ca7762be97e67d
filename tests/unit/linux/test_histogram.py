from math import inf

import pytest

from qosmanager.linux.histogram import HistogramReader, added, quantile

TEXT = """# HELP rq Requests.
# TYPE rq histogram
rq_bucket{le="0.1",path="/a"} 10
rq_bucket{path="/b",le="0.1"} 5 1790000000000
rq_bucket{path="/odd \\"} le=\\"9\\"",le="0.5"} 30
rq_bucket{le="+Inf"} 40 # {trace="x"} 0.3
rq_bucket{le="+Inf",path="}"} 2.0
rq_bucket{le="oops"} 7
rq_bucket{path="/a"} 7
rq_bucket{le="0.5"} many
rq_bucket_bucket{le="0.1"} 1000
other_rq_bucket{le="0.1"} 1000
rq_count 42
"""


def test_buckets_are_summed_over_all_label_sets():
    assert HistogramReader("rq").read(TEXT) == {0.1: 15.0, 0.5: 30.0, inf: 42.0}


@pytest.mark.parametrize(
    "text", ["", "garbage", 'rq_bucket{le="0.1"} 10\n', "rq_bucket{le=0.1} 10\n", "\x00\xff" * 100, 'rq_bucket{a="x",\n' * 80_000]
)
def test_a_text_without_the_histogram_is_refused(text):
    with pytest.raises(ValueError, match="no such histogram"):
        HistogramReader("rq").read(text)


def test_a_histogram_of_nothing_but_inf_says_of_no_value_how_large_it_is():
    text = 'h_bucket{le="nan"} 5\nh_bucket{le="-1"} 5\nh_bucket{le="0"} 5\nh_bucket{le="0.1"} NaN\nh_bucket{le="+Inf"} 5\n'
    with pytest.raises(ValueError, match=r"^the histogram has no bucket below \+Inf$"):
        HistogramReader("h").read(text)


def test_a_bound_that_no_time_is_below_is_left_out():
    text = 'h_bucket{le="-1"} 200\nh_bucket{le="0"} 200\nh_bucket{le="0.1"} 200\nh_bucket{le="+Inf"} 200\n'
    counts = HistogramReader("h").read(text)
    assert counts == {0.1: 200.0, inf: 200.0}
    assert quantile(0.99, counts) == pytest.approx(0.099)


def test_a_name_is_taken_literally():
    with pytest.raises(ValueError, match="no such histogram"):
        HistogramReader("r.").read(TEXT)


def test_a_quantile_is_linear_inside_its_bucket():
    # 80 below 0.1 s, 100 below 0.5 s: rank 99 is 19/20 of the way from 0.1 to 0.5
    assert quantile(0.99, {0.1: 80.0, 0.5: 100.0, inf: 100.0}) == pytest.approx(0.1 + 0.4 * 19 / 20)
    assert quantile(0.5, {0.1: 80.0, 0.5: 100.0, inf: 100.0}) == pytest.approx(0.1 * 50 / 80)


def test_a_quantile_above_every_finite_bound_is_the_largest_of_them():
    assert quantile(0.99, {0.1: 50.0, 0.5: 60.0, inf: 100.0}) == 0.5


def test_no_observation_has_no_quantile():
    assert quantile(0.99, {0.1: 0.0, inf: 0.0}) is None


def test_a_dent_between_buckets_counts_as_flat():
    assert quantile(0.99, {0.1: 100.0, 0.5: 90.0, inf: 100.0}) == pytest.approx(0.099)


def test_what_was_added():
    assert added({0.1: 10.0, inf: 20.0}, {0.1: 15.0, inf: 40.0}) == {0.1: 5.0, inf: 20.0}


def test_a_reset_or_other_buckets_add_nothing():
    assert added({0.1: 10.0, inf: 20.0}, {0.1: 9.0, inf: 40.0}) is None
    assert added({0.1: 10.0, inf: 20.0}, {0.2: 10.0, inf: 20.0}) is None
