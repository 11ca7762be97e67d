"""What only cgroup v2 has, on a kernel that has nothing else: freeze, kill, stall of one group, idle."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from qosmanager.linux.cgroup_reader import CgroupReaders
from qosmanager.model.workload import CgroupFile
from real_groups import obstacle, real_groups
from waiting import PATIENCE, wait

WHY_NOT = obstacle()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))


@pytest.fixture
def groups():
    made = real_groups()
    groups = next(made)
    if groups.kernel.version("cpu") != 2:
        made.close()
        pytest.skip("the cpu controller is v1 here")
    yield groups
    made.close()


def file(groups, name, text):
    return CgroupFile("unified", groups.path(name), text)


def test_a_frozen_group_uses_nothing_until_it_is_thawed(groups):
    groups.add("be")
    groups.busy("be")
    wait(lambda: groups.cores("be", 0.2) > 0.1, 10, "it to run")
    groups.kernel.write(file(groups, "be", "cgroup.freeze"), "1")
    wait(lambda: "frozen 1" in groups.kernel.read(file(groups, "be", "cgroup.events")), 10, "it to freeze")
    assert groups.cores("be", 0.5) == 0.0
    groups.kernel.write(file(groups, "be", "cgroup.freeze"), "0")
    wait(lambda: groups.cores("be", 0.2) > 0.1, 10, "it to run again")


def test_kill_ends_everything_below_a_group(groups):
    for name in ("be", "be/one", "be/one/deep", "be/two"):
        groups.add(name)
    processes = [groups.start(name, "sleep", "60") for name in ("be/one/deep", "be/two")]
    groups.kernel.write(file(groups, "be", "cgroup.kill"), "1")
    assert [process.wait(10 * PATIENCE) for process in processes] == [-9, -9]
    wait(lambda: "populated 0" in groups.kernel.read(file(groups, "be", "cgroup.events")), 10, "nobody to be left")


def test_stall_of_a_group_is_its_own(groups):
    if not Path("/proc/pressure").exists():
        pytest.skip("this kernel has no PSI")
    for name in ("held", "free"):
        groups.add(name)
    groups.put(groups.path("held"), "cpu.max", "10000 100000")
    groups.busy("held")
    groups.start("free", "sleep", "60")
    held, free = (CgroupReaders(groups.kernel).open(groups.path(name)) for name in ("held", "free"))
    wait(lambda: is_still(free), 10, "the sleeper to sleep")
    before = held.cpu_stall().total, free.cpu_stall().total
    wait(lambda: held.cpu_stall().total - before[0] > 0.5, 10, "the held group to be stalled for half a second")
    assert free.cpu_stall().total - before[1] < 0.2


def is_still(group):
    before = group.cpu_stall().total
    time.sleep(0.1)
    return group.cpu_stall().total == before


def test_no_idle_group_takes_a_weight(groups):
    group = groups.add("be")
    groups.put(group, "cpu.idle", "1")
    with pytest.raises(OSError, match="Invalid argument"):
        groups.put(group, "cpu.weight", "1")
    groups.put(group, "cpu.idle", "0")
    groups.put(group, "cpu.weight", "1")
    assert groups.text(group, "cpu.weight") == "1"
