import pytest

from kernel_tree import KernelTree
from proc_tree import ProcTree
from qosmanager.linux.group_node import GroupNode
from qosmanager.linux.host import HostNode
from qosmanager.model.workload import CgroupFile

V1_STAT = "total_cache 600\ntotal_rss 300\ntotal_shmem 0\ntotal_swap 50\ntotal_inactive_file 400\ntotal_active_file 200"
V2_STAT = "anon 300\nfile 600\nshmem 0\ninactive_file 400\nactive_file 200\nslab_reclaimable 30\npgscan_kswapd 8\npgscan_direct 7"


def node(tmp_path, layout, **values):
    kernel = KernelTree(tmp_path / "cgroup", layout)
    kernel.add("room", **values)
    proc = ProcTree(tmp_path / "host")
    if layout != "v2":
        (kernel.root / "cpuset/room/cpuset.effective_cpus").write_text("0-2\n")
    return GroupNode(kernel.files, "room", HostNode(proc.proc, proc.sysfs)), kernel


def test_v1(tmp_path):
    reader, _ = node(
        tmp_path,
        "v1",
        cpuacct_usage="5000000000",
        memory_limit_in_bytes="2000",
        memory_usage_in_bytes="1100",
        memory_stat=V1_STAT,
        cpu_cfs_quota_us="150000",
    )
    counters = reader.read()
    assert counters.cpus == 1.5  # the quota, inside three CPUs
    assert [place.cpu for place in counters.topology] == [0, 1, 2]
    assert counters.cpu_busy == 5.0
    assert counters.memory_total == 2000
    assert counters.memory_available == 2000 - (1100 - 600)
    assert counters.swap_used == 50
    assert counters.load1 is None
    assert "whole machine" in counters.missing["load1"]
    assert counters.missing.keys() >= {"iowait", "disk_util", "net_util", "cpu_psi_some", "pgscan_direct"}


def test_v2(tmp_path):
    reader, kernel = node(
        tmp_path,
        "v2",
        cpu_max="max 100000",
        memory_max="2000",
        memory_current="1100",
        memory_stat=V2_STAT,
        memory_swap_current="5",
        cpuset_cpus="0-1",
    )
    kernel.put(CgroupFile("cpu", "room", "memory.pressure"), "some avg10=1.00 total=1\nfull avg10=0.50 total=1")
    counters = reader.read()
    assert counters.cpus == 2.0
    assert counters.memory_available == 2000 - (1100 - 630)
    assert (counters.pgscan_direct, counters.pgscan_kswapd) == (7, 8)
    assert counters.swap_used == 5
    assert counters.memory_psi_full == 0.5


def test_a_limit_above_holds_too(tmp_path):
    kernel = KernelTree(tmp_path / "cgroup", "v1")
    kernel.add("house", cpu_cfs_quota_us="100000", memory_limit_in_bytes="1000")
    kernel.add("house/room", memory_stat=V1_STAT, memory_usage_in_bytes="700")
    proc = ProcTree(tmp_path / "host")
    counters = GroupNode(kernel.files, "house/room", HostNode(proc.proc, proc.sysfs)).read()
    assert counters.cpus == 1.0
    assert counters.memory_total == 1000


def test_a_group_without_a_memory_limit_has_what_the_machine_has(tmp_path):
    reader, _ = node(tmp_path, "v1", memory_stat=V1_STAT, memory_usage_in_bytes="700")
    counters = reader.read()
    assert counters.memory_total == (16384000 - 1048576) * 1024
    assert counters.memory_available == 8000000 * 1024


def test_a_group_that_is_not_there(tmp_path):
    kernel = KernelTree(tmp_path / "cgroup", "v1")
    with pytest.raises(FileNotFoundError):
        GroupNode(kernel.files, "nobody")
    with pytest.raises(ValueError, match="root"):
        GroupNode(kernel.files, "/")


@pytest.mark.parametrize("layout", ["v1", "v2"])
def test_memory_that_cannot_be_understood_is_not_measured_and_the_rest_is(tmp_path, layout):
    reader, _ = node(tmp_path, layout, memory_stat="anon 300")
    counters = reader.read()
    assert (counters.cpu_busy, counters.memory_available) == (0.0, None)
    assert "inactive_file" in counters.missing["memory_available"]
