import json
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner

from qosmanager.cli.main import main
from qosmanager.config.parse import load_settings
from qosmanager.config.settings import Settings


def run(*arguments):
    return CliRunner().invoke(main, list(map(str, arguments)))


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "good.yaml"
    path.write_text("qosManager: {syncPeriod: 2s, cpuPressure: {low: 30}}")
    return path


@pytest.fixture
def bad(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text("qosManager:\n  syncPeriod: 2\n  cpuBurst: {burstRatio: 9}\n  cpuEvicted: {}\n")
    return path


@pytest.fixture
def workloads(tmp_path):
    path = tmp_path / "workloads.yaml"
    path.write_text("workloads:\n- {name: api, qos: LS, cgroup: api.slice}\n")
    return path


def test_files_in_order_are_said_to_be(good, workloads):
    done = run("config", "check", good, "--workloads", workloads)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.output == f"{good}: in order, 2 values of its own\n{workloads}: in order, 1 workload\n"


def test_all_problems_of_all_files_are_told_at_once(good, bad, tmp_path):
    broken = tmp_path / "broken.yaml"
    broken.write_text("workloads: [{name: api, qos: BE, cgroup: /abs, prio: 3}]")
    done = run("config", "check", bad, good, "--workloads", broken)
    assert done.exit_code == 2
    assert done.stdout == f"{good}: in order, 2 values of its own\n"
    places = [line.partition(" ")[0] for line in done.stderr.splitlines()]
    assert places == [f"{bad}:2:", f"{bad}:3:", f"{bad}:4:", f"{broken}:1:", f"{broken}:1:"]


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [("qosManager: {}", 0, "<stdin>: in order, 0 values of its own\n"), ("qosManager: 3", 2, "<stdin>:1: qosManager: 3 is not allowed;")],
)
def test_standard_input_can_be_checked(text, code, said):
    command = [sys.executable, "-m", "qosmanager", "config", "check", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, (done.stdout + done.stderr)[: len(said)]) == (code, said)


def test_a_file_that_is_not_there_is_a_problem_of_its_own(tmp_path, good):
    done = run("config", "check", tmp_path / "none.yaml", good)
    assert (done.exit_code, done.stderr) == (2, f"{tmp_path}/none.yaml: cannot be read: no such file or directory\n")
    assert "in order" in done.stdout


def test_nothing_to_check_is_wrong_usage():
    assert run("config", "check").exit_code == 2


def test_show_prints_a_file_with_the_same_effect(good):
    done = run("config", "show", "--config", good)
    assert done.exit_code == 0
    assert f"  syncPeriod: 2s                      # {good}:1\n" in done.output
    assert load_settings(done.output, "shown") == load_settings(good.read_text(), "good")
    assert load_settings(run("config", "show").output, "shown") == Settings()


def test_show_as_data(good):
    values = json.loads(run("config", "show", "--config", good, "--output", "json").output)
    assert values["qosManager.syncPeriod"] == {"value": "2s", "origin": f"{good}:1"}
    assert values["qosManager.cpuPressure.high"] == {"value": "75", "origin": "default"}


def test_show_refuses_what_check_refuses(bad):
    done = run("config", "show", "--config", bad)
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (2, "", 3)


def test_schemas_are_json():
    assert json.loads(run("config", "schema").output)["title"] == "QOSManager configuration"
    assert json.loads(run("config", "schema", "--workloads").output)["title"] == "QOSManager workloads"


def test_presets_are_listed_with_what_they_change():
    lines = run("config", "presets").output.splitlines()
    names = [line for line in lines if not line.startswith(" ")]
    assert names == ["latency-first", "throughput-first", "balanced: the defaults", "slo-first"]
    assert "  cpuBurst.burstRatio                  2        (default 1.5)" in lines


@pytest.mark.parametrize(
    ("shell", "mark"), [("bash", "complete -o nosort -F"), ("zsh", "#compdef qosmanager"), ("fish", "complete --no-files")]
)
def test_completion_prints_the_shells_script(shell, mark):
    done = run("completion", shell)
    assert done.exit_code == 0
    assert mark in done.output
    assert "_QOSMANAGER_COMPLETE" in done.output


def test_an_unknown_shell_is_refused():
    done = run("completion", "tcsh")
    assert done.exit_code == 2
    assert "bash" in done.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_the_bash_script_is_bash(tmp_path):
    script = tmp_path / "completion.bash"
    script.write_text(run("completion", "bash").output)
    checked = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("command", sorted(main.commands))
def test_every_command_has_examples_in_its_help(command):
    done = run(command, "--help")
    assert done.exit_code == 0
    assert f"qosmanager {command}" in done.output.partition("Examples:")[2]


def test_show_changed_leaves_out_defaults_and_their_headings(tmp_path):
    path = tmp_path / "qos.yaml"
    path.write_text("qosManager:\n  preset: latency-first\n  syncPeriod: 1s\n  cpuPressure: {low: 30}\n")
    done = run("config", "show", "--config", path, "--changed")
    assert [line.split("  # ") for line in done.output.splitlines() if "#" in line][:3] == [
        ["  syncPeriod: 1s" + " " * 20, f"{path}:3"],
        ["    low: 30" + " " * 25, f"{path}:4"],
        ["    medium: 50" + " " * 22, "preset latency-first"],
    ]
    assert [line for line in done.output.splitlines() if "#" not in line] == [
        "qosManager:",
        "  cpuPressure:",
        "  cpuBurst:",
        "  cpuSuppress:",
        "    suppressRatio:",
    ]
    assert load_settings(done.output, "shown") == load_settings(path.read_text(), "own")
    assert set(json.loads(run("config", "show", "--config", path, "--changed", "--output", "json").output)) > {"qosManager.syncPeriod"}


def test_without_any_change_that_is_said():
    assert run("config", "show", "--changed").output == "# every value is the default\n"
