"""What is foretold is kept free, and nothing else is done with it (specification, sections 3 and 5.4)."""

import pytest
from msgspec.structs import replace

from builders import be, decided, ls, of_kind, snapshot
from qosmanager.config.settings import CpuSuppressSettings, ForecastSettings, Settings, Strategy
from qosmanager.model.actions import SetBeCpuLimit
from qosmanager.model.forecast import Forecast
from qosmanager.model.qos import Mode

USAGE = CpuSuppressSettings(strategy=Strategy.USAGE, target_utilization=1.0)


def limit(*forecasts, mode=Mode.ENFORCE, more=()):
    """16 CPUs, two services that use 2 and 1, batch that uses 1; strategy usage: 16 - 3 = 13 without a forecast."""
    reading = snapshot(ls("api", usage=2.0), ls("db", usage=1.0), be(usage=1.0), *more, cpu_usage=4.0)
    settings = Settings(cpu_suppress=USAGE, forecast=ForecastSettings(mode=mode))
    action = of_kind(decided(replace(reading, forecasts=forecasts), None, settings), SetBeCpuLimit)[0]
    return action.cores, action.reason


def test_batch_leaves_free_what_is_foretold_beyond_what_is_wanted_now():
    cores, reason = limit(Forecast("shop/api", ("shop/api",), cores=6.0, error=0.1))
    assert cores == pytest.approx(16 - 3 - 4)
    assert "beside LS demand and 4 more that is foretold" in reason


def test_the_pods_of_a_service_count_together():
    assert limit(Forecast("shop/all", ("shop/api", "shop/db"), cores=5.0))[0] == pytest.approx(16 - 3 - 2)


def test_what_little_a_service_uses_and_what_is_gone_are_no_more_than_they_are():
    # 0.5 foretold for one that uses nothing, and for one that is gone.
    assert limit(Forecast("shop/idle", ("shop/idle",), cores=0.5), more=(ls("idle", usage=0.0),))[0] == pytest.approx(16 - 3 - 0.5)
    assert limit(Forecast("shop/gone", ("shop/gone",), cores=0.5))[0] == pytest.approx(16 - 3 - 0.5)


def test_it_never_loosens():
    cores, reason = limit(Forecast("shop/api", ("shop/api",), cores=0.5))
    assert cores == pytest.approx(13.0)
    assert "foretold" not in reason


def test_nothing_foretold_changes_nothing():
    assert limit(Forecast("shop/api", ("shop/api",), why_none="not yet"))[0] == pytest.approx(13.0)


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.OFF])
def test_what_is_only_observed_changes_nothing(mode):
    assert limit(Forecast("shop/api", ("shop/api",), cores=6.0), mode=mode)[0] == pytest.approx(13.0)
