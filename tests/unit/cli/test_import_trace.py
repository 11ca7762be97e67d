from pathlib import Path

import pytest
from click.testing import CliRunner

from qosmanager.cli.main import main
from qosmanager.simulate.load import load

EXAMPLES = Path(__file__).parents[3] / "examples/traces"


def run(*arguments):
    return CliRunner().invoke(main, ["import", *(str(argument) for argument in arguments)])


def test_a_machine_of_the_alibaba_trace_becomes_a_scenario_that_loads(tmp_path):
    done = run("alibaba-2018", EXAMPLES / "alibaba-2018", "--machine", "m_7", "--length", "1h", "--into", tmp_path / "m7")
    assert done.exit_code == 0, done.output
    assert "96 CPUs: 1 x c-1 (LS), 1 x c-2 (LS), 4 x batch (BE)" in done.output
    assert "left out: 1 line, batch_instance: no start or end" in done.output
    loaded = load(str(tmp_path / "m7/scenario.yaml"))
    assert loaded.scenario.duration == 3600
    assert [workload.requests.cpu for workload in loaded.scenario.workloads] == [8.0, 4.0, None]
    # 30 percent of 8 cores at its beginning.
    assert loaded.series["000-c-1.csv"][0] == (0.0, 2.4)


def test_a_table_becomes_a_scenario_that_loads(tmp_path):
    done = run("csv", EXAMPLES / "usage.csv", "--cpus", 8, "--memory", "32Gi", "--slo", "50ms", "--into", tmp_path / "mine")
    assert done.exit_code == 0, done.output
    loaded = load(str(tmp_path / "mine/scenario.yaml"))
    api, batch = loaded.scenario.workloads
    assert (api.slo.p99, api.service.time, api.memory.start) == (0.05, 0.01, 4 << 30)
    assert (batch.service, batch.slo.p99) == (None, None)
    assert loaded.series["000-api.csv"] == ((0.0, 1.5), (60.0, 3.2), (120.0, 1.5))


@pytest.mark.parametrize(
    ("rows", "more", "duration"),
    [
        ("0,a,1\n2592000,a,2\n", (), 2_592_000),  # a month
        ("0,a,1\n1234567.5,a,2\n", (), 1_234_567.5),
        ("0,a,1\n0.0001,a,2\n0.0002,a,3\n", ("--request-time", "0.05ms", "--slo", "0.5ms"), 60),
        ("0,a,1\n", ("--length", "100ms"), 0.1),
    ],
)
def test_whatever_is_written_loads(tmp_path, rows, more, duration):
    (tmp_path / "usage.csv").write_text(f"seconds,workload,cores\n{rows}", encoding="utf-8")
    done = run("csv", tmp_path / "usage.csv", "--cpus", 8, *more, "--into", tmp_path / "mine")
    assert done.exit_code == 0, done.output
    loaded = load(str(tmp_path / "mine/scenario.yaml"))
    assert loaded.scenario.duration == duration
    assert len(loaded.series["000-a.csv"]) == rows.count("\n")


def test_more_than_a_year_is_refused_before_anything_is_written(tmp_path):
    (tmp_path / "usage.csv").write_text("seconds,workload,cores\n0,a,1\n40000000,a,2\n", encoding="utf-8")
    done = run("csv", tmp_path / "usage.csv", "--cpus", 8, "--into", tmp_path / "mine")
    assert done.exit_code == 2
    assert "a scenario lasts at most 8784h, and this would be 11111h: --length says how much" in done.output
    assert not (tmp_path / "mine").exists()


def test_what_is_there_already_stays(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("keep", encoding="utf-8")
    done = run("csv", EXAMPLES / "usage.csv", "--cpus", 8, "--into", tmp_path / "mine")
    assert done.exit_code == 2
    assert "mine: is there already and not an empty folder; nothing was written" in done.output
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "notes.txt"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cpus", "0", "--into", "x"], "0 is not in the range"),
        (["--cpus", "8", "--memory", "8GB", "--into", "x"], "'8GB' is not allowed; bytes"),
        (["--cpus", "8", "--from", "1", "--into", "x"], "'1' is not allowed; a duration"),
        (["--cpus", "8", "--into", "/nowhere/x"], "/nowhere/x: cannot be made: No such file or directory"),
    ],
)
def test_wrong_usage_is_told(arguments, said):
    done = run("csv", EXAMPLES / "usage.csv", *arguments)
    assert done.exit_code == 2
    assert said in done.output
