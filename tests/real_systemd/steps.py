"""Inside the machine: the installed units under the systemd that they are for, as an operator sees them. Run in this order.

A service and batch work run beside it as units of their own, batch in a slice.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from waiting import wait

UNIT = "qosmanager.service"
TIMER = "qosmanager-restore.timer"
UNITS = Path("/etc/systemd/system")
SETTINGS = Path("/etc/qosmanager")
STATE = Path("/run/qosmanager")
BATCH = Path("/sys/fs/cgroup/batch.slice")
LIMIT, WEIGHT = BATCH / "cpu.max", BATCH / "cpu.weight"
CONFIG = "qosManager:\n  syncPeriod: 500ms\n  cpuSuppress: {strategy: usage, targetUtilization: 0.4}\n"
WORKLOADS = """\
workloads:
- {name: api, qos: LS, cgroup: system.slice/api.service, requests: {cpu: 200m}}
- {name: job, qos: BE, cgroup: "batch.slice/*", priority: 3000}
"""
OTHERS = {
    "api.service": "[Service]\nExecStart=/bin/sleep infinity\n",
    "batch.slice": "[Slice]\n",
    "job.service": "[Service]\nSlice=batch.slice\nExecStart=/bin/sh -c 'while :; do :; done'\n",
}
# Between its end and its next start systemd knows no group of it any more.
AGAIN = "[Service]\nExecStart=/bin/sleep infinity\nRestart=always\nRestartSec=10s\n"
EVICTING = """\
import sys, time
from pathlib import Path
from qosmanager.linux.cgroup import Hierarchies
from qosmanager.linux.evictions import LocalEvictions
from qosmanager.linux.systemd import Systemd
from qosmanager.model.actions import Evict
from qosmanager.model.qos import Plugin, QoS
from qosmanager.model.workload import Workload

began = time.monotonic()
evictions = LocalEvictions(Hierarchies.probe(Path("/sys/fs/cgroup")), Systemd())
job = Workload(name="again", qos=QoS.BE, cgroup="system.slice/again.service", grace=30.0)
action = Evict(plugin=Plugin.MEMORY_EVICT, reason="test", pod=job.key, grace=float(sys.argv[1]))
assert evictions.begin(action, job, began) == ""
while not evictions.poll(time.monotonic())[job.key].done:
    time.sleep(0.05)
print(f"grace {sys.argv[1]}: gone after {time.monotonic() - began:.2f} s")
"""
ORIGINALS = ("max", "100", "0")  # limit, weight, oom_score_adj of batch


def run(*command: str, fails: bool = False) -> str:
    """Run a command and return what it said."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, stdin=subprocess.DEVNULL)
    assert fails or done.returncode == 0, f"{' '.join(command)}: {done.returncode}\n{done.stdout}"
    return done.stdout


def show(unit: str, name: str) -> str:
    return run("systemctl", "show", "--value", "--property", name, unit).strip()


def journal() -> str:
    return run("journalctl", "--no-pager", "--unit", UNIT)


def limit() -> str:
    """Return batch's limit; systemd may have taken the controller from the slice, and then there is none."""
    return LIMIT.read_text().split()[0] if LIMIT.exists() else "max"


def standing() -> tuple[str, str, str]:
    """Return what the agent may change of batch: its limit, its weight, and its process's oom_score_adj."""
    job = Path(f"/proc/{show('job.service', 'MainPID')}/oom_score_adj")
    return limit(), WEIGHT.read_text().strip() if WEIGHT.exists() else "100", job.read_text().strip()


def wait_for(what: str, probe, seconds: float = 10):
    def told():
        return "\n".join(("", show(UNIT, "StatusText"), *(line for line in journal().splitlines() if "cycle number" not in line)))

    return wait(probe, seconds, what, told)


def agent() -> int:
    return int(show(UNIT, "MainPID"))


def restarts() -> int:
    return int(show(UNIT, "NRestarts"))


def holds(seconds: float) -> None:
    """Look at batch for a while: it is never without a limit."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        assert limit() != "max"
        time.sleep(0.05)


def back_after(what: str, action) -> None:
    """Do what ends the agent; wait until systemd has made another one ready, and see that batch was limited all the time."""
    before, gone = restarts(), agent()
    action(gone)

    def ready():
        assert limit() != "max", "batch was opened"
        return restarts() > before and show(UNIT, "ActiveState") == "active"

    wait_for(f"another agent after {what}", ready, 30)
    assert agent() not in (0, gone)


def within(command: str, *, fails: bool = False) -> str:
    """Run a shell's command with the mounts and the powers of the agent."""
    powers = ["setpriv", "--bounding-set", "-all,+kill,+dac_override", "--inh-caps", "-all"]
    return run("nsenter", "--target", str(agent()), "--mount", *powers, "sh", "-c", command, fails=fails)


@pytest.fixture(scope="module", autouse=True)
def others():
    for name, text in OTHERS.items():
        (UNITS / name).write_text(text)
    run("systemctl", "daemon-reload")
    run("systemctl", "start", "api.service", "job.service")


def test_it_is_installed_as_documented_and_nothing_is_wrong_with_the_units():
    told = run("/usr/local/bin/qosmanager", "install-service").splitlines()
    assert [line.split()[0] for line in told] == ["created"] * 5 + ["done", "next"]
    for unit in (UNIT, "qosmanager-restore.service", TIMER):
        assert run("systemd-analyze", "verify", "--man=no", unit) == ""
        if unit != TIMER:
            print(run("systemd-analyze", "security", "--no-pager", unit).splitlines()[-1])
    (SETTINGS / "config.yaml").write_text(CONFIG)
    (SETTINGS / "workloads.yaml").write_text(WORKLOADS)
    run("systemctl", *told[-1].split()[2:])


def test_a_start_waits_for_the_first_cycle_and_status_shows_what_it_does():
    assert show(UNIT, "ActiveState") == "active"
    found = wait_for("a limit", lambda: re.fullmatch(r"cycle \d+: level \w+, BE [\d.]+ cores, 2 pods", show(UNIT, "StatusText")))
    assert f'Status: "{found[0].split(":")[0]}'[:15] in run("systemctl", "status", "--no-pager", UNIT)


def test_it_limits_batch_from_within_its_sandbox_and_meets_no_refusal():
    wait_for("limit, weight and oom_score_adj", lambda: (limit() != "max", *standing()[1:]) == (True, "1", "1000"))
    written = (STATE / "journal.json").read_text()
    assert all(f'"name":"{file.name}"' in written for file in (LIMIT, WEIGHT))
    assert (STATE.stat().st_mode & 0o777, Path("/var/log/qosmanager").stat().st_mode & 0o777) == (0o700, 0o750)
    told = journal()
    assert not re.findall(r"(?i).*(?:refused|failed|denied|read-only|traceback|not permitted).*", told)


def test_what_the_unit_asks_of_systemd_is_in_force():
    status = dict(line.split(":", 1) for line in Path(f"/proc/{agent()}/status").read_text().splitlines())
    assert {name: status[name].strip() for name in ("NoNewPrivs", "Seccomp", "CapBnd", "CapEff", "CapAmb")} == {
        "NoNewPrivs": "1",
        "Seccomp": "2",
        "CapBnd": "0000000000000022",  # CAP_DAC_OVERRIDE and CAP_KILL
        "CapEff": "0000000000000022",
        "CapAmb": "0000000000000000",
    }
    assert int(status["VmLck"].split()[0]) > 10_000, "its memory is locked"
    assert Path(f"/proc/{agent()}/oom_score_adj").read_text() == "-998\n"
    assert Path(f"/proc/{agent()}/cgroup").read_text() == f"0::/{UNIT}\n"
    own = Path("/sys/fs/cgroup", UNIT)
    assert [(own / name).read_text().strip() for name in ("cpu.weight", "memory.min")] == ["100", "67108864"]
    assert not re.findall("(?i).*(?:ignor|support|fail).*", run("journalctl", "--no-pager", "--unit", UNIT, "_PID=1"))


@pytest.mark.parametrize("path", ["/etc/x", "/usr/x", "/var/x", "/proc/sys/kernel/hostname", "/sys/kernel/x", "/dev/x"])
def test_it_cannot_write(path):
    before = set(Path(path).parent.iterdir())
    told = within(f"echo x > {path}", fails=True)
    assert re.search("Read-only|Permission denied|Directory nonexistent", told), told
    assert set(Path(path).parent.iterdir()) == before


def test_it_can_write_its_own_directories_and_cgroups_and_sees_no_homes_and_no_disks():
    for directory in (STATE, Path("/var/log/qosmanager")):
        within(f"echo x > {directory}/x")
        (directory / "x").unlink()
    within(f"cat {WEIGHT} > {WEIGHT}")
    for secret in (Path("/root/secret"), Path("/home/secret")):
        secret.write_text("x")
        assert "No such file" in within(f"cat {secret}", fails=True)
    assert "ubda" not in within("ls /dev")


def test_a_reload_takes_up_the_configuration_without_a_restart():
    before = agent(), restarts()
    (SETTINGS / "config.yaml").write_text(CONFIG.replace("0.4", "0.5"))
    run("systemctl", "reload", UNIT)
    wait_for("a word of it", lambda: "Reloaded workloads=2" in journal())
    wait_for("the end of the reload", lambda: show(UNIT, "ActiveState") == "active")
    assert (agent(), restarts()) == before


def test_a_pause_is_seen_in_its_status_and_leaves_the_limit():
    run("qosmanager", "pause", "10m", "--reason", "a look")
    wait_for("a pause", lambda: "paused" in show(UNIT, "StatusText"))
    assert limit() != "max"
    run("qosmanager", "resume")
    wait_for("the end of the pause", lambda: "paused" not in show(UNIT, "StatusText"))


@pytest.mark.parametrize(("told", "file", "value"), [("CPUQuota=50%", LIMIT, "50000"), ("CPUWeight=200", WEIGHT, "200")])
def test_what_systemd_writes_to_the_slice_is_put_back_and_said(told, file, value):
    run("systemctl", "set-property", "--runtime", "batch.slice", told)
    wait_for("a word of it", lambda: re.search(rf'drift file=cpu:/batch.slice/{file.name} before="?{value}\b.*put back', journal()))
    assert file.read_text().split()[0] not in (value, "max")
    run("systemctl", "set-property", "--runtime", "batch.slice", f"{told.partition('=')[0]}=")


def test_a_reload_of_systemd_and_new_units_in_the_slice_do_not_open_batch():
    before = journal().count("put back")
    (UNITS / "second.service").write_text(OTHERS["job.service"])
    run("systemctl", "daemon-reload")
    run("systemctl", "start", "second.service")
    wait_for("another pod", lambda: show(UNIT, "StatusText").endswith("3 pods"))
    run("systemctl", "stop", "second.service")
    wait_for("our limit", lambda: limit() != "max")
    print(f"daemon-reload and a unit started and stopped: {journal().count('put back') - before} foreign writes")
    holds(3)


def test_a_hung_agent_is_ended_by_the_watchdog_and_the_next_one_adopts():
    back_after("a hang", lambda process: os.kill(process, signal.SIGSTOP))
    assert "Watchdog timeout (limit 30s)!" in journal()


def test_a_killed_agent_comes_back_and_adopts():
    back_after("kill -9", lambda process: os.kill(process, signal.SIGKILL))


def test_a_stop_keeps_the_limit_for_the_next_start():
    run("systemctl", "stop", UNIT)
    assert (show(UNIT, "ActiveState"), show(UNIT, "Result")) == ("inactive", "success")
    holds(2)
    run("systemctl", "start", UNIT)
    holds(2)


def test_the_order_of_an_upgrade_keeps_the_limit_and_another_one_ends_with_it():
    run("systemctl", "daemon-reload")
    wait_for("our limit", lambda: limit() != "max")
    run("systemctl", "restart", UNIT)
    holds(2)
    run("systemctl", "stop", UNIT)
    run("systemctl", "daemon-reload")
    print(f"a daemon-reload while no agent runs: batch has {limit()}")
    run("systemctl", "start", UNIT)
    wait_for("a limit", lambda: limit() != "max")


def test_a_stop_and_restore_put_everything_back():
    run("systemctl", "stop", UNIT)
    print(run("qosmanager", "restore"))
    assert standing() == ORIGINALS
    run("systemctl", "start", UNIT)
    wait_for("a limit", lambda: limit() != "max")


def test_an_agent_that_cannot_come_back_is_followed_by_the_timer():
    (SETTINGS / "config.yaml").write_text("nonsense: 1\n")
    os.kill(agent(), signal.SIGKILL)
    holds(60)
    assert show(UNIT, "ActiveState") == "activating"
    wait_for("the originals", lambda: standing() == ORIGINALS, 60)
    print(run("journalctl", "--no-pager", "--unit", "qosmanager-restore.service"))
    (SETTINGS / "config.yaml").write_text(CONFIG)
    wait_for("an agent and a limit", lambda: show(UNIT, "ActiveState") == "active" and limit() != "max")


def test_uninstall_stops_it_puts_everything_back_and_removes_the_units():
    told = run("qosmanager", "uninstall", "--yes")
    print(told)
    assert standing() == ORIGINALS
    assert re.findall(r"^(?:stopped|removed) +(\S+)", told, re.MULTILINE)[:5] == [
        *(TIMER, UNIT),
        *(f"{UNITS}/{name}" for name in (UNIT, "qosmanager-restore.service", TIMER)),
    ]
    assert [show(unit, "LoadState") for unit in (UNIT, TIMER)] == ["not-found"] * 2
    assert not STATE.exists()
    assert run("systemctl", "list-units", "--failed", "--plain", "--no-legend") == ""


@pytest.mark.parametrize("grace", [0.5, 30.0])
def test_batch_that_is_evicted_is_not_started_again(grace):
    (UNITS / "again.service").write_text(AGAIN)
    run("systemctl", "daemon-reload")
    run("systemctl", "reset-failed")
    run("systemctl", "start", "again.service")
    wait_for("its process", lambda: Path("/sys/fs/cgroup/system.slice/again.service/cgroup.procs").read_text())
    print(run("/opt/qosmanager/bin/python", "-c", EVICTING, str(grace)))
    wait_for("its end", lambda: show("again.service", "ActiveState") != "deactivating")
    assert show("again.service", "ActiveState") == "inactive", "else systemd starts it again"
