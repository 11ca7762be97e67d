"""The forecast over days: batch is small when the peak comes, and as ever once the days are others (make soak-scenarios; a minute)."""

from __future__ import annotations

import pytest

from qosmanager.config.settings import CpuSuppressSettings, ForecastSettings, Settings, Strategy
from qosmanager.model.qos import Mode
from qosmanager.simulate.run import managed
from simulated import scenario

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

HOUR = 3600
DAY = 24 * HOUR
# A peak of 4 cores from nine to noon, else 1, four days long; then the peak is at night.
DAYS = ", ".join(
    f"{{at: {day * DAY + hour * HOUR}s, value: {value}}}"
    for day, hours in enumerate([((9, 4), (12, 1))] * 4 + [((0, 4), (6, 1))] * 2)
    for hour, value in hours
)
API = f"name: api, qos: LS, requests: {{cpu: 1}}, cpu: {{steps: [{{at: 0s, value: 1}}, {DAYS}]}}"
BATCH = "name: etl, qos: BE, count: 6, cpu: {constant: 1}"
NODE = "{cpus: 8, memory: 16Gi, system_cpu: 0, system_memory: 0}"


def days(mode):
    """BE's limit and what is foretold, by second since the beginning; a cycle each minute."""
    suppress = CpuSuppressSettings(strategy=Strategy.USAGE, target_utilization=1.0)
    settings = Settings(sync_period=60.0, cpu_suppress=suppress, forecast=ForecastSettings(mode=mode))
    found = {}
    for cycle in managed(scenario(API, BATCH, node=NODE, duration=f"{6 * DAY}s"), settings, 1):
        foretold = cycle.record.snapshot.forecasts
        found[round(cycle.truth.time)] = (cycle.record.state.be_limit, foretold[0].cores if foretold else None)
    return found


@pytest.fixture(scope="module")
def enforced():
    return days(Mode.ENFORCE)


def test_batch_has_made_room_before_the_peak_of_a_known_day(enforced):
    before_nine = 3 * DAY + 9 * HOUR - 60
    limit, foretold = enforced[before_nine]
    assert foretold == pytest.approx(4.0, rel=0.1)
    assert limit == pytest.approx(8 - 4, rel=0.1)
    # On the first day nobody knew.
    assert enforced[9 * HOUR - 60][0] == pytest.approx(8 - 1, rel=0.1)


def test_it_takes_no_more_than_a_quarter_of_an_hour_and_ten_minutes_from_batch(enforced):
    assert enforced[3 * DAY + 8 * HOUR + 45 * 60][0] == pytest.approx(8 - 1, rel=0.1)
    assert enforced[3 * DAY + 12 * HOUR + 20 * 60][0] == pytest.approx(8 - 1, rel=0.1)


def test_it_ends_when_the_days_are_others(enforced):
    # The fifth day is wrong for six hours in the night.
    assert enforced[4 * DAY + 8 * HOUR][1] is None
    assert enforced[4 * DAY + 9 * HOUR - 60][0] == pytest.approx(8 - 1, rel=0.1)


def test_observed_it_is_told_and_takes_nothing():
    found = days(Mode.OBSERVE)
    limit, foretold = found[3 * DAY + 9 * HOUR - 60]
    assert foretold == pytest.approx(4.0, rel=0.1)
    assert limit == pytest.approx(8 - 1, rel=0.1)
