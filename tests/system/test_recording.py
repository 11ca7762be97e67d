"""A real agent that records: whatever kills it, what was flushed is there, and comes to the same plans when decided again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import killed_recorders
from qosmanager.record.reader import Recording
from qosmanager.record.replay import replay
from real_daemon import Daemon, calm_groups, wait
from real_groups import obstacle, real_groups
from recordings import run

WHY_NOT = obstacle()
KILLS = int(os.environ.get("QOSM_KILLS", "50"))


@pytest.fixture
def groups():
    if WHY_NOT is not None:
        pytest.skip(WHY_NOT)
    yield from real_groups()


@pytest.fixture
def daemons(groups, tmp_path):
    calm, begun = calm_groups(groups), []

    def begin(*more: str) -> Daemon:
        begun.append(Daemon(calm, tmp_path, more=more))
        return begun[-1]

    yield begin
    for daemon in begun:
        daemon.stop(signal.SIGKILL)


def figure(daemon, name: str) -> float:
    lines = daemon.get("/metrics").splitlines()
    return next((float(line.split()[1]) for line in lines if line.startswith(f"koordlet_qos_{name} ")), 0.0)


def test_an_agent_that_is_killed_and_one_that_ends_leave_recordings_that_come_out_the_same(daemons, tmp_path):
    tape = tmp_path / "record"
    first = daemons("--record", str(tape))
    safe = wait(lambda: figure(first, "recorded_cycles_total") >= 5 and figure(first, "recorded_cycles_total"), 30, "recorded cycles")
    first.stop(signal.SIGKILL)
    second = daemons("--record", str(tape), "--shadow", str(tmp_path / "config.yaml"))
    wait(lambda: figure(second, "recorded_cycles_total") >= 5, 30, "recorded cycles")
    shadow = second.get("/status")["shadow"]
    assert shadow["cycles"] >= 5
    assert shadow["failure"] == ""
    assert second.stop() == 0
    recording = Recording(tape)
    found = list(replay(recording.cycles()))
    assert [each.difference for each in found if each.difference] == []
    assert [part.closed for part in recording.parts] == [False, True]
    assert recording.parts[0].cycles >= safe
    assert {pod.key for pod in found[-1].record.snapshot.pods} == {"default/api", "default/job-one"}
    assert found[-1].recorded.places.pods["default/api"].cgroup.endswith("/api")
    assert any(each.record.plan.actions for each in found)


def test_a_recording_that_must_end_does_not_end_the_agent(daemons, tmp_path):
    tape = tmp_path / "record"
    daemon = daemons("--record", str(tape))
    wait(lambda: figure(daemon, "recorded_cycles_total") >= 1, 30, "recorded cycles")
    for file in tape.iterdir():
        file.unlink()
    log = daemon.wait_for("RecordStopped")
    assert log.count("RecordStopped") == 1
    done = daemon.get("/status")["cycle"]
    wait(lambda: daemon.get("/status")["cycle"] > done + 3, 20, "cycles after it")
    assert figure(daemon, "recording") == 0.0
    assert "was removed" in daemon.get("/status")["recording"]["stopped"]
    assert daemon.stop() == 0


def test_nothing_that_was_flushed_is_lost_to_kill_9(tmp_path):
    """Writers are killed at random moments; each time what they had called safe is there, whole, in its order."""
    script = Path(killed_recorders.__file__)
    environment = {**os.environ, "PYTHONPATH": str(script.parent)}
    command = [sys.executable, str(script), str(tmp_path), str(KILLS)]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    promised = {number: int(safe) for number, safe in (line.split() for line in told.splitlines())}
    assert len(promised) == KILLS
    assert sum(0 < safe < killed_recorders.COUNT for safe in promised.values()) > KILLS / 5, "many are killed while they write"
    cycles = run(killed_recorders.COUNT)
    for number, safe in promised.items():
        found = list(Recording(tmp_path / number).cycles()) if safe else []
        assert len(found) >= safe
        assert all(reading == cycle.record.snapshot for cycle, (_, reading) in zip(cycles, found, strict=False))
