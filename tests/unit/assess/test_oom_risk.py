import pytest

from builders import GIB, NOW, judged, snapshot
from qosmanager.config.settings import MemoryEvictSettings, Settings
from qosmanager.model.state import State

MIB = 1 << 20


def risk(total=100 * GIB, state=None, settings=None, **node):
    return judged(snapshot(cpu_usage=0.0, memory_total=total, **node), state, settings).oom


@pytest.mark.parametrize(
    ("total", "available", "expected"),
    [
        (100 * GIB, 3 * GIB, False),  # 3 percent
        (100 * GIB, 3 * GIB - 1, True),
        (4 * GIB, 512 * MIB, False),  # at least 512 MiB
        (4 * GIB, 512 * MIB - 1, True),
        (1024 * GIB, 4 * GIB, False),  # at most 4 GiB
        (1024 * GIB, 4 * GIB - 1, True),
    ],
)
def test_the_floor_is_three_percent_within_bounds(total, available, expected):
    assert risk(total, memory_available=available).present is expected


@pytest.mark.parametrize(
    ("available", "seconds", "expected"),
    [(29, 59, True), (29, 60, False), (30, 30, False), (31, 10, False)],
)
def test_the_forecast_counts_only_below_thirty_percent(available, seconds, expected):
    found = risk(memory_available=available * GIB, memory_available_trend=-available * GIB / seconds)
    assert found.present is expected
    assert found.forecast == pytest.approx(seconds)


@pytest.mark.parametrize("trend", [None, 0.0, 1e9])
def test_memory_that_does_not_fall_has_no_forecast(trend):
    assert risk(memory_available=20 * GIB, memory_available_trend=trend).forecast is None


@pytest.mark.parametrize(("available", "stall", "expected"), [(19.9, 20.1, True), (20, 99, False), (19.9, 20, False), (19.9, None, False)])
def test_a_stall_counts_only_where_memory_is_short(available, stall, expected):
    assert risk(memory_available=int(available * GIB), memory_psi_full=stall).present is expected


def test_each_condition_tells_its_numbers():
    assert risk(memory_available=GIB).reasons == ("available 1.00 GiB is under the floor of 3.00 GiB",)
    assert risk(memory_available=15 * GIB, memory_available_trend=-float(GIB), memory_psi_full=50.0).reasons == (
        "available 15.00 GiB is gone in 15 s at the present rate",
        "tasks stall on memory 50 percent of the time with 15.0 percent left",
    )


def test_the_bound_of_a_stall_follows_min_available():
    settings = Settings(memory_evict=MemoryEvictSettings(min_available=0.05))
    assert not risk(settings=settings, memory_available=15 * GIB, memory_psi_full=50.0).present


@pytest.mark.parametrize(
    ("ended", "expected"), [(NOW, False), (NOW - 0.5, False), (NOW - 14.9, False), (NOW - 15, True), (None, True), (NOW + 0.5, True)]
)
def test_a_stall_average_says_nothing_for_15_seconds_after_a_victim_ended(ended, expected):
    assert risk(state=State(victim_ended=ended), memory_available=15 * GIB, memory_psi_full=50.0).present is expected


def test_a_victim_that_ended_does_not_hide_the_floor():
    assert risk(state=State(victim_ended=NOW - 1), memory_available=2 * GIB).present


def test_memory_that_is_not_measured_is_no_risk():
    assert not risk(memory_psi_full=90.0).present
    assert not judged(snapshot(cpu_usage=1.0, memory_available=1)).oom.present
