"""Beside services of constant demand and greedy batch the BE limit stays where it is: at most one reversal a minute; where requests come at
random, two by the strategy usage."""

import pytest

from qosmanager.config.settings import CpuSuppressSettings, NodeQosResourceSettings, Settings, Strategy
from qosmanager.model.qos import Mode
from qosmanager.simulate.tally import Tally
from simulated import scenario, with_agent

MINUTES = 3


@pytest.mark.parametrize("cores", [2, 3, 4, 8, 12, 18, 23, 26])
def test_the_limit_of_batch_is_steady_beside_constant_services(cores):
    loaded = scenario(
        f"name: ls, qos: LS, requests: {{cpu: 16}}, cpu: {{constant: {cores}, noise: 0.02}}",
        "name: be, qos: BE, count: 4, cpu: {constant: 32}",
        node="{cpus: 32, system_cpu: 0.3}",
        duration=f"{MINUTES}m",
    )
    tally = Tally(loaded, Settings())
    for cycle in with_agent(loaded):
        tally.add(cycle)
    assert tally.totals(has_slo=False).most_reversals <= 1


# Nothing of the kernel keeps batch behind the services.
UNSHIELDED = Settings(node_qos_resource=NodeQosResourceSettings(mode=Mode.OFF), cpu_suppress=CpuSuppressSettings(strategy=Strategy.SLO))


@pytest.mark.parametrize(
    "service",
    [
        "requests: {cpu: 16}, cpu: {constant: 18, noise: 0.02}",
        "slo: {p99: 120ms}, cpu: {constant: 16}, service: {time: 10ms}",
        "slo: {p99: 24ms}, cpu: {constant: 6}, service: {time: 2ms}",
    ],
    ids=["noise", "a queue of 10 ms", "a queue of 2 ms"],
)
def test_the_same_by_strategy_slo_where_requests_come_at_random(service):
    loaded = scenario(
        f"name: ls, qos: LS, {service}",
        "name: be, qos: BE, count: 4, cpu: {constant: 32}",
        node="{cpus: 32, system_cpu: 0.3}",
        duration="6m",
    )
    tally = Tally(loaded, UNSHIELDED)
    for cycle in with_agent(loaded, UNSHIELDED):
        tally.add(cycle)
    totals = tally.totals(has_slo=False)
    assert totals.most_reversals <= 1
    assert totals.be_core_hours > 0.5


def test_by_strategy_usage_the_limit_does_not_follow_each_second():
    loaded = scenario(
        "name: ls, qos: LS, requests: {cpu: 16}, slo: {p99: 100ms}, cpu: {constant: 12}, service: {time: 10ms}",
        "name: be, qos: BE, count: 4, cpu: {constant: 32}",
        node="{cpus: 32, system_cpu: 0.3}",
        duration="6m",
    )
    usage = Settings(cpu_suppress=CpuSuppressSettings(strategy=Strategy.USAGE))
    tally = Tally(loaded, usage)
    for cycle in with_agent(loaded, usage):
        tally.add(cycle)
    totals = tally.totals(has_slo=False)
    assert totals.most_reversals <= 2
    # 32 x 0.65 - 12 - 0.3: 8.5 cores, of which the random second takes little.
    assert totals.be_core_hours == pytest.approx(8.5 * 0.1, rel=0.08)
