import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qosmanager.assess.time_of_day import MOST_ERROR, QUARTERS, Profile, service_of

NINE = 36  # the quarter that begins at 09:00


def days(profile, *cores, first=0):
    """One value a day for the quarter at nine."""
    for day, value in enumerate(cores, first):
        profile = profile.after(day * QUARTERS + NINE, value)
    return profile


def test_two_days_foretell_a_third():
    assert days(Profile(), 3.0).expected(NINE) is None
    known = days(Profile(), 3.0, 4.0)
    assert known.expected(5 * QUARTERS + NINE) == pytest.approx(3.5)
    assert known.expected(5 * QUARTERS + NINE + 1) is None, "another quarter of the day"


def test_each_quarter_of_the_day_is_its_own():
    known = Profile()
    for day in range(2):
        for away, cores in ((-1, 1.0), (0, 3.0), (1, 5.0)):
            known = known.after(day * QUARTERS + NINE + away, cores)
    assert [known.expected(NINE + away) for away in (-2, -1, 0, 1, 2)] == [None, 1.0, 3.0, 5.0, None]
    assert known.seen == QUARTERS + NINE + 1
    assert known.is_whole


def test_newer_days_count_for_more():
    # Three days count alike; from the fourth on the newest moves the level by 0.3.
    assert days(Profile(), 2.0, 2.0, 2.0, 3.0).expected(NINE) == pytest.approx(2.3)


def test_one_odd_day_says_twice_the_usual_at_most():
    assert days(Profile(), 2.0, 2.0, 2.0, 100.0).expected(NINE) == pytest.approx(2.0 + 0.3 * 2.0)
    assert days(Profile(), 2.0, 2.0, 2.0, 0.0).expected(NINE) == pytest.approx(2.0 - 0.3 * 1.0)


def test_the_error_is_that_of_what_was_foretold():
    known = days(Profile(), 2.0, 2.0)
    assert known.error is None
    assert not known.is_trusted, "nothing was foretold yet"
    known = days(known, 2.4, first=2)
    assert known.error == pytest.approx(0.2)
    assert known.is_trusted


def test_trust_ends_above_the_bound_and_comes_back():
    known = days(Profile(), 2.0, 2.0, 2.0)
    assert known.error == 0.0
    wrong = 0
    while known.is_trusted:
        # Half of what was foretold is always wrong by half; other quarters of the day, so that the level does not follow.
        known = msgspec.structs.replace(known, levels=(2.0,) * QUARTERS, days=(2,) * QUARTERS).after(1000 + wrong, 1.0)
        wrong += 1
    # 0.5 x (1 - (15/16)^n) > 0.3 from n = 15 on: less than four hours.
    assert wrong == 15
    assert known.error > MOST_ERROR
    right = 0
    while not known.is_trusted:
        known = msgspec.structs.replace(known, levels=(2.0,) * QUARTERS, days=(2,) * QUARTERS).after(2000 + right, 2.0)
        right += 1
    assert right <= 2


def test_it_survives_json():
    known = days(Profile(), 2.0, 3.0, 2.5)
    assert msgspec.json.decode(msgspec.json.encode(known), type=Profile) == known


@pytest.mark.parametrize(
    ("name", "owner", "service"),
    [
        ("cart-7d9f8b6c5d-x2x4z", "ReplicaSet", "shop/cart"),
        ("cart-7d9f8b6c5d-x2x4z", "Deployment", "shop/cart"),
        ("db-0", "StatefulSet", "shop/db"),
        ("logs-x2x4z", "DaemonSet", "shop/logs"),
        ("cart-7d9f8b6c5d-x2x4z", None, "shop/cart-7d9f8b6c5d-x2x4z"),
        ("api", "Deployment", "shop/api"),
    ],
)
def test_a_service_is_named_without_what_its_controller_appends(name, owner, service):
    assert service_of("shop", name, owner) == service


@given(st.lists(st.floats(0, 1e4), min_size=1, max_size=40))
def test_what_is_foretold_lies_between_what_was_seen_and_is_a_number(cores):
    known = days(Profile(), *cores)
    assert math.isfinite(known.levels[NINE])
    assert min(*cores, 0.0) <= known.levels[NINE] <= max(cores) + 1e-6
    assert known.error is None or (math.isfinite(known.error) and known.error >= 0)
