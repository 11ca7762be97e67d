"""An output that takes no more ends a command with one line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agents import agent
from records import record


def _run(*arguments: str, stdout: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "qosmanager", *arguments]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=60, check=False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", [("config", "show"), ("config", "schema"), ("completion", "bash")])
def test_full_disk_behind_standard_output_is_said_in_one_line(arguments):
    with Path("/dev/full").open("w") as full:
        ended = _run(*arguments, stdout=full)
    assert ended.returncode == 1
    assert ended.stderr == "qosmanager: the output cannot be written: No space left on device\n"


def test_a_name_that_is_no_text_is_shown_all_the_same(tmp_path):
    nowhere = os.fsencode(tmp_path) + b"/\xff"
    command = [sys.executable, "-m", "qosmanager", "restore", "--state-dir", nowhere]
    ended = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout == b"nothing to restore: there is no " + os.fsencode(tmp_path) + b"/\\udcff\n"


@pytest.mark.parametrize("arguments", [("demo", "--recorded", "--duration", "nan"), ("top", "--once", "--interval", "nan")])
def test_no_number_is_within_no_bounds(arguments):
    ended = _run(*arguments, stdout=subprocess.PIPE)
    assert ended.returncode == 2
    assert "'nan' is not in the range" in ended.stderr


def test_a_log_without_a_name_is_said_in_one_line():
    ended = _run("explain", "--audit-log", "", stdout=subprocess.PIPE)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "qosmanager: .: is not a regular file; --audit-log says where the agent keeps it\n"


def _closed(redirections: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", "-c", f'exec "$@" {redirections}', "sh", sys.executable, "-m", "qosmanager", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_closed_input_is_one_at_which_nobody_can_be_asked(tmp_path):
    ended = _closed("<&-", "uninstall", "--prefix", str(tmp_path), "--state-dir", str(tmp_path / "state"))
    assert (ended.returncode, ended.stderr) == (2, "qosmanager: nobody can be asked here; --yes goes without\n")


def test_closed_outputs_are_no_fault(tmp_path):
    (tmp_path / "config.yaml").write_text("qosManager: {}")
    ended = _closed("<&- >&- 2>&-", "config", "check", str(tmp_path / "config.yaml"))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_where_there_are_no_bars_they_are_drawn_with_other_characters():
    with agent(record(5)) as server:
        shown = subprocess.run(
            [sys.executable, "-m", "qosmanager", "status", "--url", server.url],
            env=os.environ | {"PYTHONIOENCODING": "ascii", "COLUMNS": "100"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert shown.returncode == 0, shown.stderr
    assert "cpu     ###.......  30.0 HIGH     stalled     -  usage 30.0\n" in shown.stdout
