import json

import msgspec
import pytest

from builders import be, ls
from qosmanager.collect.foresight import Foresight

DAY = 86400
MIDNIGHT = 20_000.0 * DAY


class Shelf:
    def __init__(self, kept: bytes | None = None) -> None:
        self.kept = kept
        self.broken = False

    def load(self) -> bytes | None:
        return self.kept

    def store(self, data: bytes) -> None:
        if self.broken:
            raise OSError(28, "No space left on device")
        self.kept = data


def peak(seconds):
    """3 cores from nine to ten, else 1."""
    return 3.0 if 9 <= seconds % DAY / 3600 < 10 else 1.0


def live(foresight, begin, end, wanted=peak):
    """Look once a minute from one moment to another, in seconds since midnight of the first day; return what is foretold at last."""
    found = ()
    for seconds in range(begin, end, 60):
        found = foresight.look(float(seconds), MIDNIGHT + seconds, [ls("api", usage=wanted(seconds)), be("etl", usage=5.0)])
    return found[0]


def test_after_two_days_a_peak_is_foretold_ten_minutes_before_it():
    foresight = Foresight(None)
    assert live(foresight, 0, 2 * DAY).why_none == "what was foretold is not judged yet"
    before = live(foresight, 2 * DAY, 2 * DAY + 8 * 3600 + 49 * 60)
    assert (before.service, before.pods, before.cores, before.error) == ("shop/api", ("shop/api",), 1.0, 0.0)
    assert live(foresight, 2 * DAY + 8 * 3600 + 49 * 60, 2 * DAY + 8 * 3600 + 52 * 60).cores == 3.0


def test_a_clock_that_was_far_ahead_takes_nothing_away_when_it_is_set_back():
    shelf = Shelf()
    foresight = Foresight(shelf)
    live(foresight, 0, 2 * DAY)
    learned = json.loads(shelf.kept)
    # A month ahead for some minutes, and back again: no whole quarter of an hour was seen there.
    for seconds in (2 * DAY, 32 * DAY + 60, 32 * DAY + 120, 2 * DAY + 180, 2 * DAY + 1080):
        foresight.look(float(seconds), MIDNIGHT + seconds, [ls("api", usage=1.0)])
    assert json.loads(shelf.kept).keys() == learned.keys() == {"shop/api"}


def test_on_the_first_days_nothing_is_foretold():
    assert live(Foresight(None), 0, DAY).cores is None


def test_a_changed_pattern_ends_it():
    foresight = Foresight(None)
    live(foresight, 0, 3 * DAY)
    # 2 cores all day instead of 1: wrong by all of it.
    found = live(foresight, 3 * DAY, 3 * DAY + 4 * 3600, lambda _: 2.0)
    assert found.cores is None
    assert found.why_none.startswith("what was foretold is wrong by ")


def test_one_odd_minute_is_no_peak():
    def odd(seconds):
        return 6.0 if seconds % DAY == 3 * 3600 else 1.0

    foresight = Foresight(None)
    live(foresight, 0, 2 * DAY, odd)
    assert live(foresight, 2 * DAY, 2 * DAY + 3 * 3600, odd).cores == 1.0


def test_what_was_learned_is_there_for_the_next_start():
    shelf = Shelf()
    live(Foresight(shelf), 0, 3 * DAY)
    assert live(Foresight(shelf), 3 * DAY, 3 * DAY + 9 * 3600).cores == 3.0
    assert len(shelf.kept) < 4096, "a service is some kilobytes"


def test_what_cannot_be_read_or_kept_is_said_and_nothing_else_happens():
    foresight = Foresight(Shelf(b"{damaged"))
    assert foresight.problem.startswith("what was learned for the forecast cannot be read, it begins anew: ")
    shelf = Shelf()
    shelf.broken = True
    foresight = Foresight(shelf)
    live(foresight, 0, 3600)
    assert foresight.problem == "what is learned for the forecast cannot be kept: [Errno 28] No space left on device"


def test_a_quarter_that_was_hardly_measured_teaches_nothing():
    foresight = Foresight(None)
    for day in range(3):
        # Nine minutes of each quarter.
        for seconds in range(day * DAY, (day + 1) * DAY, 60):
            if seconds % 900 < 540:
                found = foresight.look(float(seconds), MIDNIGHT + seconds, [ls("api", usage=1.0)])
    assert found[0].why_none == "fewer than 2 days are known of this time of day"


def test_what_is_not_measured_is_not_nothing():
    foresight = Foresight(None)
    # Two pods of one service, 1 core each; one of them is not measured in every third cycle.
    for seconds in range(0, 3 * DAY, 20):
        blind = seconds % 60 == 40
        pods = [ls("api-0", owner="StatefulSet", usage=1.0), ls("api-1", owner="StatefulSet", usage=None if blind else 1.0)]
        found = foresight.look(float(seconds), MIDNIGHT + seconds, pods)
    assert (found[0].service, found[0].pods, found[0].cores) == ("shop/api", ("shop/api-0", "shop/api-1"), 2.0)


def test_a_service_that_is_mostly_not_measured_teaches_nothing():
    foresight = Foresight(None)
    for seconds in range(0, 3 * DAY, 20):
        found = foresight.look(float(seconds), MIDNIGHT + seconds, [ls("api", usage=1.0 if seconds % 60 == 0 else None)])
    assert found[0].cores is None


@pytest.mark.parametrize("damage", [{"levels": [1.0]}, {"days": [2] * 95}, {"levels": [-1.0] * 96}, {"error": -1.0}])
def test_a_damaged_service_is_left_out_and_the_others_go_on(damage):
    shelf = Shelf()
    live(Foresight(shelf), 0, 3 * DAY)
    kept = msgspec.json.decode(shelf.kept)
    shelf.kept = msgspec.json.encode({**kept, "shop/db": {**kept["shop/api"], **damage}})
    foresight = Foresight(shelf)
    assert foresight.problem == "what was learned for the forecast is damaged for 1 of 2 services"
    pods = [ls("api", usage=1.0), ls("db", usage=1.0)]
    api, db = foresight.look(3.0 * DAY, MIDNIGHT + 3 * DAY + 9 * 3600, pods)
    assert (api.cores, db.cores) == (3.0, None)


WHOLE = {"levels": [1.0] * 96, "days": [3] * 96, "error": 0.1, "seen": 20_000}


@pytest.mark.parametrize(
    "damage",
    [
        {"levels": [1e300] * 96},
        {"days": [10**30] * 96},
        {"seen": 10**30},
        {"seen": -1},
        {"error": -0.1},
        {"levels": []},
        {"days": [-1] * 96},
    ],
)
def test_a_service_with_a_number_that_cannot_be_is_damaged_and_the_others_are_kept(damage):
    shelf = Shelf(json.dumps({"shop/api": WHOLE | damage, "shop/web": WHOLE | {"seen": int(MIDNIGHT // 900)}}).encode())
    foresight = Foresight(shelf)
    assert foresight.problem == "what was learned for the forecast is damaged for 1 of 2 services"
    live(foresight, 0, 3600)
    assert set(json.loads(shelf.kept)) == {"shop/api", "shop/web"}


@pytest.mark.parametrize("kept", [b"[" * 100_000, b'{"a": {"x": ' + b"[" * 100_000, b'{"\xff": {}}', b""])
def test_what_cannot_be_read_begins_anew(kept):
    assert "cannot be read, it begins anew" in Foresight(Shelf(kept)).problem
