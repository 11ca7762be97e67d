import os
import subprocess
import sys
from pathlib import Path

import pytest

from qosmanager.demo.groups import PREFIX, Groups, GroupsError, remove_stale
from qosmanager.demo.processes import end, start
from qosmanager.linux.cgroup import CgroupRootError, Hierarchies
from waiting import PATIENCE, wait

ROOT = Path("/sys/fs/cgroup")
MEMORY = 256 * 2**20


def obstacle():
    if os.geteuid() != 0:
        return "needs root"
    try:
        Groups.create(Hierarchies.probe(ROOT), MEMORY).remove()
    except (CgroupRootError, GroupsError) as error:
        return str(error)
    return None


WHY_NOT = obstacle()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))


@pytest.fixture
def groups():
    made = Groups.create(Hierarchies.probe(ROOT), MEMORY)
    yield made
    made.remove()


def test_a_process_is_held_and_its_cpu_measured(groups):
    groups.add("work")
    process = start("batch", "crunch", "--seconds", "600", group=(groups, "work"))
    try:
        assert groups.pids() == {process.pid}
        wait(lambda: groups.cpu_seconds("work") >= 0.3, 15, "it to use CPU")
    finally:
        end(process)


def test_the_whole_is_bounded(groups):
    hierarchies = Hierarchies.probe(ROOT)
    name = "memory.max" if hierarchies.version("memory") == 2 else "memory.limit_in_bytes"
    assert groups.values()[f"memory:/{groups.name}/{name}"] == str(MEMORY)


def test_kernel_kills_are_counted(groups):
    groups.add("work")
    assert groups.kernel_kills() == 0
    process = start("batch", "grow", "--seconds", "600", "--rate", "400", group=(groups, "work"))
    assert process.wait(25 * PATIENCE) == -9
    assert groups.kernel_kills() == 1


def test_values_show_every_change(groups):
    before = groups.values()
    weight = next(file for file in before if file.endswith(("cpu.shares", "cpu.weight")))
    path = Hierarchies.probe(ROOT).directory("cpu", groups.name) + "/" + weight.rpartition("/")[2]
    Path(path).write_text("50")
    after = groups.values()
    assert {file for file in before if after[file] != before[file]} == {weight}


def test_nothing_is_left(groups):
    groups.add("batch", parent=True)
    groups.add("batch/work")
    process = start("batch", "crunch", "--seconds", "600", group=(groups, "batch/work"))
    assert groups.left()
    groups.remove()
    assert groups.left() == []
    assert end(process) == -9


def test_groups_of_a_demo_that_is_gone_are_removed_and_those_of_a_living_one_stay(groups):
    script = (
        "from pathlib import Path; from qosmanager.demo.groups import Groups; from qosmanager.linux.cgroup import Hierarchies;"
        f"g = Groups.create(Hierarchies.probe(Path('{ROOT}')), {MEMORY}); g.add('batch', parent=True); g.add('batch/x'); print(g.name)"
    )
    name = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.strip()
    hierarchies = Hierarchies.probe(ROOT)
    assert os.path.isdir(hierarchies.directory("memory", f"{name}/batch/x"))
    assert name in remove_stale(hierarchies)
    assert not os.path.exists(hierarchies.directory("memory", name))
    assert groups.name == f"{PREFIX}{os.getpid()}"
    assert groups.left()


def test_a_tree_that_cannot_be_written_says_why():
    hierarchies = Hierarchies(ROOT, {name: (1, Path("/proc/sys")) for name in ("cpu", "cpuacct", "memory")})
    with pytest.raises(GroupsError, match="cannot be written"):
        Groups.create(hierarchies, MEMORY)


def test_a_missing_controller_is_named():
    with pytest.raises(GroupsError, match="cgroup controller memory is not available"):
        Groups.create(Hierarchies(ROOT, {"cpu": (1, ROOT / "cpu"), "cpuacct": (1, ROOT / "cpuacct")}), MEMORY)
