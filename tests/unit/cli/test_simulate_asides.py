"""`simulate --report` and `--record`, on a scenario of some seconds."""

import pytest
from click.testing import CliRunner

pytest.importorskip("plotly", reason="the extra `report` is not installed: plotly is missing")
pytest.importorskip("backports.zstd", reason="the extra `record` is not installed: backports.zstd is missing")

from qosmanager.cli.main import main

SCENARIO = """
about: A service beside batch.
duration: 20s
node: {cpus: 4, memory: 8Gi}
workloads:
- {name: api, qos: LS, requests: {cpu: 1}, slo: {p99: 100ms}, service: {time: 10ms}, cpu: {constant: 1}}
- {name: batch, qos: BE, count: 2, cpu: {constant: 2}}
expect:
- {measure: evictions, at_most: 0}
"""


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "short.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    return path


def simulate(*arguments):
    return CliRunner().invoke(main, ["simulate", *(str(argument) for argument in arguments)])


def test_the_page_holds_both_runs_the_totals_and_the_expectations(scenario, tmp_path):
    done = simulate(scenario, "--report", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<th>with the agent</th><th>without it</th>" in text
    assert "<th>BE core-hours</th>" in text
    assert "met</b> evictions: 0 (at most 0)" in text
    assert "SLO 100 ms" in text
    assert "CPUSuppress to " in text


def test_a_recorded_simulation_comes_to_the_same_plans(scenario, tmp_path):
    done = simulate(scenario, "--record", tmp_path / "record")
    assert done.exit_code == 0, done.output
    again = CliRunner().invoke(main, ["replay", str(tmp_path / "record")])
    assert again.exit_code == 0, again.output
    assert "20 cycles in 1 file" in again.output
    assert "every plan is the same" in again.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--record", "r", "--off"], "--record needs the run with the agent"),
        (["--report", "/nowhere/page.html"], "--report /nowhere/page.html: its directory cannot be written"),
        (["--report", "/"], "--report /: this is a directory"),
    ],
)
def test_wrong_usage_is_told_before_anything_runs(scenario, arguments, said):
    done = simulate(scenario, *arguments)
    assert done.exit_code == 2
    assert said in done.output
    assert "BE core-hours" not in done.output
