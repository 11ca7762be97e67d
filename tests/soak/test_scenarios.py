"""Every shipped scenario at its full length, with all strategies, and `slo` without the weights too (make soak-scenarios; about 40 min)."""

import pytest
from msgspec.structs import replace

from qosmanager.config.settings import CpuSuppressSettings, NodeQosResourceSettings, Settings, Strategy
from qosmanager.model.qos import Mode
from qosmanager.simulate.load import load, shipped
from qosmanager.simulate.report import report
from qosmanager.simulate.run import managed, unmanaged
from qosmanager.simulate.scenario import Agent
from qosmanager.simulate.tally import Tally

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


CONFIGURATIONS = {strategy.value: Settings(cpu_suppress=CpuSuppressSettings(strategy=strategy)) for strategy in Strategy}
CONFIGURATIONS["slo, weights off"] = replace(CONFIGURATIONS["slo"], node_qos_resource=NodeQosResourceSettings(mode=Mode.OFF))


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
@pytest.mark.parametrize("name", shipped())
def test_a_whole_scenario_meets_what_it_expects(name, configuration):
    loaded, settings = load(name), CONFIGURATIONS[configuration]
    tallies = {agent: Tally(loaded, settings) for agent in Agent}
    for agent, tally in tallies.items():
        for cycle in (managed if agent is Agent.ON else unmanaged)(loaded, settings, 1):
            assert cycle.record is None or cycle.record.plan.failures == ()
            tally.add(cycle)
    told = report(loaded, settings, 1, tallies)
    for agent, totals in told.totals.items():
        print(name, configuration, agent.value, totals)
    for finding in told.findings:
        print("  ", finding)
    assert [finding for finding in told.findings if finding.met is False] == []
