"""Every shipped scenario at its full length, with both strategies (make soak-scenarios; about half an hour)."""

import pytest

from qosmanager.config.settings import CpuSuppressSettings, Settings, Strategy
from qosmanager.simulate.load import load, shipped
from qosmanager.simulate.report import report
from qosmanager.simulate.run import managed, unmanaged
from qosmanager.simulate.scenario import Agent
from qosmanager.simulate.tally import Tally

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("strategy", list(Strategy), ids=[strategy.value for strategy in Strategy])
@pytest.mark.parametrize("name", shipped())
def test_a_whole_scenario_meets_what_it_expects(name, strategy):
    loaded, settings = load(name), Settings(cpu_suppress=CpuSuppressSettings(strategy=strategy))
    tallies = {agent: Tally(loaded, settings) for agent in Agent}
    for agent, tally in tallies.items():
        for cycle in (managed if agent is Agent.ON else unmanaged)(loaded, settings, 1):
            assert cycle.record is None or cycle.record.plan.failures == ()
            tally.add(cycle)
    told = report(loaded, settings, 1, tallies)
    for agent, totals in told.totals.items():
        print(name, strategy.value, agent.value, totals)
    for finding in told.findings:
        print("  ", finding)
    assert [finding for finding in told.findings if finding.met is False] == []
