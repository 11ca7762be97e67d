"""What someone on call does, with the real agent on real cgroups: look, ask why, pause, resume, read the audit log."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from real_daemon import CONFIG, Daemon, calm_groups, limit_in_force
from real_groups import obstacle, real_groups
from waiting import wait

WHY_NOT = obstacle()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))

# Every score is an EMERGENCY, and nothing but eviction is on.
EVICTING = """\
qosManager:
  syncPeriod: 100ms
  cpuPressure: {low: 0.01, medium: 0.02, high: 0.03, critical: 0.04}
  cpuSuppress: {enabled: false}
  memoryEvict: {enabled: false}
  cpuEvict: {trigger: either, evictThreshold: 0.05, evictCooldown: 1h}
"""


@pytest.fixture
def calm():
    for groups in real_groups():
        yield calm_groups(groups)


@pytest.fixture
def start(calm, tmp_path):
    daemons: list[Daemon] = []

    def begin(config=CONFIG % 0.4, **options) -> Daemon:
        (tmp_path / "config.yaml").write_text(config)
        daemons.append(Daemon(calm, tmp_path, **options))
        return daemons[-1]

    yield begin
    for daemon in daemons:
        daemon.stop(signal.SIGKILL)


@pytest.fixture
def ask(tmp_path):
    def asking(command, *arguments, code=0):
        words = [sys.executable, "-m", "qosmanager", command, "--state-dir", str(tmp_path / "state"), *arguments]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    return asking


def test_status_and_explain_find_the_agent_whatever_its_port_and_know_when_it_is_gone(calm, start, ask):
    daemon = start()
    wait(lambda: limit_in_force(calm), 20, "a BE limit", daemon.lines)
    said = ask("status")
    assert f"pid {daemon.process.pid}," in said
    assert "default/job-one" in said
    assert f"pid {daemon.process.pid}," in ask("top", "--once")
    status = json.loads(ask("status", "--output", "json"))
    assert status["settings"]["cpuSuppress"]["targetUtilization"] == 0.4
    why = ask("explain")
    assert "CPUSuppress set_be_cpu_limit BE" in why
    assert "  rule     2 CPUs x 0.4 - LS usage" in why
    assert "  score    CPU " in why
    assert "node CPU " in why
    not_done = ask("explain", "--pod", "job-one")
    assert "MemoryEvict:  it is off" in not_done
    assert daemon.stop() == 0
    assert "no agent answers at http://127.0.0.1:9316" in ask("status", code=1)


def test_a_pause_holds_the_limit_through_a_restart_until_it_is_ended(calm, start, ask):
    first = start(on_stop="lease")
    wait(lambda: limit_in_force(calm), 20, "a BE limit", first.lines)
    said = ask("pause", "10m", "--reason", "ticket 4711")
    assert f"the agent (process {first.process.pid}) goes by it" in said
    first.wait_for("Paused until=")
    held = calm.quota(calm.path("be"))
    cycle = first.get("/status")["cycle"]
    (first.directory / "config.yaml").write_text(CONFIG % 0.1)  # half of what is held would be too much now
    first.wait_for("Reloaded")
    wait(lambda: first.get("/status")["cycle"] >= cycle + 15, 20, "fifteen cycles", first.lines)
    assert calm.quota(calm.path("be")) == held
    status = first.get("/status")
    assert (status["paused"], status["pause"]["reason"]) == (True, "ticket 4711")
    assert 'koordlet_qos_degraded{reason="paused"} 1.0' in first.get("/metrics")
    assert first.get("/readyz")["reason"].startswith("paused until ")
    assert "PAUSED for 9 min more by " in ask("status")
    assert first.lines().count("Paused until=") == 1
    first.stop(signal.SIGKILL)
    second = start(CONFIG % 0.1)
    wait(lambda: second.get("/status")["cycle"] >= 5, 20, "five cycles", second.lines)
    assert second.get("/status")["paused"]
    assert calm.quota(calm.path("be")) == held
    assert "resumed; the agent" in ask("resume")
    second.wait_for("Resumed")
    wait(lambda: calm.quota(calm.path("be")) != held, 20, "another limit", second.lines)
    assert second.stop() == 0


def test_an_eviction_is_one_line_of_the_audit_log_that_outlives_the_agent(calm, start, ask, tmp_path):
    calm.busy("be/one", 2)
    daemon = start(EVICTING)
    log = tmp_path / "state/audit.log"
    wait(lambda: log.exists() and "\n" in log.read_text(), 30, "a line in the audit log", daemon.lines)
    assert daemon.stop() == 0
    (line,) = map(json.loads, log.read_text().splitlines())
    assert (line["pod"], line["plugin"], line["outcome"], line["pid"]) == ("default/job-one", "CPUEvict", "effective", daemon.process.pid)
    assert line["took"] >= 0
    assert line["cpu"] > 0
    assert "LS lacks" in line["reason"]
    assert calm.kernel.pids("cpu", calm.path("be/one")) == []
    assert "CPUEvict default/job-one: effective\n" in ask("explain", "--audit")
