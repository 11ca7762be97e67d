"""The parts put together (specification, section 9; `--node-cgroup`)."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import ExitStack

import pytest
from click.testing import CliRunner

from kernel_tree import KernelTree
from measuring import rule
from qosmanager.cli.errors import CannotRunError
from qosmanager.cli.main import main
from qosmanager.cli.parts import Wanted, acting, alone, hierarchies_at, measuring, own_node
from qosmanager.config.settings import CpuSuppressSettings, Policy, Settings
from qosmanager.linux.clock import LinuxClock
from qosmanager.model.qos import QoS
from qosmanager.model.workload import CgroupFile

CPUSET = Settings(cpu_suppress=CpuSuppressSettings(policy=Policy.CPUSET))

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


def test_under_policy_cpuset_the_cpus_that_batch_may_have_are_measured(tmp_path):
    kernel = KernelTree(tmp_path / "cgroup", "v1")
    kernel.add("batch", cpuset_cpus="2-3")
    kernel.add("batch/one")
    with ExitStack() as stack:
        hands = acting(kernel.files.root, tmp_path / "state", stack)
        wanted = Wanted(node_cgroup=None, rules=(rule("batch", "batch/*", QoS.BE),), settings=CPUSET)
        measured = measuring(wanted, hands, LinuxClock(), stack)
        assert measured.readings.sample()[0].be_cpus == (2, 3)
        measured.use_settings(Settings())
        assert measured.readings.sample()[0].be_cpus == ()


@pytest.mark.parametrize("gone", [("cpu",), ("cpu", "cpuacct"), ("cpu", "cpuacct", "cpuset", "freezer", "blkio")])
def test_one_agent_acts_on_a_node_whatever_controllers_it_has(tmp_path, gone):
    kernel = KernelTree(tmp_path / "cgroup", "v1")
    kernel.add("node")
    for name in gone:
        shutil.rmtree(kernel.root / name)
    hierarchies = hierarchies_at(kernel.root)
    with ExitStack() as stack:
        own_node("node", hierarchies, stack)
        with pytest.raises(CannotRunError, match="another qosmanager"):
            own_node("node", hierarchies, stack)


def test_a_root_where_nothing_can_be_measured_is_said(tmp_path):
    kernel = KernelTree(tmp_path / "cgroup", "v1")
    for name in ("cpu", "cpuacct", "memory"):
        shutil.rmtree(kernel.root / name)
    with pytest.raises(CannotRunError, match=r"^--cgroup-root: no cgroup hierarchy at "):
        hierarchies_at(kernel.root)


@pytest.fixture
def koordlet(tmp_path):
    program = tmp_path / "koordlet"
    shutil.copy(shutil.which("sleep"), program)
    with subprocess.Popen([program, "60"]) as process:
        yield process
        process.kill()


def test_beside_koordlet_nothing_is_written_unless_that_is_asked_for(koordlet, tmp_path):
    kernel = KernelTree(tmp_path / "cgroup", "v1")
    with pytest.raises(CannotRunError, match=rf"koordlet runs on this node \(process {koordlet.pid}\).*--beside-koordlet"):
        alone()
    options = ["run", "--once", "--state-dir", str(tmp_path / "state"), "--cgroup-root", str(kernel.files.root)]
    assert "koordlet runs on this node" in CliRunner().invoke(main, options).output
    assert "CPU pressure" in CliRunner().invoke(main, [*options, "--beside-koordlet"]).output
