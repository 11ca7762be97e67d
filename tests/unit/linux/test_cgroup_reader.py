import math

import pytest

from kernel_tree import KernelTree
from qosmanager.collect.readings import GroupGoneError
from qosmanager.linux.cgroup_reader import CgroupReaders, home_controller
from qosmanager.model.workload import CgroupFile

LAYOUTS = ("v1", "v2", "hybrid")
STALL = "some avg10=12.50 avg60=1.00 avg300=0.10 total=2500000\nfull avg10=3.00 avg60=0.00 avg300=0.00 total=0"


def opened(tree, group="web", **values):
    tree.add(group, **values)
    return CgroupReaders(tree.files).open(group)


def test_cpu_time_and_throttling_on_v1(tmp_path):
    tree = KernelTree(tmp_path, "v1")
    reader = opened(tree, cpuacct_usage="2500000000", cpu_cfs_quota_us="150000")
    tree.put(CgroupFile("cpu", "web", "cpu.stat"), "nr_periods 40\nnr_throttled 10\nthrottled_time 123\nnr_bursts 0\nburst_time 0")
    assert reader.cpu() == (2.5, 40, 10)
    assert reader.throttling() == (40, 10)


def test_cpu_time_and_throttling_on_v2(tmp_path):
    tree = KernelTree(tmp_path, "v2")
    reader = opened(tree)
    tree.put(CgroupFile("cpu", "web", "cpu.stat"), "usage_usec 2500000\nuser_usec 1\nsystem_usec 2\nnr_periods 40\nnr_throttled 10")
    assert reader.cpu() == (2.5, 40, 10)
    assert reader.throttling() == (40, 10)


def test_usage_without_the_cpu_controller(tmp_path):
    tree = KernelTree(tmp_path, "v2")
    reader = opened(tree)
    tree.put(CgroupFile("cpu", "web", "cpu.stat"), "usage_usec 2500000\nuser_usec 1\nsystem_usec 2")
    assert reader.cpu() == (2.5, None, None)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_quota_is_infinity(tmp_path, layout):
    assert opened(KernelTree(tmp_path, layout)).quota() == math.inf


def test_quota_in_cores(tmp_path):
    assert opened(KernelTree(tmp_path / "1", "v1"), cpu_cfs_quota_us="25000", cpu_cfs_period_us="50000").quota() == 0.5
    assert opened(KernelTree(tmp_path / "2", "v2"), cpu_max="150000 100000").quota() == 1.5


def test_the_request_that_a_weight_stands_for(tmp_path):
    assert opened(KernelTree(tmp_path / "1", "v1"), cpu_shares="512").weight() == 0.5
    assert opened(KernelTree(tmp_path / "2", "v1"), cpu_shares="2").weight() is None
    # kubelet writes 1 + (512 - 2) * 9999 / 262142 = 20.45, cut to 20, for half a core
    assert opened(KernelTree(tmp_path / "3", "v2"), cpu_weight="20").weight() == pytest.approx(0.5, abs=0.02)
    assert opened(KernelTree(tmp_path / "4", "v2"), cpu_weight="1").weight() is None


def test_held_memory_is_anonymous_and_shmem_and_swap_but_no_cache(tmp_path):
    one = opened(
        KernelTree(tmp_path / "1", "v1"),
        memory_stat="cache 900\nrss 1\nshmem 2\ntotal_cache 900\ntotal_rss 100\ntotal_shmem 20\ntotal_swap 3",
    )
    assert one.held_memory() == 123
    two = opened(KernelTree(tmp_path / "2", "v2"), memory_stat="anon 100\nfile 900\nshmem 20", memory_swap_current="3")
    assert two.held_memory() == 123


def test_memory_limits(tmp_path):
    assert opened(KernelTree(tmp_path / "1", "v1")).memory_limit() is None
    assert opened(KernelTree(tmp_path / "2", "v1"), memory_limit_in_bytes="1048576").memory_limit() == 1048576
    assert opened(KernelTree(tmp_path / "3", "v2")).memory_limit() is None
    assert opened(KernelTree(tmp_path / "4", "v2"), memory_max="1048576").memory_limit() == 1048576


def test_pressure_on_v2(tmp_path):
    reader = opened(KernelTree(tmp_path, "v2"), cpu_pressure=STALL, memory_pressure=STALL, io_pressure=STALL)
    assert reader.cpu_stall() == (12.5, 2.5)
    assert reader.stall_averages() == (3.0, 12.5)


def test_pressure_on_a_hybrid_host_comes_from_the_same_path_under_unified(tmp_path):
    tree = KernelTree(tmp_path, "hybrid")
    reader = opened(tree)
    tree.put(CgroupFile("unified", "web", "cpu.pressure"), STALL)
    tree.put(CgroupFile("unified", "web", "cgroup.events"), "populated 1\nfrozen 0")
    assert reader.cpu_stall() == (12.5, 2.5)


def test_an_empty_twin_under_unified_tells_nothing_until_it_is_populated(tmp_path):
    tree = KernelTree(tmp_path, "hybrid")
    reader = opened(tree)
    tree.put(CgroupFile("unified", "web", "cgroup.events"), "populated 0\nfrozen 0")
    for _ in range(2):
        with pytest.raises(ValueError, match="none of its processes"):
            reader.cpu_stall()
        with pytest.raises(ValueError, match="none of its processes"):
            reader.stall_averages()
    tree.put(CgroupFile("unified", "web", "cgroup.events"), "populated 1\nfrozen 0")
    assert reader.cpu_stall().total == 0.0
    assert reader.stall_averages() == (0.0, 0.0)


def test_no_pressure_on_v1(tmp_path):
    with pytest.raises(FileNotFoundError):
        opened(KernelTree(tmp_path, "v1")).cpu_stall()


def test_bytes_moved(tmp_path):
    tree = KernelTree(tmp_path / "1", "v1")
    reader = opened(tree)
    text = "254:0 Read 100\n254:0 Write 20\n254:0 Sync 7\n254:0 Total 120\n7:0 Read 1\nTotal 121"
    (tree.root / "blkio/web/blkio.throttle.io_service_bytes_recursive").write_text(text)
    assert reader.io() == (101, 20)
    two = opened(
        KernelTree(tmp_path / "2", "v2"), io_stat="254:0 rbytes=100 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n7:0 rbytes=1 wbytes=0"
    )
    assert two.io() == (101, 20)


def test_the_cpuset(tmp_path):
    assert opened(KernelTree(tmp_path, "v1"), cpuset_cpus="0-1,3").cpuset() == (0, 1, 3)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_group_that_is_not_there_has_ended(tmp_path, layout):
    reader = CgroupReaders(KernelTree(tmp_path, layout).files).open("nobody")
    for reading in (reader.cpu, reader.throttling, reader.quota, reader.held_memory, reader.cpu_stall, reader.weight, reader.io):
        with pytest.raises(GroupGoneError):
            reading()


def test_a_missing_file_of_a_living_group_is_no_end(tmp_path):
    tree = KernelTree(tmp_path, "v1")
    tree.add("web")
    (tree.root / "memory/web/memory.stat").unlink()
    with pytest.raises(FileNotFoundError):
        CgroupReaders(tree.files).open("web").held_memory()


@pytest.mark.parametrize("content", ["", "garbage", "nr_periods", "nr_periods x\nnr_throttled 1\n"])
def test_garbage_is_refused_with_a_reason(tmp_path, content):
    tree = KernelTree(tmp_path, "v1")
    reader = opened(tree, cpu_cfs_quota_us="50000")
    (tree.root / "cpu/web/cpu.stat").write_text(content)
    with pytest.raises(ValueError, match=r"."):
        reader.throttling()


def test_the_hierarchy_that_tells_which_groups_there_are(tmp_path):
    assert home_controller(KernelTree(tmp_path / "1", "v1").files) == "cpu"
    assert home_controller(KernelTree(tmp_path / "2", "v2").files) == "cpu"


def test_a_path_that_leaves_the_root_is_refused(tmp_path):
    with pytest.raises(ValueError, match="leaves the cgroup root"):
        CgroupReaders(KernelTree(tmp_path, "v1").files).open("../../etc")
