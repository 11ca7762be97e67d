"""The measuring side on the kernel itself: real groups, real processes, real counters."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from measuring import Told, rule
from qosmanager.collect.sampler import Sampler, Sources
from qosmanager.collect.states_informer import RuleSource, StatesInformer
from qosmanager.config.settings import Settings
from qosmanager.linux.cgroup import CgroupRootError, Hierarchies
from qosmanager.linux.cgroup_reader import CgroupReaders
from qosmanager.linux.cgroup_tree import CgroupTree
from qosmanager.linux.group_node import GroupNode
from qosmanager.linux.host import HostNode
from qosmanager.model.qos import QoS

ROOT = Path("/sys/fs/cgroup")
BASE = f"qosm-test-{os.getpid()}-measuring"
CONTROLLERS = ("cpu", "cpuacct", "memory", "unified")
BUSY = "while True: pass"
SHMEM = """
import os, sys, time
file = os.memfd_create("held")
for _ in range(30):
    os.write(file, bytes(1 << 20))
print("ready", flush=True)
time.sleep(60)
"""


class Groups:
    """Groups of this test below one of their own, in every hierarchy."""

    def __init__(self, hierarchies):
        self.hierarchies = hierarchies
        self.processes = []
        self.add("")

    def directories(self, name):
        controllers = [controller for controller in CONTROLLERS if self.hierarchies.version(controller)]
        return sorted({self.hierarchies.directory(controller, f"{BASE}/{name}") for controller in controllers})

    def add(self, name):
        for directory in self.directories(name):
            Path(directory).mkdir(exist_ok=True)
            control = Path(directory).parent / "cgroup.subtree_control"
            if self.hierarchies.version("cpu") == 2:
                control.write_text("+cpu +memory")

    def quota(self, name, cores):
        directory = self.hierarchies.directory("cpu", f"{BASE}/{name}")
        if self.hierarchies.version("cpu") == 2:
            Path(directory, "cpu.max").write_text(f"{int(cores * 100000)} 100000")
        else:
            Path(directory, "cpu.cfs_quota_us").write_text(str(int(cores * 100000)))

    def run(self, name, code):
        """Start a process in a group; it begins once it is there."""
        program = f"import sys; sys.stdin.readline()\n{code}"
        process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        for directory in self.directories(name):
            Path(directory, "cgroup.procs").write_text(str(process.pid))
        process.stdin.write("go\n")
        process.stdin.flush()
        return process

    def end(self, *processes):
        for process in processes:
            process.kill()
            process.communicate()

    def remove(self, name):
        for directory in self.directories(name):
            deadline = time.monotonic() + 5
            while True:
                try:
                    Path(directory).rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    assert time.monotonic() < deadline
                    time.sleep(0.02)

    def close(self):
        self.end(*(process for process in self.processes if process.poll() is None))
        for name in ("again", "work", "job", ""):
            self.remove(name)


def obstacle():
    if os.geteuid() != 0:
        return "needs root"
    try:
        hierarchies = Hierarchies.probe(ROOT)
        if not hierarchies.version("cpu") or not hierarchies.version("memory"):
            return "needs the cpu and memory controllers"
        with contextlib.closing(Groups(hierarchies)):
            return None
    except (CgroupRootError, OSError) as error:
        return f"no cgroups can be made: {error}"


WHY_NOT = obstacle()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))


class SteadyClock:
    def monotonic(self):
        return time.monotonic()

    def wall(self):
        return time.time()


@pytest.fixture
def groups():
    made = Groups(Hierarchies.probe(ROOT))
    yield made
    made.close()


def sampler(groups, *rules, node=None):
    tree, readers = CgroupTree(groups.hierarchies), CgroupReaders(groups.hierarchies)
    informer = StatesInformer(tree, (RuleSource(tree, rules),))
    sources = Sources(
        clock=SteadyClock(), node=node or HostNode(), groups=readers, informer=informer, latencies=Told(), own_limit=lambda _: None
    )
    return Sampler(sources, Settings())


WORK = rule("work", f"{BASE}/work")


def pod(measuring):
    (found,) = measuring.sample()[0].pods
    return found


def cpu_seconds(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_usage_is_what_the_process_used(groups):
    groups.add("work")
    measuring = sampler(groups, WORK)
    process = groups.run("work", BUSY)
    pod(measuring)
    before, began = cpu_seconds(process), time.monotonic()
    time.sleep(2)
    usage = pod(measuring).cpu.usage
    used = (cpu_seconds(process) - before) / (time.monotonic() - began)
    assert usage == pytest.approx(used, abs=0.05)
    assert usage > 0.1


def test_throttling_and_waiting_under_a_quota(groups):
    groups.add("work")
    groups.quota("work", 0.2)
    measuring = sampler(groups, WORK)
    for _ in range(2):
        groups.run("work", BUSY)
    time.sleep(0.5)
    pod(measuring)
    time.sleep(2)
    cpu = pod(measuring).cpu
    assert cpu.limit == pytest.approx(0.2)
    assert 0.05 < cpu.usage < 0.3
    assert cpu.throttled > 0.5
    if groups.hierarchies.version("unified"):
        assert 0.5 * cpu.usage < cpu.wait <= cpu.usage


def test_shared_memory_is_held_memory(groups):
    groups.add("work")
    measuring = sampler(groups, WORK)
    process = groups.run("work", SHMEM)
    assert process.stdout.readline() == "ready\n"
    rss = pod(measuring).memory.rss
    assert 30 << 20 <= rss < 70 << 20


def test_a_group_that_ends_is_gone_in_the_next_sample(groups):
    groups.add("work")
    groups.add("job")
    measuring = sampler(groups, WORK, rule("job", f"{BASE}/job", QoS.BE))
    assert len(measuring.sample()[0].pods) == 2
    groups.remove("job")
    snapshot, placement = measuring.sample()
    assert [found.name for found in snapshot.pods] == ["work"]
    assert placement.workloads.keys() == {"default/work"}


def test_a_group_made_again_under_its_name_is_measured_anew(groups):
    groups.add("work")
    measuring = sampler(groups, WORK)
    process = groups.run("work", BUSY)
    pod(measuring)
    time.sleep(0.5)
    assert pod(measuring).cpu.usage > 0.1
    groups.end(process)
    groups.remove("work")
    groups.add("work")
    assert pod(measuring).cpu.usage in (None, 0.0)
    time.sleep(0.1)
    assert pod(measuring).cpu.usage == 0.0


def test_the_machine_as_the_node(groups):
    measuring = sampler(groups)
    measuring.sample()
    time.sleep(1)
    snapshot, _ = measuring.sample()
    node = snapshot.node
    assert node.cpus == os.cpu_count()
    assert 0.0 <= node.cpu_usage <= node.cpus
    assert 0 < node.memory_available < node.memory_total
    assert len(node.topology) == node.cpus
    assert node.load1 is not None


def test_a_group_as_the_node(groups):
    groups.add("work")
    groups.quota("", 0.5)
    measuring = sampler(groups, WORK, node=GroupNode(groups.hierarchies, BASE))
    groups.run("work", BUSY)
    measuring.sample()
    time.sleep(1.5)
    snapshot, _ = measuring.sample()
    assert snapshot.node.cpus == 0.5
    assert snapshot.node.cpu_usage == pytest.approx(snapshot.pods[0].cpu.usage, abs=0.05)
    assert snapshot.node.load1 is None
    assert "whole machine" in snapshot.missing["node.load1"]
