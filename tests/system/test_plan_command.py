"""`qosmanager plan` as a real process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

COMMAND = [str(Path(sys.executable).parent / "qosmanager"), "plan"]
CASE = yaml.safe_load((Path(__file__).parents[1] / "cases" / "coordination.yaml").read_text(encoding="utf-8"))


def run(*arguments, stdin=b""):
    return subprocess.run([*COMMAND, *map(str, arguments)], input=stdin, capture_output=True, check=False, timeout=60)


@pytest.fixture
def snapshot(tmp_path):
    path = tmp_path / "node.yaml"
    path.write_text(yaml.safe_dump(CASE["snapshot"]), encoding="utf-8")
    return path


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(CASE["config"]), encoding="utf-8")
    return path


def without_reasons(document):
    return [{key: value for key, value in action.items() if key != "reason"} for action in document["actions"]]


def test_json_is_the_right_answer_of_the_worked_case(snapshot, config):
    result = run(snapshot, "--config", config, "--output", "json")
    assert (result.returncode, result.stderr) == (0, b"")
    document = json.loads(result.stdout)
    assert document["assessment"] == CASE["expect"]["assessment"]
    assert without_reasons(document) == CASE["expect"]["actions"]
    assert all(action["reason"] for action in document["actions"])


def test_the_configuration_matters(snapshot):
    actions = without_reasons(json.loads(run(snapshot, "--output", "json").stdout))
    assert "set_cpu_limit" not in [action["kind"] for action in actions]  # 12.5 percent idle, and the default asks for 20


def test_text_explains_the_actions(snapshot, config):
    result = run(snapshot, "--config", config)
    assert (result.returncode, result.stderr) == (0, b"")
    assert "CPU pressure 68.5: MEDIUM" in result.stdout.decode()
    assert "CPUBurst: raise shop/api from 4 to 5 cores for a burst, because " in result.stdout.decode()


def test_standard_input_and_json_input_are_read(snapshot):
    text = json.dumps(CASE["snapshot"]).encode()
    assert run("-", "--output", "json", stdin=text).stdout == run(snapshot, "--output", "json").stdout


def test_every_problem_has_its_line_on_standard_error(tmp_path):
    path = tmp_path / "node.yaml"
    path.write_text("node:\n  cpus: 0\npods:\n- {name: a, qos: LX}\n", encoding="utf-8")
    result = run(path)
    assert (result.returncode, result.stdout) == (2, b"")
    assert result.stderr.decode().splitlines() == [
        f"{path}:2: node.cpus: 0 is not allowed; cores (2, 0.5 or 500m) above 0, at most 65536",
        f"{path}:2: node.cpu_usage: is required: cores (2, 0.5 or 500m), 0 or more",
        f"{path}:4: pods[0].qos: LX is not allowed; one of LSE, LSR, LS, BE, SYSTEM",
    ]


def test_a_refused_configuration_has_its_line_too(snapshot, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("qosManager:\n  cpuBurst: {burstRatio: 9}\n", encoding="utf-8")
    result = run(snapshot, "--config", path)
    assert (result.returncode, result.stdout) == (2, b"")
    assert result.stderr.decode() == f"{path}:2: qosManager.cpuBurst.burstRatio: 9 is not allowed; a number from 1 to 4\n"


@pytest.mark.parametrize(
    ("stdin", "message"),
    [
        (b"\xff", "<stdin>:1: is not UTF-8: byte 0xff at offset 0"),
        (b"[" * 100, "<stdin>:1: is nested deeper than 32 levels"),
        (b"", "<stdin>:1: node: is required: a mapping"),
    ],
)
def test_nonsense_on_standard_input(stdin, message):
    result = run("-", stdin=stdin)
    assert (result.returncode, result.stdout, result.stderr.decode()) == (2, b"", f"{message}\n")


def test_a_file_that_is_not_there(tmp_path):
    result = run(tmp_path / "none.yaml")
    assert (result.returncode, result.stderr.decode()) == (2, f"{tmp_path}/none.yaml: cannot be read: no such file or directory\n")


def test_a_closed_pipe_is_quiet(snapshot):
    with subprocess.Popen([*COMMAND, str(snapshot)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        process.wait(timeout=60)


def test_help_shows_how_to_call_it():
    result = run("--help")
    assert result.returncode == 0
    assert "qosmanager plan node.yaml --config config.yaml" in result.stdout.decode()
