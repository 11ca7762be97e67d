"""Shipped scenarios with and without the agent, and their command. Days run in minutes; `make soak-scenarios` runs all of them whole."""

import json

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from qosmanager.cli.main import main
from qosmanager.config.settings import CpuSuppressSettings, NodeQosResourceSettings, Settings, Strategy
from qosmanager.model.qos import Mode
from qosmanager.simulate.load import load, shipped
from qosmanager.simulate.report import report
from qosmanager.simulate.run import managed, unmanaged
from qosmanager.simulate.scenario import Agent
from qosmanager.simulate.tally import Tally
from simulated import faster

SHORTER = {"daily-load": 90, "colocation-day": 90, "memory-leak": 48}  # times
CUT = {"saw-tooth-heap": 2400.0}  # seconds: its heaps have their own pace


def in_time(name):
    loaded = load(name)
    if name in CUT:
        return replace(loaded, scenario=replace(loaded.scenario, duration=CUT[name]))
    return faster(loaded, SHORTER[name]) if name in SHORTER else loaded


def told(loaded, settings, *agents):
    tallies = {agent: Tally(loaded, settings) for agent in agents}
    for agent, tally in tallies.items():
        for cycle in (managed if agent is Agent.ON else unmanaged)(loaded, settings, 1):
            assert cycle.record is None or cycle.record.plan.failures == ()
            tally.add(cycle)
    return report(loaded, settings, 1, tallies)


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_scenario_meets_what_it_expects(name):
    result = told(in_time(name), Settings(), Agent.ON, Agent.OFF)
    assert [finding for finding in result.findings if finding.met is False] == []
    assert result.totals[Agent.ON].within_slo >= result.totals[Agent.OFF].within_slo


@pytest.mark.parametrize("name", ["contention", "full-requests"])
def test_it_does_so_with_the_strategy_usage_too(name):
    result = told(in_time(name), Settings(cpu_suppress=CpuSuppressSettings(strategy=Strategy.USAGE)), Agent.ON, Agent.OFF)
    assert [finding for finding in result.findings if finding.met is False] == []


@pytest.mark.parametrize("name", [name for name in shipped() if name not in SHORTER and name not in CUT])
def test_it_does_so_with_the_strategy_slo_too(name):
    result = told(in_time(name), Settings(cpu_suppress=CpuSuppressSettings(strategy=Strategy.SLO)), Agent.ON)
    assert [finding for finding in result.findings if finding.met is False] == []


@pytest.mark.parametrize("name", ["contention", "full-requests"])
def test_it_does_so_where_nothing_but_that_strategy_keeps_batch_from_the_services(name):
    settings = Settings(cpu_suppress=CpuSuppressSettings(strategy=Strategy.SLO), node_qos_resource=NodeQosResourceSettings(mode=Mode.OFF))
    result = told(in_time(name), settings, Agent.ON)
    assert [finding for finding in result.findings if finding.met is False] == []


def test_nobody_goes_for_services_that_wait_for_their_own_limits():
    # Half the node, half the batch: the score is at EMERGENCY while both services are at their limits, and no core is lacking.
    loaded = load("two-services")
    scenario = loaded.scenario
    batch = [replace(spec, count=6) if spec.name == "batch" else spec for spec in scenario.workloads]
    tight = replace(scenario, node=replace(scenario.node, cpus=12), workloads=tuple(batch), duration=150.0)
    result = told(replace(loaded, scenario=tight), Settings(), Agent.ON)
    assert result.totals[Agent.ON].evictions == 0
    assert result.totals[Agent.ON].over_slo > 0


def run(*arguments):
    return CliRunner().invoke(main, ["simulate", *arguments])


def test_the_list_names_every_shipped_scenario_with_what_it_is_about():
    lines = run("--list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(shipped())
    assert all(load(line.split()[0]).scenario.about in line for line in lines)


SMALL = """about: a service beside batch
duration: 20s
node: {cpus: 4}
workloads:
- {name: api, qos: LS, slo: {p99: 100ms}, cpu: {constant: 1}, service: {time: 5ms}}
- {name: be, qos: BE, cpu: {constant: 4}}
expect:
- {measure: evictions, at_most: 0, why: nothing is wrong}
- {measure: be_cores, at_least: BOUND}
"""


@pytest.fixture
def small(tmp_path):
    def write(bound):
        path = tmp_path / "small.yaml"
        path.write_text(SMALL.replace("BOUND", bound))
        return str(path)

    return write


def test_a_person_is_shown_both_runs_side_by_side_and_each_expectation(small):
    result = run(small("0"))
    assert result.exit_code == 0
    for part in (
        "with the agent  without it",
        "LS p99 ms, worst second",
        "BE limit",
        "level",
        "met      evictions: 0 (at most 0); nothing is wrong",
    ):
        assert part in result.stdout
    assert result.stderr == ""


def test_an_expectation_that_is_not_met_is_exit_code_1_and_said(small):
    result = run(small("9"))
    assert result.exit_code == 1
    assert "NOT MET  BE use" in result.stdout


def test_data_holds_the_same(small):
    result = json.loads(run(small("9"), "--output", "json").stdout)
    assert result["met"] is False
    assert [each["met"] for each in result["expect"]] == [True, False]
    assert set(result["agent"]) == {"with", "without"}
    assert len(result["timeline"]["with"]["limit"]) == 20
    assert result["timeline"]["with"]["level"][5] in ("LOW", "MEDIUM", "HIGH", "CRITICAL", "EMERGENCY")
    assert result["timeline"]["without"]["level"][5] is None


def test_off_runs_without_the_agent_only(small):
    result = json.loads(run(small("9"), "--off", "--output", "json").stdout)
    assert set(result["agent"]) == {"without"}
    assert result["expect"] == []


def test_settings_of_a_file_are_used(small, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("qosManager: {cpuSuppress: {strategy: usage}, nodeQOSResource: {mode: off}}")
    result = json.loads(run(small("0"), "--config", str(config), "--output", "json").stdout)
    assert (result["strategy"], result["weights"]) == ("usage", "without")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "qosmanager: simulate: name a scenario or a file"),
        (["contnetion"], "contnetion: is no shipped scenario and no file (did you mean contention?)"),
        (["/nowhere.yaml"], "/nowhere.yaml: cannot be read: no such file or directory"),
        (["contention", "--config", "/nowhere.yaml"], "/nowhere.yaml: cannot be read"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments, told):
    result = run(*arguments)
    assert result.exit_code == 2
    assert told in result.stderr
    assert "Traceback" not in result.output


def test_the_schema_is_that_of_scenario_files():
    schema = json.loads(run("--schema").stdout)
    assert schema["required"] == ["about", "duration", "node", "workloads"]
