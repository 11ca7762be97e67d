"""The measuring side on the kernel itself: real groups, real processes, real counters."""

import os
import sys
import time
from pathlib import Path

import pytest

from measuring import Told, rule
from qosmanager.collect.sampler import Sampler, Sources
from qosmanager.collect.states_informer import RuleSource, StatesInformer
from qosmanager.config.settings import Settings
from qosmanager.linux.cgroup_reader import CgroupReaders
from qosmanager.linux.cgroup_tree import CgroupTree
from qosmanager.linux.clock import LinuxClock
from qosmanager.linux.group_node import GroupNode
from qosmanager.linux.host import HostNode
from qosmanager.model.qos import QoS
from real_groups import obstacle, real_groups

SHMEM = """
import os, sys, time
file = os.memfd_create("held")
for _ in range(30):
    os.write(file, bytes(1 << 20))
open(sys.argv[1], "w").close()
time.sleep(60)
"""


WHY_NOT = obstacle()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))


groups = pytest.fixture(real_groups)


def sampler(groups, *rules, node=None):
    tree, readers = CgroupTree(groups.kernel), CgroupReaders(groups.kernel)
    informer = StatesInformer(tree, (RuleSource(tree, rules),))
    sources = Sources(
        clock=LinuxClock(), node=node or HostNode(), groups=readers, informer=informer, latencies=Told(), own_limit=lambda _: None
    )
    return Sampler(sources, Settings())


def work(groups):
    return rule("work", groups.path("work"))


def limit(groups, name, cores):
    if groups.kernel.version("cpu") == 2:
        groups.put(groups.path(name), "cpu.max", f"{int(cores * 100000)} 100000")
    else:
        groups.put(groups.path(name), "cpu.cfs_quota_us", str(int(cores * 100000)))


def pod(measuring):
    (found,) = measuring.sample()[0].pods
    return found


def wait_for(path):
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def cpu_seconds(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_usage_is_what_the_process_used(groups):
    groups.add("work")
    measuring = sampler(groups, work(groups))
    (process,) = groups.busy("work")
    pod(measuring)
    before, began = cpu_seconds(process), time.monotonic()
    time.sleep(2)
    usage = pod(measuring).cpu.usage
    used = (cpu_seconds(process) - before) / (time.monotonic() - began)
    assert usage == pytest.approx(used, abs=0.05)
    assert usage > 0.1


def test_throttling_and_waiting_under_a_quota(groups):
    groups.add("work")
    limit(groups, "work", 0.2)
    measuring = sampler(groups, work(groups))
    groups.busy("work", 2)
    time.sleep(0.5)
    pod(measuring)
    time.sleep(2)
    cpu = pod(measuring).cpu
    assert cpu.limit == pytest.approx(0.2)
    assert 0.05 < cpu.usage < 0.3
    assert cpu.throttled > 0.5
    if groups.kernel.version("unified") and Path("/proc/pressure").exists():
        assert 0.5 * cpu.usage < cpu.wait <= cpu.usage


def test_shared_memory_is_held_memory(groups, tmp_path):
    groups.add("work")
    measuring = sampler(groups, work(groups))
    ready = tmp_path / "ready"
    groups.start("work", sys.executable, "-c", SHMEM, str(ready))
    wait_for(ready)
    rss = pod(measuring).memory.rss
    assert 30 << 20 <= rss < 70 << 20


def test_a_group_that_ends_is_gone_in_the_next_sample(groups):
    groups.add("work")
    groups.add("job")
    measuring = sampler(groups, work(groups), rule("job", groups.path("job"), QoS.BE))
    assert len(measuring.sample()[0].pods) == 2
    groups.end("job")
    snapshot, placement = measuring.sample()
    assert [found.name for found in snapshot.pods] == ["work"]
    assert placement.workloads.keys() == {"default/work"}


def test_a_group_made_again_under_its_name_is_measured_anew(groups):
    groups.add("work")
    measuring = sampler(groups, work(groups))
    groups.busy("work")
    pod(measuring)
    time.sleep(0.5)
    assert pod(measuring).cpu.usage > 0.1
    groups.end("work")
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
    limit(groups, "", 0.5)
    measuring = sampler(groups, work(groups), node=GroupNode(groups.kernel, groups.top))
    groups.busy("work")
    measuring.sample()
    time.sleep(1.5)
    snapshot, _ = measuring.sample()
    assert snapshot.node.cpus == 0.5
    assert snapshot.node.cpu_usage == pytest.approx(snapshot.pods[0].cpu.usage, abs=0.05)
    assert snapshot.node.load1 is None
    assert "whole machine" in snapshot.missing["node.load1"]
