from proc_tree import ProcTree
from qosmanager.linux.topology import read_topology
from qosmanager.model.snapshot import CpuId


def test_cores_sockets_and_numa_nodes(tmp_path):
    assert read_topology(ProcTree(tmp_path).sysfs) == (
        CpuId(0, core=0, socket=0, numa=0),
        CpuId(1, core=1, socket=1, numa=1),
        CpuId(2, core=0, socket=0, numa=0),
        CpuId(3, core=1, socket=1, numa=1),
    )


def test_only_online_cpus(tmp_path):
    tree = ProcTree(tmp_path)
    (tree.sysfs / "devices/system/cpu/online").write_text("1,3\n")
    assert [place.cpu for place in read_topology(tree.sysfs)] == [1, 3]


def test_a_platform_that_does_not_tell(tmp_path):
    (tmp_path / "devices/system/cpu").mkdir(parents=True)
    (tmp_path / "devices/system/cpu/online").write_text("0-1\n")
    assert read_topology(tmp_path) == (CpuId(0, core=0), CpuId(1, core=1))
