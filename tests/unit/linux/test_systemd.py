from __future__ import annotations

import signal
import subprocess
import time

import pytest

from acting import evict
from kernel_tree import KernelTree
from qosmanager.linux.evictions import LocalEvictions
from qosmanager.linux.systemd import Systemd
from qosmanager.model.qos import QoS
from qosmanager.model.workload import Workload

SYSTEMCTL = """#!/bin/sh
echo "$@" >> {path}/log
until [ -e {path}/speaks ]; do sleep 0.02; done
case "$1" in
show) printf 'Slice={slice}\\nControlGroup={owned}\\n' ;;
stop) exit {status} ;;
esac
"""
NOBODY = 2_000_000_000  # above every pid_max: a process that cannot be signalled
JOB = Workload(name="job", qos=QoS.BE, cgroup="job.service", grace=10.0)
SHOW, STOP = "show --property=ControlGroup,Slice -- job.service", "stop --no-block -- job.service"


class Machine:
    """A machine on which systemd runs: a `systemctl` that says which group the unit has and takes, or refuses, a stop."""

    def __init__(self, path, monkeypatch):
        self._path = path
        self.log = path / "log"
        self.log.write_text("")
        self.runtime = path / "systemd"
        self.runtime.mkdir()
        self.speak()
        monkeypatch.setenv("PATH", f"{path}:/usr/bin:/bin")

    def answers(self, owned, status=0, of_slice="system.slice"):
        command = self._path / "systemctl"
        command.write_text(SYSTEMCTL.format(path=self._path, owned=owned, status=status, slice=of_slice))
        command.chmod(0o755)
        return Systemd(self.runtime)

    def hangs(self):
        (self._path / "speaks").unlink()
        return self.answers("/job.service")

    def speak(self):
        (self._path / "speaks").touch()

    def asked(self):
        return self.log.read_text().splitlines()


@pytest.fixture
def machine(tmp_path, monkeypatch):
    machine = Machine(tmp_path, monkeypatch)
    yield machine
    machine.speak()


def wait_until(happened):
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def answer(stop):
    wait_until(lambda: stop.taken is not None)
    return stop.taken


def test_unit_that_owns_the_group_is_stopped(machine):
    stop = machine.answers("/system.slice/job.service").stop("system.slice/job.service")
    assert answer(stop) is True
    assert machine.asked() == [SHOW, STOP]


def test_unit_of_the_same_name_elsewhere_is_left_alone(machine):
    stop = machine.answers("/system.slice/job.service").stop("user.slice/job.service")
    assert answer(stop) is False
    assert machine.asked() == [SHOW]


@pytest.mark.parametrize(
    ("of_slice", "group", "is_its_own"),
    [
        ("system.slice", "system.slice/job.service", True),
        ("batch-by-night.slice", "batch.slice/batch-by.slice/batch-by-night.slice/job.service", True),
        ("system.slice", "user.slice/user-1000.slice/user@1000.service/app.slice/job.service", False),
        ("", "job.service", False),  # systemd knows no such unit
    ],
)
def test_unit_whose_processes_have_ended_is_known_by_its_slice(machine, of_slice, group, is_its_own):
    # Restart=always: it would be there again in a moment.
    assert answer(machine.answers("", of_slice=of_slice).stop(group)) is is_its_own


def test_stop_that_systemd_refuses(machine):
    assert answer(machine.answers("/a.scope", status=5).stop("a.scope")) is False


def test_groups_that_are_no_units(machine):
    systemd = machine.answers("/")
    assert systemd.stop("batch.slice") is None
    assert systemd.stop("batch/one") is None
    assert machine.asked() == []


def test_no_systemd_here(tmp_path):
    assert Systemd(tmp_path / "none").stop("a.service") is None


# -- evictions, looked at once a cycle --------------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path):
    return KernelTree(tmp_path / "cgroup")


@pytest.fixture
def sleeper():
    with subprocess.Popen(["sleep", "60"]) as started:
        yield started
        started.kill()


def begun(tree, systemd, *pids, grace=None, workload=JOB):
    """Begin an eviction of a unit with these processes, at 0.0."""
    tree.add("job.service", pids=pids)
    evictions = LocalEvictions(tree, systemd)
    assert evictions.begin(evict("default/job", grace), workload, 0.0) == ""
    return evictions


def test_eviction_stops_the_unit_and_is_done_when_no_process_is_left(machine, tree):
    evictions = begun(tree, machine.answers("/job.service"), NOBODY)
    wait_until(lambda: machine.asked() == [SHOW, STOP])
    assert evictions.poll(1.0)["default/job"].done is False
    tree.set_pids("job.service")
    assert evictions.poll(2.0)["default/job"].done is True
    assert evictions.poll(3.0) == {}


def test_unit_that_ends_by_itself_needs_no_answer(machine, tree):
    evictions = begun(tree, machine.hangs(), NOBODY)
    tree.remove("job.service")
    assert evictions.poll(1.0)["default/job"].done is True


def test_systemd_has_the_grace_period_from_the_beginning_and_not_longer(machine, tree, sleeper):
    evictions = begun(tree, machine.answers("/job.service"), sleeper.pid)
    wait_until(lambda: machine.asked() == [SHOW, STOP])
    for now in (1.0, 5.0, 9.0):
        assert not evictions.poll(now)["default/job"].done
    assert (sleeper.poll(), tree.writes) == (None, []), "the unit's own stop commands are at work"
    evictions.poll(10.0)
    assert sleeper.wait(60) == -signal.SIGKILL


def test_in_a_hurry_sigterm_comes_beside_systemds_stop_before_any_look(machine, tree, sleeper):
    begun(tree, machine.answers("/job.service"), sleeper.pid, grace=0.5)
    assert sleeper.wait(60) == -signal.SIGTERM
    wait_until(lambda: machine.asked() == [SHOW, STOP])


def test_in_a_hurry_sigkill_comes_with_the_cycle_in_which_the_grace_period_is_over(machine, tree):
    evictions = begun(tree, machine.hangs(), NOBODY, grace=0.5)
    evictions.poll(0.49)
    assert tree.writes == []
    evictions.poll(0.5)
    assert ("freezer:/job.service/freezer.state", "FROZEN") in tree.writes
    assert evictions.poll(30.4)["default/job"].error == ""
    assert "still there 30 s after SIGKILL" in evictions.poll(30.5)["default/job"].error


@pytest.mark.parametrize(("grace", "at"), [(10.0, 5.0), (2.0, 1.0)])
def test_systemd_that_does_not_answer_leaves_time_for_sigterm(machine, tree, sleeper, grace, at):
    job = Workload(name="job", qos=QoS.BE, cgroup="job.service", grace=grace)
    evictions = begun(tree, machine.hangs(), sleeper.pid, workload=job)
    evictions.poll(at - 0.1)
    assert sleeper.poll() is None
    evictions.poll(at)
    assert sleeper.wait(60) == -signal.SIGTERM
    tree.set_pids("job.service", NOBODY)
    evictions.poll(grace - 0.1)
    assert tree.writes == []
    evictions.poll(grace)
    assert tree.writes != []


def test_group_that_is_no_units_own_is_ended_by_signals(machine, tree, sleeper):
    evictions = begun(tree, machine.answers("/system.slice/job.service"), sleeper.pid)
    wait_until(lambda: evictions.poll(1.0) and sleeper.poll() is not None)
    assert sleeper.returncode == -signal.SIGTERM
    assert machine.asked() == [SHOW]
