from __future__ import annotations

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from qosmanager.cli.main import main
from qosmanager.linux.agent_file import RunningAgent, publish
from qosmanager.linux.boot import LinuxBoot
from qosmanager.linux.pause_file import PauseFile


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state"


def run(state, *arguments):
    return CliRunner().invoke(main, [*arguments, "--state-dir", str(state)])


def in_force(state):
    return PauseFile(state, LinuxBoot()).current()


def test_pause_and_resume_without_an_agent(state):
    done = run(state, "pause", "1h30m", "--reason", "ticket 4711")
    assert done.exit_code == 0
    assert done.output.startswith("paused for 90m, until ")
    assert done.output.endswith("; no agent runs now, one that starts goes by it\n")
    pause = in_force(state)
    assert (pause.reason, pause.boot_id, pause.until - pause.since) == ("ticket 4711", LinuxBoot().id, 5400.0)
    assert 0 < pause.ends - LinuxBoot().time() <= 5400
    resumed = run(state, "resume")
    assert (resumed.exit_code, resumed.output) == (0, "resumed; no agent runs now, one that starts goes by it\n")
    assert in_force(state) is None
    assert run(state, "resume").output == "nothing to resume: no pause is in force\n"


def test_the_running_agent_is_named(state):
    run(state, "pause", "1m")
    publish(state, RunningAgent.this_process(None))
    assert run(state, "pause", "2m").output.endswith(f"the agent (process {os.getpid()}) goes by it from its next cycle on\n")


@pytest.mark.parametrize(
    ("length", "said"),
    [
        ("30", "a duration from 1s to 168h (a duration needs its unit: 30s or 30ms?)"),
        ("soon", "'soon' is not allowed"),
        ("0s", "a duration from 1s to 168h"),
        ("169h", "a duration from 1s to 168h"),
    ],
)
def test_a_length_that_is_none_is_refused(state, length, said):
    done = run(state, "pause", length)
    assert done.exit_code == 2
    assert said in done.stderr.replace("\n", " ")
    assert not state.exists()


def test_a_reason_stays_on_one_line(state):
    assert run(state, "pause", "1m", "--reason", "a\nb").exit_code == 2
    assert run(state, "pause", "1m", "--reason", "x" * 501).exit_code == 2


def test_what_is_no_matter_of_rights_is_not_said_to_be_one(tmp_path):
    (tmp_path / "file").write_text("")
    ended = run(tmp_path / "file" / "state", "pause", "1m")
    assert ended.exit_code == 1
    assert ended.stderr.endswith("/file/state: Not a directory\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("command", [["pause", "1m"], ["resume"]])
def test_another_user_may_not(state, command):
    run(state, "pause", "10m")
    code = "import encodings.ascii, os\nfrom qosmanager.cli.main import main\nos.setgroups([]); os.setgid(65534); os.setuid(65534)\nmain()"
    ended = subprocess.run(
        [sys.executable, "-c", code, *command, "--state-dir", str(state)], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 1, ended.stderr
    assert "only its owner or root may pause and resume" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert in_force(state) is not None
