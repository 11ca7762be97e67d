"""What-if on a recording whose other side is known: it was simulated, so the other configuration can be run on the true demand."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE, STDOUT

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

import recordings

pytest.importorskip("backports.zstd", reason="the extra `record` is not installed: backports.zstd is missing")

from qosmanager.cli.errors import CannotRunError
from qosmanager.cli.main import main
from qosmanager.cli.whatif_runs import Work, do_all
from qosmanager.config.parse import read_settings
from qosmanager.config.settings import Settings
from qosmanager.model.state import State
from qosmanager.record.directory import Directory
from qosmanager.record.encoder import Taken
from qosmanager.record.grid import QuantisedReadings
from qosmanager.record.writer import Bounds, Writer
from qosmanager.simulate.load import load
from qosmanager.simulate.run import managed
from qosmanager.simulate.tally import Tally
from qosmanager.whatif.compare import Run
from qosmanager.whatif.rebuild import Bound
from waiting import wait

SCENARIO = """
about: A service that surges beside greedy batch.
duration: 90s
node: {cpus: 8, memory: 32Gi, system_cpu: 0.2}
workloads:
- {name: api, qos: LS, requests: {cpu: 2}, limits: {cpu: 4}, slo: {p99: 100ms}, service: {time: 10ms},
   cpu: {steps: [{at: 0s, value: 1}, {at: 40s, value: 3, over: 2s}]}}
- {name: batch, qos: BE, count: 3, cpu: {constant: 2}}
"""


@pytest.fixture(scope="module")
def day(tmp_path_factory):
    """A recording under the defaults, and the configuration of the question."""
    folder = tmp_path_factory.mktemp("day")
    (folder / "day.yaml").write_text(SCENARIO, encoding="utf-8")
    (folder / "other.yaml").write_text("qosManager: {cpuSuppress: {strategy: usage}}\n", encoding="utf-8")
    loaded, settings, before = load(str(folder / "day.yaml")), Settings(), State()
    made = []
    writer = Writer(Directory(folder / "record"), Bounds())
    for cycle in managed(loaded, settings, 1, lambda readings: made.append(QuantisedReadings(readings)) or made[0]):
        writer.add(Taken(before=before, record=cycle.record, settings=settings, placement=made[0].placement))
        before = cycle.record.state
    writer.close()
    return folder


def whatif(*arguments):
    return CliRunner().invoke(main, ["whatif", "--jobs", "1", *(str(argument) for argument in arguments)])


def test_the_range_holds_what_really_comes_of_the_other_configuration(day):
    done = whatif(day / "record", "--config", day / "other.yaml", "--output", "json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    loaded, settings = load(str(day / "day.yaml")), read_settings(day / "other.yaml")
    truth = Tally(loaded, settings)
    for cycle in managed(loaded, settings, 1):
        truth.add(cycle)
    expected = truth.totals(has_slo=True)
    found = [run["be_core_hours"] for run in told["runs"]["other.yaml"].values()]
    assert 0.9 * min(found) <= expected.be_core_hours <= 1.1 * max(found)
    # The model's own error, on the configuration that was recorded.
    recorded = told["runs"]["as recorded"]
    assert recorded["high"]["be_core_hours"] == pytest.approx(told["measured"]["be_core_hours"], rel=0.1)
    assert recorded["high"]["p99_median_ms"] == pytest.approx(told["measured"]["p99_median_ms"], rel=0.1)
    assert (told["cpus"], told["pods"], told["configuration_changes"]) == (8.0, 4, 0)


def test_the_table_says_what_is_a_range_and_what_was_measured(day):
    done = whatif(day / "record", "--config", day / "other.yaml")
    assert done.exit_code == 0, done.output
    assert "record: 1 min from 2026-01-01T00:00:01.000Z, 8 CPUs, 4 pods, demand in steps of 5 s" in " ".join(done.output.split())
    assert "measured" in done.output
    assert "as recorded, simulated" in done.output
    assert "other.yaml, simulated" in done.output
    assert "the model's own error" in done.output


def test_the_page_has_what_was_measured_and_both_configurations(day, tmp_path):
    pytest.importorskip("plotly", reason="the extra `report` is not installed: plotly is missing")
    done = whatif(day / "record", "--config", day / "other.yaml", "--report", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<th>measured</th><th>as recorded, simulated</th><th>other.yaml, simulated</th>" in text
    assert "p99 default\\u002fapi" in text


def test_what_was_not_recorded_and_what_is_decided_otherwise_is_told(day, tmp_path):
    cycles = recordings.run(40)
    spoilt = replace(cycles[3], record=replace(cycles[3].record, plan=replace(cycles[3].record.plan, degraded=("node_stale",))))
    recordings.written(tmp_path / "record", [*cycles[:3], spoilt, *cycles[4:10], *cycles[30:]])
    done = whatif(tmp_path / "record", "--config", day / "other.yaml", "--output", "json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    # Cycles 2 to 10 and 32 to 40, and one period for the stretch between them.
    assert (told["gaps"], told["decided_otherwise"], told["seconds"], told["pods"]) == (1, 1, 19.0, 4)
    said = whatif(tmp_path / "record", "--config", day / "other.yaml").output
    assert "1 stretch without a cycle left out: each counts as one period" in said
    assert "this version decides 1 of the cycles otherwise" in said


def test_a_part_of_a_recording_is_counted_from_its_beginning(day):
    done = whatif(day / "record", "--config", day / "other.yaml", "--from", "20s", "--length", "15s", "--output", "json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    # The first cycle is at second 1: from second 21 on, 15 cycles, of which the first has no length.
    assert (told["begun"], told["seconds"]) == ("2026-01-01T00:00:21.000Z", 14.0)


def test_how_many_run_at_one_time_changes_nothing(day):
    asked = (day / "record", "--config", day / "other.yaml", "--length", "10s", "--output", "json")
    alone, together = whatif(*asked), whatif(*asked, "--jobs", "3")
    assert (alone.exit_code, together.exit_code) == (0, 0), together.output
    assert together.output == alone.output


@pytest.fixture
def started(day):
    """A process with two simulations, one of which stands still, and that one's number."""
    command = [sys.executable, "-P", "-c", "from qosmanager.cli.main import main; main()"]
    arguments = ["whatif", day / "record", "--config", day / "other.yaml", "--jobs", "2"]
    with subprocess.Popen([*command, *arguments], stdout=PIPE, stderr=STDOUT, text=True, start_new_session=True) as process:
        try:
            child = wait(lambda: simulation(process.pid), 10, "a simulation")
            os.kill(child, signal.SIGSTOP)  # so that it cannot be done before the test is
            yield process, child
        finally:
            process.kill()


def simulation(parent):
    """A process that simulates for another one, by its number; None: there is none."""
    for child in Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii").split():
        with contextlib.suppress(FileNotFoundError):
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
    return None


def test_ctrl_c_ends_all_of_it(started):
    process, child = started
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=60)[0] == ""
    assert process.returncode == 130
    assert not Path(f"/proc/{child}").exists()


def test_a_simulation_that_is_killed_is_told(started):
    process, child = started
    os.kill(child, signal.SIGKILL)
    said = process.communicate(timeout=60)[0]
    assert re.fullmatch(
        "qosmanager: the run of 'as recorded' with the demand of case `(low|batch)` was ended by signal 9 before it was done; "
        "if memory is short, fewer --jobs take less\n",
        said,
    )
    assert process.returncode == 1


def test_a_simulation_that_fails_is_told(day):
    run = Run("other.yaml", read_settings(day / "other.yaml"), Bound.HIGH)
    with pytest.raises(
        CannotRunError, match=r"^the run of 'other.yaml' with the demand of case `high` failed: AttributeError: .*; with --jobs 1"
    ):
        do_all([Work(observed=None, run=run, seed=1)], 2, lambda _: None)


def test_a_part_in_which_nothing_lies_is_told(day):
    done = whatif(day / "record", "--config", day / "other.yaml", "--from", "2h")
    assert done.exit_code == 2
    assert "there are no two whole cycles in this part of it" in done.output


@pytest.mark.parametrize(
    ("recording", "config", "said"),
    [
        ("none", "other.yaml", "none"),
        ("record", "none.yaml", "none.yaml: cannot be read: no such file or directory"),
        ("day.yaml", "other.yaml", "day.yaml"),
    ],
)
def test_wrong_usage_is_told(day, recording, config, said):
    done = whatif(day / recording, "--config", day / config)
    assert done.exit_code == 2
    assert said in done.output
    assert "Traceback" not in done.output
