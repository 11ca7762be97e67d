"""The real agent as a service: what its manager hears, what the doctor says of it, and what uninstall leaves of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from real_groups import obstacle, real_groups
from waiting import wait

WHY_NOT = obstacle()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))

CONFIG = "qosManager:\n  syncPeriod: 100ms\n  cpuSuppress: {strategy: usage, targetUtilization: 0.4}\n"


def qosmanager(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "qosmanager", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=120)


class Service:
    """An agent that is run as systemd would: with a socket to notify, and watched."""

    def __init__(self, groups, directory: Path) -> None:
        self.groups, self.directory, self.state = groups, directory, directory / "state"
        self.config = directory / "config.yaml"
        self.config.write_text(CONFIG)
        (directory / "workloads.yaml").write_text(
            "workloads:\n"
            f'- {{name: api, qos: LS, cgroup: "{groups.top}/api", requests: {{cpu: 500m}}}}\n'
            f'- {{name: job, qos: BE, cgroup: "{groups.top}/be/*", priority: 3000}}\n'
        )
        self.heard: list[str] = []
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.manager.bind(str(directory / "notify"))
        self.manager.settimeout(120)
        options = ("--config", self.config, "--workloads", directory / "workloads.yaml", "--node-cgroup", groups.top)
        where = ("--state-dir", self.state, "--listen", "127.0.0.1:0", "--on-stop", "lease")
        self.log = (directory / "agent.log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "qosmanager", "run", *map(str, options + where)],
            stdout=self.log,
            stderr=self.log,
            env={**os.environ, "NOTIFY_SOCKET": str(directory / "notify"), "WATCHDOG_USEC": "400000"},
        )

    def wait_for(self, line: str) -> list[str]:
        """Return the lines of the first datagram that holds one."""
        while True:
            datagram = self.manager.recv(4096).decode().split("\n")
            self.heard += datagram
            if line in datagram:
                return datagram

    def limited(self) -> bool:
        return self.groups.quota(self.groups.path("be")).split()[0] not in ("-1", "max")

    def wait_limited(self) -> None:
        wait(self.limited, 20, "a BE limit", (self.directory / "agent.log").read_text)

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait(120)
        self.manager.close()
        self.log.close()


@pytest.fixture
def groups():
    for found in real_groups():
        for name in ("api", "be", "be/one"):
            found.add(name)
        found.start("api", "sleep", "600")
        found.start("be/one", "sleep", "600")
        yield found


@pytest.fixture
def service(groups, tmp_path):
    started = Service(groups, tmp_path)
    yield started
    started.end()


def test_its_manager_hears_of_the_first_cycle_of_each_sign_of_life_and_of_the_end(service):
    ready = service.wait_for("READY=1")
    assert ready[1].startswith("STATUS=cycle 1: level ")
    # The unit's 0.4 s would be less than five periods of 0.1 s.
    assert "WATCHDOG_USEC=500000" in service.heard
    for _ in range(3):
        service.wait_for("WATCHDOG=1")
    service.config.write_text(CONFIG.replace("0.4", "0.3"))
    service.process.send_signal(signal.SIGHUP)
    service.wait_for("RELOADING=1")
    service.wait_for("READY=1")
    service.process.send_signal(signal.SIGTERM)
    service.wait_for("STOPPING=1")
    assert service.process.wait(120) == 0


def test_a_stopped_loop_gives_no_sign_of_life(service):
    service.wait_for("WATCHDOG=1")
    service.process.send_signal(signal.SIGSTOP)
    service.manager.settimeout(0.2)
    with contextlib.suppress(TimeoutError):
        while True:
            service.manager.recv(4096)
    service.manager.settimeout(1.5)
    with pytest.raises(TimeoutError):
        service.manager.recv(4096)
    service.process.send_signal(signal.SIGCONT)


def test_the_doctor_looks_into_the_running_agent(service):
    service.wait_limited()
    told = qosmanager("doctor", "--state-dir", service.state, "--output", "json")
    report = json.loads(told.stdout)
    assert {plugin["plugin"]: plugin["ability"] for plugin in report["plugins"]}["CPUSuppress"] == "active"
    assert report["settings"] == "the running agent's configuration"
    assert [trouble["name"] for trouble in report["troubles"]] == ["LS latency is high", "BE is evicted often", "CPUBurst does nothing"]
    assert report["troubles"][0]["verdict"] == "unknown", "no LS pod here tells a latency"
    text = qosmanager("doctor", "--state-dir", service.state)
    assert max(map(len, text.stdout.splitlines())) <= 80
    assert text.stderr == ""


def test_the_doctor_without_an_agent_gives_the_probes_alone(tmp_path):
    told = qosmanager("doctor", "--url", "http://127.0.0.1:9", "--state-dir", tmp_path / "none")
    assert "Troubles were not looked into: no agent answers at http://127.0.0.1:9" in " ".join(told.stdout.split())
    assert "CPUSuppress" in told.stdout
    refused = qosmanager("doctor", "--url", "nonsense")
    assert (refused.returncode, "Traceback" in refused.stderr) == (2, False)


def test_uninstall_names_an_agent_that_runs_and_after_its_death_puts_everything_back_and_goes(service, tmp_path):
    prefix = tmp_path / "root"
    assert qosmanager("install-service", "--prefix", prefix).returncode == 0
    service.wait_limited()
    uninstall = ("uninstall", "--yes", "--prefix", prefix, "--state-dir", service.state)
    refused = qosmanager(*uninstall)
    assert refused.returncode == 2
    assert f"process {service.process.pid}; stop it first" in refused.stderr
    assert service.limited()
    service.process.kill()
    service.process.wait(120)
    done = qosmanager(*uninstall)
    assert done.returncode == 0, done.stderr
    assert not service.limited(), "BE is open again"
    assert "put back" in done.stdout
    assert f"removed   {service.state}/journal.json" in done.stdout
    assert not (service.state / "journal.json").exists()
    assert list((prefix / "etc/systemd/system").iterdir()) == []
