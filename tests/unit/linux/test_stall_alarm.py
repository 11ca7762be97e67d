"""Listening between cycles, over files that say what the kernel's would."""

from __future__ import annotations

import os
import re
import resource
import shutil
import threading
import time
from pathlib import Path

import pytest

from kernel_tree import KernelTree
from qosmanager.linux.stall_alarm import StallAlarm
from qosmanager.linux.stall_ear import Ear
from qosmanager.model.workload import CgroupFile
from qosmanager.ports import CannotListenError


class Service:
    """A group whose stalled time and CPU time are what the test says."""

    def __init__(self, tree: KernelTree, group: str) -> None:
        self.tree, self.group = tree, group
        tree.add(group)
        tree.put(CgroupFile("unified", group, "cgroup.events"), "populated 1\nfrozen 0")
        self.stalled, self.used = 10.0, 100.0
        self.write()

    def write(self) -> None:
        line = f"some avg10=0.00 avg60=0.00 avg300=0.00 total={self.stalled * 1e6:.0f}\n"
        self.tree.put(CgroupFile("unified", self.group, "cpu.pressure"), line)
        if self.tree.layout == "v2":
            self.tree.put(CgroupFile("unified", self.group, "cpu.stat"), f"usage_usec {self.used * 1e6:.0f}\nnr_periods 0\n")
        else:
            self.tree.put(CgroupFile("cpuacct", self.group, "cpuacct.usage"), f"{self.used * 1e9:.0f}")

    def run(self, stalled: float = 0.0, used: float = 0.0) -> None:
        self.stalled += stalled
        self.used += used
        self.write()


@pytest.fixture(params=["v2", "hybrid"])
def tree(tmp_path, request):
    return KernelTree(tmp_path, request.param)


@pytest.fixture
def service(tree):
    return Service(tree, "web")


def looks(ear, service, *steps):
    """Look each tenth of a second; each step is (stalled, used) seconds in it."""
    found = []
    for stalled, used in steps:
        service.run(stalled, used)
        found.append(ear.look(ear.looked + 0.1))
    return found


CALM = [(0.01, 0.05)] * 20


def test_a_look_tells_the_share_of_time_that_tasks_waited(tree, service):
    ear = Ear(tree.files, "web")
    assert looks(ear, service, (0.03, 0.1)) == [False]
    assert ear.share == pytest.approx(0.3)
    ear.close()


def test_a_stall_out_of_the_habit_is_a_jump_with_the_counters_before_it(tree, service):
    ear = Ear(tree.files, "web")
    assert looks(ear, service, *CALM) == [False] * 20
    assert ear.stall.level == pytest.approx(0.1)
    assert looks(ear, service, (0.08, 0.05)) == [True]
    assert ear.age == pytest.approx(0.1)
    assert ear.stalled_before == pytest.approx(10.2)
    assert ear.used_before == pytest.approx(101.0)
    ear.close()


def test_wanting_more_while_waiting_as_ever_is_a_jump(tree, service):
    ear = Ear(tree.files, "web")
    looks(ear, service, *CALM)
    # 0.5 cores x (1 + 0.1) as a habit; a whole core at 0.15 of stall is 1.15 wanted.
    assert ear.cores.level == pytest.approx(0.55)
    assert looks(ear, service, (0.015, 0.1)) == [True]
    ear.close()


def test_who_uses_nothing_is_asked_for_its_cpu_time_once_in_a_while_only(tree, service):
    ear = Ear(tree.files, "web")
    looks(ear, service, *[(0.0, 0.0)] * 15)
    service.run(0.05, 0.05)
    assert ear.look(ear.looked + 0.1), "the stall alone"
    assert ear.used_before is None, "what it had used a tenth of a second before was not read"
    ear.close()


def test_quiet_is_who_has_not_stalled_for_a_while(tree, service):
    ear = Ear(tree.files, "web")
    looks(ear, service, *[(0.0, 0.0)] * 15)
    now = ear.looked
    assert not ear.is_quiet(ear.jumped + 9.9)
    assert ear.is_quiet(ear.jumped + 10.0)
    looks(ear, service, (0.08, 0.0))
    assert not ear.is_quiet(now + 9.0)
    ear.close()


def test_a_file_that_cannot_be_opened_for_writing_has_no_trigger(tree, service):
    # As on a tree mounted read-only: the group itself is there, and is looked at.
    ear = Ear(tree.files, "web")
    Path(ear.path).unlink()
    Path(ear.path).mkdir()
    with pytest.raises(PermissionError):
        ear.arm()
    assert ear.trigger == -1
    ear.close()
    del service


def test_a_group_that_has_ended_is_no_missing_right(tree, service):
    ear = Ear(tree.files, "web")
    Path(ear.path).unlink()
    with pytest.raises(FileNotFoundError):
        ear.arm()
    ear.close()
    del service


def listened(tree, *names):
    alarm = StallAlarm(tree.files, None)
    return alarm, alarm.watch({f"shop/{name}": name for name in names}, 0.02)


def test_a_wait_ends_with_the_service_that_jumped(tree, service):
    Service(tree, "calm")
    alarm, how = listened(tree, "web", "calm")
    assert how == "2 services, looked at every 20 ms"
    assert alarm.wait(1.5) is None, "a habit is known after a second"
    stalling = threading.Thread(target=stall, args=(service,))
    stalling.start()
    jump = alarm.wait(60.0)
    stalling.join()
    assert jump is not None
    assert list(jump.pods) == ["shop/web"]
    assert re.fullmatch(r"waited for CPU in 20 ms: shop/web \d+% of the time \(usually \d%\)", jump.reason)
    cost = alarm.cost()
    assert cost.reads >= 2 * 20
    assert cost.seconds > 0
    alarm.close()


def stall(service):
    for _ in range(50):
        service.run(stalled=0.05)
        time.sleep(0.02)


class Seconds:
    """A clock that is a second later at each look at it: what takes a quarter of a minute takes no time here."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Seconds()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


class Listening:
    """An alarm, cycle after cycle."""

    def __init__(self, service, clock):
        self.service, self.clock = service, clock
        self.alarm = StallAlarm(service.tree.files, None)
        self.groups = {"shop/web": service.group}
        self.written = clock.now

    def cycles(self, count, stalled):
        """Let cycles go by in which the service waits for this share of the time; return how it is listened to, and the last jump."""
        for _ in range(count):
            self.service.run(stalled * (self.clock.now - self.written), 0.1)
            self.written = self.clock.now
            how = self.alarm.watch(self.groups, 0.1)
            self.alarm.wake()
            jump = self.alarm.wait(1.5)
        return how, jump


LOOKED_AT = "1 service, looked at every 100 ms"
BY_TRIGGER = f"{LOOKED_AT}, 1 of them by kernel triggers"


@pytest.fixture
def listening(service, clock):
    listening = Listening(service, clock)
    yield listening
    listening.alarm.close()


def test_who_stalls_less_than_wakes_the_kernel_is_left_to_it_no_longer(listening):
    assert listening.cycles(10, 0.0) == (BY_TRIGGER, None)
    assert listening.cycles(10, 0.1) == (LOOKED_AT, None)
    _, jump = listening.cycles(1, 0.9)
    assert jump is not None
    assert "(usually 10%)" in jump.reason
    assert listening.cycles(20, 0.0) == (BY_TRIGGER, None)


def test_without_a_descriptor_for_a_trigger_a_service_is_looked_at_until_there_is_one(listening):
    assert listening.cycles(1, 0.0) == (LOOKED_AT, None)
    listening.clock.now += 10.0
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        how = listening.alarm.watch(listening.groups, 0.1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert how == LOOKED_AT
    assert listening.cycles(1, 0.0) == (BY_TRIGGER, None)


def test_when_a_group_can_have_no_trigger_none_is_left_with_one_that_nobody_looks_at(listening):
    assert listening.cycles(10, 0.0) == (BY_TRIGGER, None)
    tree = listening.service.tree
    other = Service(tree, "other")
    listening.groups["shop/other"] = other.group
    assert listening.cycles(1, 0.0) == ("2 services, looked at every 100 ms, 1 of them by kernel triggers", None)
    pressure = Path(tree.files.directory("unified", other.group)) / "cpu.pressure"
    pressure.unlink()
    pressure.mkdir()
    assert listening.cycles(10, 0.0) == ("2 services, looked at every 100 ms", None)


def test_a_wait_is_ended_from_another_thread(tree, service):
    del service
    alarm, _ = listened(tree, "web")
    threading.Timer(0.05, alarm.wake).start()
    began = time.monotonic()
    assert alarm.wait(60.0) is None
    assert time.monotonic() - began < 30
    alarm.close()


def test_a_wake_before_the_wait_ends_it_at_once(tree, service):
    del service
    alarm, _ = listened(tree, "web")
    alarm.wake()
    began = time.monotonic()
    assert alarm.wait(60.0) is None
    assert time.monotonic() - began < 30
    alarm.close()


def test_a_signal_after_the_end_writes_to_no_other_file(tree):
    alarm = StallAlarm(tree.files, None)
    alarm.close()
    # One of these pipes has the number that the alarm woke itself by.
    pipes = [os.pipe() for _ in range(4)]
    alarm.wake()
    for reading, writing in pipes:
        os.set_blocking(reading, False)
        os.close(writing)
        assert os.read(reading, 8) == b""
        os.close(reading)


def test_groups_of_v1_alone_cannot_be_listened_to_and_it_is_said_why(tmp_path):
    tree = KernelTree(tmp_path, "hybrid")
    tree.add("web")
    shutil.rmtree(tmp_path / "unified" / "web")
    alarm = StallAlarm(tree.files, None)
    with pytest.raises(CannotListenError, match=r"^the services' groups are not in the v2 tree, which alone has stall files of groups$"):
        alarm.watch({"shop/web": "web"}, 0.1)
    alarm.close()


def test_beside_v1_groups_that_hold_no_process_cannot_be_listened_to(tmp_path):
    tree = KernelTree(tmp_path, "hybrid")
    tree.add("web")
    alarm = StallAlarm(tree.files, None)
    with pytest.raises(CannotListenError, match="hold none of their processes"):
        alarm.watch({"shop/web": "web"}, 0.1)
    alarm.close()


def test_a_service_whose_processes_are_yet_to_start_is_listened_to_on_v2(tmp_path):
    tree = KernelTree(tmp_path, "v2")
    tree.add("web")
    alarm, how = listened(tree, "web")
    assert how == "1 service, looked at every 20 ms"
    alarm.close()


def test_a_host_without_the_v2_tree_says_so(tmp_path):
    tree = KernelTree(tmp_path, "v1")
    tree.add("web")
    alarm = StallAlarm(tree.files, None)
    with pytest.raises(CannotListenError, match="no cgroup controller 'unified'"):
        alarm.watch({"shop/web": "web"}, 0.1)
    alarm.close()


def test_listening_to_nobody_is_no_fault_and_waits(tree):
    alarm = StallAlarm(tree.files, None)
    assert alarm.watch({}, 0.1) == ""
    assert alarm.wait(0.01) is None
    alarm.close()


def test_a_group_made_anew_elsewhere_is_another(tree, service):
    del service
    other = Service(tree, "other")
    alarm, _ = listened(tree, "web")
    alarm.watch({"shop/web": "other"}, 0.02)
    alarm.wait(1.5)
    thread = threading.Thread(target=stall, args=(other,))
    thread.start()
    assert alarm.wait(60.0) is not None
    thread.join()
    alarm.close()
