import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qosmanager.assess.attribution import LEAST, attribute, likeness

# On for 30 s, off for 30 s, five times over: a moment each 10 s.
ON_OFF = [float(moment // 3 % 2) for moment in range(30)]
STEADY = [0.7] * 30
# Neither goes with the other: one rises at each third moment, the other at each fourth.
THIRDS = [float(moment % 3 == 0) for moment in range(30)]

values = st.one_of(st.none(), st.floats(0, 1e12, allow_nan=False))
series = st.lists(values, min_size=30, max_size=30)


def cpu(**pods):
    return {key: {"cpu": used} for key, used in pods.items()}


def test_what_changes_together_nine_times_is_all_but_sure():
    # 9 changes in 29 moments; the others are nearly 0. r = 1, so it is events / (events + 3).
    found = likeness(ON_OFF, [0.1 + 0.4 * value for value in ON_OFF])
    assert 0.7 < found < 0.85


def test_one_change_together_may_be_chance():
    step = [0.0] * 15 + [1.0] * 15
    assert LEAST <= likeness(step, step) < 0.35


def test_what_both_do_all_the_time_is_taken_off():
    # Changes of 1 and 2 about a mean of 1.5, six of eight alike: r is 0.5, and all eight count. 0.25 x 8 / 11.
    assert likeness([0, 1, 3, 4, 6, 7, 9, 10, 12], [0, 1, 3, 4, 6, 7, 9, 11, 12]) == 0.18


def test_a_pod_of_which_too_little_is_known_hides_no_other():
    young = [None] * (len(ON_OFF) - 3) + [1.0, 0.0, 1.0]
    found = attribute("shop/api", {"cpu": ON_OFF}, {"batch/young": {"cpu": young}, "batch/old": {"cpu": ON_OFF}})
    assert [each.pod for each in found.suspects] == ["batch/old"]


def test_what_goes_against_the_stall_or_never_changes_with_it_is_no_cause():
    assert likeness(ON_OFF, [1 - value for value in ON_OFF]) == 0.0
    # Changes of 1, 0, -1, 0 about a mean of 0, and of 0, 1, 0, -1: where one changes the other does not.
    assert likeness([0, 1, 1, 0] * 2 + [0], [0, 0, 1, 1] * 2 + [0]) == 0.0


def test_the_unit_does_not_matter():
    small, large = [1e-9 * value for value in ON_OFF], [1e9 * value for value in ON_OFF]
    assert likeness(small, small) == likeness(large, large) == likeness(ON_OFF, ON_OFF) is not None


def test_a_constant_says_nothing():
    assert likeness(STEADY, ON_OFF) is None
    assert likeness(ON_OFF, STEADY) is None
    assert likeness([0.0] * 30, ON_OFF) is None


def test_too_short_a_history_says_nothing():
    known = [None] * 23 + ON_OFF[:7]
    assert likeness(known, known) is None, "six changes"
    known = [None] * 22 + ON_OFF[:8]
    assert likeness(known, known) is not None


def test_a_moment_that_was_not_measured_is_no_change():
    gappy = [None if moment % 2 else value for moment, value in enumerate(ON_OFF)]
    assert likeness(gappy, ON_OFF) is None, "no two moments in succession"


def test_the_likeliest_comes_first_and_the_innocent_are_not_named():
    stall = [0.1 + 0.3 * value for value in ON_OFF]
    half = [value if moment < 15 else 0.0 for moment, value in enumerate(ON_OFF)]
    found = attribute("shop/api", {"cpu": stall}, cpu(etl=ON_OFF, half=half, thirds=THIRDS, steady=STEADY))
    assert found.pod == "shop/api"
    assert [suspect.pod for suspect in found.suspects] == ["etl", "half"]
    assert found.suspects[0].by == "cpu"
    assert found.why_none == ""


def test_each_kind_of_stall_is_compared_with_use_of_its_own_kind():
    uses = {"writer": {"cpu": STEADY, "io": [1e9 * value for value in ON_OFF]}, "burner": {"cpu": ON_OFF, "io": STEADY}}
    found = attribute("shop/api", {"cpu": STEADY, "io": ON_OFF}, uses)
    assert [(suspect.pod, suspect.by) for suspect in found.suspects] == [("writer", "io")]


def test_why_nobody_is_named():
    assert attribute("a", {"cpu": ON_OFF}, {}).why_none == "no BE pod runs here"
    assert attribute("a", {"cpu": ON_OFF}, cpu(thirds=THIRDS)).why_none == "no BE pod's use changes with its stall"
    assert attribute("a", {"cpu": ON_OFF}, cpu(young=[None] * 28 + [0.0, 1.0])).why_none.startswith("not enough history")


@given(series, st.dictionaries(st.sampled_from("abcdef"), series, max_size=4))
def test_the_order_of_pods_does_not_matter_and_every_confidence_is_a_number(stall, pods):
    found = attribute("shop/api", {"cpu": stall}, cpu(**pods))
    assert found == attribute("shop/api", {"cpu": stall}, cpu(**dict(reversed(pods.items()))))
    assert all(math.isfinite(suspect.confidence) and LEAST <= suspect.confidence <= 1 for suspect in found.suspects)
    assert bool(found.suspects) != bool(found.why_none)


@given(series, st.floats(0, 1e9))
def test_a_constant_series_gives_no_confidence(stall, value):
    assert likeness([value] * 30, stall) is None


# Nothing smaller, which another unit would make 0.
@given(st.lists(st.just(0.0) | st.floats(1e-6, 100), min_size=30, max_size=30), st.floats(0.001, 1e6))
def test_units_do_not_matter(used, unit):
    stall = [0.1 + 0.3 * value for value in ON_OFF]
    here, there = likeness(used, stall), likeness([value * unit for value in used], stall)
    assert (here is None) == (there is None)
    assert here == pytest.approx(there, abs=0.011)
