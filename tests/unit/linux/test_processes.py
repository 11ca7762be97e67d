from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from qosmanager.linux.foreign import foreign_agent
from qosmanager.linux.processes import ProcScores, named, signal_members, start_time


@pytest.fixture
def sleeper():
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_identity_is_pid_and_start_time(sleeper):
    scores = ProcScores()
    ticks = os.sysconf("SC_CLK_TCK")
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    pid, started = scores.identity(sleeper.pid).split(":")
    assert int(pid) == sleeper.pid
    assert 0 <= int(started) / ticks <= uptime


def test_name_with_spaces_and_parentheses_does_not_mislead(tmp_path):
    (tmp_path / "7").mkdir()
    fields = " ".join(str(number) for number in range(4, 53))
    (tmp_path / "7/stat").write_text(f"7 (a) b (c)) S {fields}\n")
    assert start_time(7, tmp_path) == 22


def test_score_is_written_to_that_process_only(sleeper):
    scores = ProcScores()
    before = scores.read(sleeper.pid)
    scores.write(scores.identity(sleeper.pid), before + 100)
    assert scores.read(sleeper.pid) == before + 100
    with pytest.raises(ProcessLookupError):
        scores.write(f"{sleeper.pid}:1", 5)
    assert scores.read(sleeper.pid) == before + 100


def test_process_that_is_gone(sleeper):
    scores = ProcScores()
    identity = scores.identity(sleeper.pid)
    sleeper.kill()
    sleeper.wait()
    for call in (lambda: scores.identity(sleeper.pid), lambda: scores.read(sleeper.pid), lambda: scores.write(identity, 1)):
        with pytest.raises((FileNotFoundError, ProcessLookupError)):
            call()


def test_only_processes_that_are_still_meant_are_signalled(sleeper):
    asked = []

    def members():
        # On the second look another process has the pid: this one has left the group.
        asked.append(1)
        return {sleeper.pid} if len(asked) == 1 else set()

    assert signal_members(members, signal.SIGKILL) == set()
    assert sleeper.poll() is None
    assert signal_members(lambda: {sleeper.pid}, signal.SIGKILL) == {sleeper.pid}
    assert sleeper.wait() == -signal.SIGKILL
    assert signal_members(lambda: {sleeper.pid}, signal.SIGKILL) == set()


def test_foreign_agent_is_found_by_its_name(tmp_path):
    assert foreign_agent() is None or "koordlet" in foreign_agent()
    program = tmp_path / "koordlet"
    shutil.copy(shutil.which("sleep"), program)
    with subprocess.Popen([program, "60"]) as process:
        try:
            assert process.pid in set(named("koordlet"))
            assert "koordlet runs on this node (process " in foreign_agent()
        finally:
            process.kill()
    assert process.pid not in set(named("koordlet"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a directory to another user")
def test_a_name_alone_keeps_no_agent_from_its_work(tmp_path):
    process = tmp_path / "4242"
    process.mkdir()
    (process / "comm").write_text("koordlet\n")
    assert "process 4242" in foreign_agent(tmp_path)
    os.chown(process, 65534, 65534)
    assert foreign_agent(tmp_path) is None


def test_process_is_found_by_its_executable(sleeper):
    executable = os.path.basename(os.readlink(f"/proc/{sleeper.pid}/exe"))
    assert sleeper.pid in set(named(executable))
    assert os.getpid() in set(named(os.path.basename(os.path.realpath(sys.executable))))
