"""The parts put together (specification, section 9; `--node-cgroup`)."""

from __future__ import annotations

from contextlib import ExitStack

from kernel_tree import KernelTree
from measuring import rule
from qosmanager.cli.parts import Wanted, acting, measuring
from qosmanager.config.settings import Settings
from qosmanager.linux.clock import LinuxClock
from qosmanager.model.qos import QoS
from qosmanager.model.workload import CgroupFile

PRODUCTION = "kubepods/besteffort/pod12345678-1234-1234-1234-123456789abc"


def found(path, node):
    kernel = KernelTree(path, "v1")
    for group in ("node", "node/batch/one", PRODUCTION):
        kernel.add(group)
    kernel.put(CgroupFile("memory", "node", "memory.stat"), "total_inactive_file 0\ntotal_active_file 0")
    with ExitStack() as stack:
        hands = acting(kernel.files.root, None, stack)
        wanted = Wanted(node_cgroup=node, rules=(rule("batch", "node/batch/*", QoS.BE),), settings=Settings())
        measured = measuring(wanted, hands, LinuxClock(), stack)
        first = measured.readings.sample()[1]
        measured.use_rules(wanted.rules)
        return [sorted(each.cgroup for each in placement.workloads.values()) for placement in (first, measured.readings.sample()[1])]


def test_pods_of_the_machine_are_nothing_to_an_agent_whose_node_is_a_group(tmp_path):
    assert found(tmp_path, "/node/") == [["node/batch/one"]] * 2, "at the start and after a reload"


def test_on_the_whole_machine_all_of_them_are_here(tmp_path):
    assert found(tmp_path, None) == [[PRODUCTION, "node/batch/one"]] * 2
