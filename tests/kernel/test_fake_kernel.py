"""The fake kernel of the unit tests against the real one: the same writes have the same results."""

from __future__ import annotations

import pytest

from kernel_tree import KernelTree
from qosmanager.model.workload import CgroupFile
from real_groups import obstacle, real_groups

WHY_NOT = obstacle()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))

# (group, file, text) in the order in which they are written; "p" is the parent, "p/c" its child, a process sits in the child.
V1 = [
    ("p", "cpu.cfs_quota_us", "50000"),
    ("p/c", "cpu.cfs_quota_us", "60000"),
    ("p/c", "cpu.cfs_quota_us", "40000"),
    ("p", "cpu.cfs_quota_us", "30000"),
    ("p", "cpu.cfs_quota_us", "999"),
    ("p", "cpu.cfs_quota_us", "0"),
    ("p", "cpu.cfs_quota_us", "words"),
    ("p", "cpu.cfs_burst_us", "60000"),
    ("p", "cpu.cfs_burst_us", "50000"),
    ("p", "cpu.cfs_quota_us", "45000"),
    ("p", "cpu.cfs_quota_us", "-1"),
    ("p", "cpu.cfs_quota_us", "45000"),
    ("p", "cpu.cfs_burst_us", "10"),
    ("p", "cpu.cfs_quota_us", "45000"),
    ("p", "cpu.shares", "1"),
    ("p", "cpu.shares", "512"),
    ("p", "cpu.idle", "1"),
    ("p", "cpu.shares", "2"),
    ("p/c", "cpuset.cpus", "5000"),
    ("p/c", "cpuset.cpus", "x"),
    ("p/c", "cpuset.cpus", "\n"),
    ("p", "cpuset.cpus", "0"),
    ("p/c", "cpuset.cpus", "0"),
    ("p", "cpuset.cpus", "0"),
    ("p/c", "cpuset.cpus", "1"),
]
V2 = [
    ("p", "cpu.max", "50000 100000"),
    ("p/c", "cpu.max", "60000 100000"),
    ("p", "cpu.max", "40000"),
    ("p", "cpu.max", "999"),
    ("p", "cpu.max", "0"),
    ("p", "cpu.max", "words"),
    ("p", "cpu.max.burst", "60000"),
    ("p", "cpu.max.burst", "40000"),
    ("p", "cpu.max", "30000"),
    ("p", "cpu.max", "max"),
    ("p", "cpu.max", "45000 100000"),
    ("p", "cpu.max.burst", "10"),
    ("p", "cpu.max", "20000 50000"),
    ("p", "cpu.weight", "0"),
    ("p", "cpu.weight", "1"),
    ("p", "cpu.weight", "10001"),
    ("p", "cpu.idle", "1"),
    ("p", "cpu.weight", "100"),
    ("p", "cpu.idle", "0"),
    ("p", "cpu.weight", "100"),
    ("p/c", "cpuset.cpus", "5000"),
    ("p/c", "cpuset.cpus", "x"),
    ("p", "cpuset.cpus", "0"),
    ("p/c", "cpuset.cpus", "1"),
    ("p/c", "cpuset.cpus", "\n"),
    ("p", "cpuset.cpus", "\n"),
]


@pytest.fixture
def groups():
    yield from real_groups()


def written(kernel, group, name, text):
    file = CgroupFile(name.partition(".")[0], group, name)
    try:
        kernel.write(file, text)
    except OSError as error:
        return error.errno, None
    return None, kernel.read(file)


def test_same_writes_have_the_same_results(groups, tmp_path):
    layout = groups.kernel.version("cpu")
    if layout is None or groups.kernel.version("cpuset") != layout:
        pytest.skip("cpu and cpuset are not of one version here")
    machine = groups.kernel.read(CgroupFile("cpuset", "", "cpuset.cpus" if layout == 1 else "cpuset.cpus.effective"))
    if machine == "0":
        pytest.skip("one CPU only")
    fake = KernelTree(tmp_path, f"v{layout}", cpus=machine)
    for group in ("p", "p/c"):
        groups.add(group)
        fake.add(group)
    process = groups.start("p/c", "sleep", "60")
    fake.set_pids("p/c", process.pid)
    for group, name, text in V1 if layout == 1 else V2:
        real = written(groups.kernel, groups.path(group), name, text)
        assert (name, text, *written(fake, group, name, text)) == (name, text, *real)
