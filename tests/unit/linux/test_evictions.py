from __future__ import annotations

import errno
import os
import signal
import subprocess

import pytest

from acting import evict
from kernel_tree import KernelTree
from qosmanager.linux.evictions import LocalEvictions
from qosmanager.linux.systemd import Systemd
from qosmanager.model.qos import QoS
from qosmanager.model.workload import Workload
from qosmanager.ports import EvictionProgress

NOBODY = 2_000_000_000  # above every pid_max: a process that cannot be signalled
JOB = Workload(name="job", qos=QoS.BE, cgroup="be/job", grace=10.0)


def evictions(tree, tmp_path):
    return LocalEvictions(tree, Systemd(tmp_path / "no-systemd"))


@pytest.mark.parametrize(("pid", "word"), [(1, "process 1"), (os.getpid(), "this agent itself")], ids=["init", "agent"])
def test_group_with_a_process_that_must_live_is_refused(tmp_path, pid, word):
    tree = KernelTree(tmp_path / "cgroup")
    tree.add("be/job", pids=(NOBODY,))
    tree.add("be/job/inner", pids=(pid,))
    assert word in evictions(tree, tmp_path).begin(evict("default/job"), JOB, 0.0)


def test_root_is_refused(tmp_path):
    tree = KernelTree(tmp_path / "cgroup")
    assert "root" in evictions(tree, tmp_path).begin(evict("default/job"), Workload(name="job", qos=QoS.BE, cgroup=""), 0.0)


def test_group_that_is_gone_is_done_at_once(tmp_path):
    hands = evictions(KernelTree(tmp_path / "cgroup"), tmp_path)
    assert hands.begin(evict("default/job"), JOB, 0.0) == ""
    assert hands.poll(0.0)["default/job"].done


def test_group_without_a_process_is_no_victim(tmp_path):
    # Nothing would be freed, and the next cycle would choose it again for what it still seems to hold.
    tree = KernelTree(tmp_path / "cgroup")
    tree.add("be/job")
    hands = evictions(tree, tmp_path)
    assert hands.begin(evict("default/job"), JOB, 0.0) == "no process is left in its group"
    assert hands.poll(0.0) == {}


def test_group_made_anew_is_not_the_victim(tmp_path):
    tree = KernelTree(tmp_path / "cgroup")
    tree.add("be/job", pids=(NOBODY,))
    hands = evictions(tree, tmp_path)
    hands.begin(evict("default/job"), JOB, 0.0)
    assert not hands.poll(1.0)["default/job"].done
    tree.recreate("be/job")
    tree.set_pids("be/job", os.getpid())
    assert hands.poll(20.0)["default/job"].done


@pytest.mark.parametrize(("layout", "group"), [("v2", "unified"), ("hybrid", "unified")])
def test_cgroup_kill_comes_after_the_shorter_of_both_grace_periods(tmp_path, layout, group):
    tree = KernelTree(tmp_path / "cgroup", layout)
    tree.add("be/job", pids=(NOBODY,))
    hands = evictions(tree, tmp_path)
    hands.begin(evict("default/job", grace=2.0), JOB, 0.0)
    assert not hands.poll(1.9)["default/job"].done
    assert tree.writes == []
    hands.poll(2.0)
    assert tree.writes[0][0].endswith("/be/job/cgroup.kill")
    assert tree.writes[0][0].startswith(("unified", "memory"))
    assert group


def test_unified_group_that_holds_others_too_is_not_killed(tmp_path):
    tree = KernelTree(tmp_path / "cgroup", "hybrid")
    tree.add("be/job", pids=(NOBODY,))
    (tmp_path / "cgroup/unified/be/job/cgroup.procs").write_text(f"{NOBODY}\n{NOBODY + 1}\n")
    hands = evictions(tree, tmp_path)
    hands.begin(evict("default/job", grace=0.0), JOB, 0.0)
    hands.poll(1.0)
    assert not any("cgroup.kill" in name for name, _ in tree.writes)


def test_v1_freezes_kills_and_thaws(tmp_path):
    tree = KernelTree(tmp_path / "cgroup")
    tree.add("be/job", pids=(NOBODY,))
    hands = evictions(tree, tmp_path)
    hands.begin(evict("default/job", grace=0.0), JOB, 0.0)
    assert tree.writes == [("freezer:/be/job/freezer.state", "FROZEN"), ("freezer:/be/job/freezer.state", "THAWED")]


@pytest.mark.parametrize("name", ["cgroup.procs", ""])
def test_processes_that_cannot_be_listed_are_not_taken_for_ended(tmp_path, name):
    tree = KernelTree(tmp_path / "cgroup")
    tree.add("be/job", pids=(NOBODY,))
    hands = evictions(tree, tmp_path)
    hands.begin(evict("default/job"), JOB, 0.0)
    tree.fail(name, errno.EMFILE, call="read" if name else "children")
    assert "Too many open files" in hands.begin(evict("default/other"), JOB, 1.0)
    assert hands.poll(1.0) == {"default/job": EvictionProgress(done=False)}
    tree.heal()
    tree.set_pids("be/job")
    assert hands.poll(2.0) == {"default/job": EvictionProgress(done=True)}


def test_frozen_group_below_is_thawed_after_the_kill(tmp_path):
    tree = KernelTree(tmp_path / "cgroup", "hybrid")
    tree.add("be/job", pids=(NOBODY,))
    tree.add("be/job/inner", freezer_state="FROZEN")
    hands = evictions(tree, tmp_path)
    hands.begin(evict("default/job", grace=0.0), JOB, 0.0)
    assert [name.partition(":")[2] for name, _ in tree.writes] == [
        "/be/job/cgroup.kill",
        "/be/job/freezer.state",
        "/be/job/inner/freezer.state",
    ]
    assert tree.text("be/job/inner", "freezer.state") == "THAWED"


def test_processes_are_found_in_the_hierarchy_that_has_them(tmp_path, sleepers):
    tree = KernelTree(tmp_path / "cgroup")
    tree.add("be/job")
    (tmp_path / "cgroup/cpu/be/job/cgroup.procs").write_text(f"{sleepers[0].pid}\n")
    hands = evictions(tree, tmp_path)
    assert hands.begin(evict("default/job"), JOB, 0.0) == ""
    assert sleepers[0].wait(60) == -signal.SIGTERM


def test_agent_that_is_moved_into_the_victim_does_not_end_itself(tmp_path):
    tree = KernelTree(tmp_path / "cgroup")
    tree.add("be/job", pids=(NOBODY,))
    hands = evictions(tree, tmp_path)
    hands.begin(evict("default/job"), JOB, 0.0)
    tree.set_pids("be/job", NOBODY, os.getpid())
    assert "this agent itself" in hands.poll(1.0)["default/job"].error
    assert hands.poll(2.0) == {}


def test_reason_of_a_victim_that_does_not_end_names_the_freezer_above(tmp_path):
    tree = KernelTree(tmp_path / "cgroup")
    tree.add("be/job", pids=(NOBODY,))
    (tmp_path / "cgroup/freezer/be/job/freezer.parent_freezing").write_text("1\n")
    hands = evictions(tree, tmp_path)
    hands.begin(evict("default/job", grace=0.0), JOB, 0.0)
    assert "a freezer group above" in hands.poll(30.0)["default/job"].error


def test_process_that_does_not_end_is_a_failure_in_the_end(tmp_path):
    tree = KernelTree(tmp_path / "cgroup")
    tree.add("be/job", pids=(NOBODY,))
    hands = evictions(tree, tmp_path)
    hands.begin(evict("default/job", grace=5.0), JOB, 0.0)
    hands.poll(5.0)
    assert hands.poll(34.9)["default/job"].error == ""
    assert f"process {NOBODY}" in hands.poll(35.0)["default/job"].error
    assert hands.poll(36.0) == {}


@pytest.fixture
def sleepers():
    started = [subprocess.Popen(["sleep", "60"]) for _ in range(2)]
    yield started
    for each in started:
        each.kill()
        each.wait()


def test_a_process_that_is_born_while_the_others_are_asked_is_asked_too(tmp_path, sleepers):
    first, born = sleepers

    class Forking(KernelTree):
        looks = 0

        def pids(self, *_):
            self.looks += 1
            return [first.pid] if self.looks < 4 else [first.pid, born.pid]

    tree = Forking(tmp_path / "cgroup")
    tree.add("be/job")
    hands = evictions(tree, tmp_path)
    assert hands.begin(evict("default/job"), JOB, 0.0) == ""
    assert first.wait(60) == -signal.SIGTERM
    hands.poll(1.0)
    assert born.wait(60) == -signal.SIGTERM
