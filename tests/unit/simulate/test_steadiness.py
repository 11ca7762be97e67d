"""With constant services and greedy batch the BE limit stays where it is: at most one reversal a minute."""

import pytest

from qosmanager.config.settings import Settings
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
