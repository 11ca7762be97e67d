from __future__ import annotations

import time

import pytest

from acting import evict
from kernel_tree import KernelTree
from qosmanager.linux.evictions import LocalEvictions
from qosmanager.linux.systemd import Systemd
from qosmanager.model.qos import QoS
from qosmanager.model.workload import Workload

SYSTEMCTL = """#!/bin/sh
echo "$@" >> {log}
case "$1" in
show) echo "{owned}" ;;
stop) exit {status} ;;
esac
"""


class Machine:
    """A machine on which systemd runs: a `systemctl` that says which group the unit has and takes, or refuses, a stop."""

    def __init__(self, path, monkeypatch):
        self._path = path
        self.log = path / "log"
        self.log.write_text("")
        self.runtime = path / "systemd"
        self.runtime.mkdir()
        monkeypatch.setenv("PATH", f"{path}:/usr/bin:/bin")

    def answers(self, owned, status=0):
        command = self._path / "systemctl"
        command.write_text(SYSTEMCTL.format(log=self.log, owned=owned, status=status))
        command.chmod(0o755)
        return Systemd(self.runtime)

    def asked(self):
        return self.log.read_text().splitlines()


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path, monkeypatch)


def answer(stop):
    deadline = time.monotonic() + 60
    while (taken := stop.poll()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return taken


def test_unit_that_owns_the_group_is_stopped(machine):
    stop = machine.answers("/system.slice/job.service").stop("system.slice/job.service")
    assert answer(stop) is True
    assert machine.asked() == ["show --property=ControlGroup --value -- job.service", "stop --no-block -- job.service"]


def test_unit_of_the_same_name_elsewhere_is_left_alone(machine):
    stop = machine.answers("/system.slice/job.service").stop("user.slice/job.service")
    assert answer(stop) is False
    assert len(machine.asked()) == 1


def test_stop_that_systemd_refuses(machine):
    assert answer(machine.answers("/a.scope", status=5).stop("a.scope")) is False


def test_groups_that_are_no_units(machine):
    systemd = machine.answers("/")
    assert systemd.stop("batch.slice") is None
    assert systemd.stop("batch/one") is None
    assert machine.asked() == []


def test_no_systemd_here(tmp_path):
    assert Systemd(tmp_path / "none").stop("a.service") is None


def polled(evictions, until):
    deadline = time.monotonic() + 60
    while not until():
        assert time.monotonic() < deadline
        evictions.poll(1.0)
        time.sleep(0.01)


def test_eviction_stops_the_unit_and_is_done_when_no_process_is_left(machine, tmp_path):
    tree = KernelTree(tmp_path / "cgroup")
    tree.add("job.service", pids=(2_000_000_000,))
    evictions = LocalEvictions(tree, machine.answers("/job.service"))
    assert evictions.begin(evict("default/job"), Workload(name="job", qos=QoS.BE, cgroup="job.service"), 0.0) == ""
    polled(evictions, lambda: len(machine.asked()) == 2)
    assert evictions.poll(1.0)["default/job"].done is False
    tree.set_pids("job.service")
    assert evictions.poll(1.0)["default/job"].done is True
    assert evictions.poll(1.0) == {}


def test_unit_that_ends_by_itself_needs_no_answer(machine, tmp_path):
    tree = KernelTree(tmp_path / "cgroup")
    tree.add("job.service", pids=(2_000_000_000,))
    evictions = LocalEvictions(tree, machine.answers("/job.service"))
    assert evictions.begin(evict("default/job"), Workload(name="job", qos=QoS.BE, cgroup="job.service"), 0.0) == ""
    tree.remove("job.service")
    assert evictions.poll(1.0)["default/job"].done is True


def test_in_a_hurry_systemd_that_does_not_answer_is_waited_for_one_second(machine, tmp_path):
    tree = KernelTree(tmp_path / "cgroup")
    tree.add("job.service", pids=(2_000_000_000,))
    systemd = machine.answers("/job.service")
    (tmp_path / "systemctl").write_text("#!/bin/sh\nexec sleep 60\n")
    evictions = LocalEvictions(tree, systemd)
    evictions.begin(evict("default/job", grace=0.5), Workload(name="job", qos=QoS.BE, cgroup="job.service"), 0.0)
    # 1 s for systemctl, 0.5 s from SIGTERM to SIGKILL, 30 s until it counts as not to be ended.
    for now in (1.0, 1.5):
        assert evictions.poll(now)["default/job"].error == ""
    assert evictions.poll(31.4)["default/job"].error == ""
    assert "still there 30 s after SIGKILL" in evictions.poll(31.5)["default/job"].error
