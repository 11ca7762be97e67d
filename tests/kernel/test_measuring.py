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
from waiting import wait

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


def cpu_seconds(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_usage_is_what_the_process_used(groups):
    groups.add("work")
    measuring = sampler(groups, work(groups))
    (process,) = groups.busy("work")
    wait(lambda: cpu_seconds(process) > 0.1, 20, "it to run")
    seen = []

    def is_what_it_used():
        """Two looks at the same seconds, unless somebody takes the CPU between them."""
        pod(measuring)
        before, began = cpu_seconds(process), time.monotonic()
        time.sleep(1)
        usage = pod(measuring).cpu.usage
        seen.append((usage, (cpu_seconds(process) - before) / (time.monotonic() - began)))
        return usage == pytest.approx(seen[-1][1], abs=0.03) and usage > 0.05

    wait(is_what_it_used, 20, "the usage to be what was used: ", lambda: str(seen))


def test_throttling_and_waiting_under_a_quota(groups):
    groups.add("work")
    measuring = sampler(groups, work(groups))
    groups.busy("work", 2)
    wait(lambda: groups.cores("work", 0.5) > 0.02, 20, "it to run")
    # So little that it is this that holds them, however many others want the CPU.
    limit(groups, "work", 0.02)
    time.sleep(0.5)
    pod(measuring)
    time.sleep(2)
    cpu = pod(measuring).cpu
    assert cpu.limit == pytest.approx(0.02)
    assert 0 < cpu.usage < 0.1
    assert cpu.throttled > 0.5
    if groups.kernel.version("unified") and Path("/proc/pressure").exists():
        assert 0.5 * cpu.usage < cpu.wait <= cpu.usage


def test_shared_memory_is_held_memory(groups, tmp_path):
    groups.add("work")
    measuring = sampler(groups, work(groups))
    ready = tmp_path / "ready"
    groups.start("work", sys.executable, "-c", SHMEM, str(ready))
    wait(ready.exists, 20, "the memory to be held")
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
    wait(lambda: (pod(measuring).cpu.usage or 0) > 0.1, 20, "its usage")
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
    seen = []

    def is_its_own():
        time.sleep(1)
        seen.append(measuring.sample()[0])
        return seen[-1].node.cpu_usage == pytest.approx(seen[-1].pods[0].cpu.usage, abs=0.05) and seen[-1].node.cpu_usage > 0.1

    wait(
        is_its_own, 20, "the node's usage to be its pod's: ", lambda: str([(each.node.cpu_usage, each.pods[0].cpu.usage) for each in seen])
    )
    snapshot = seen[-1]
    assert snapshot.node.cpus == 0.5
    assert snapshot.node.load1 is None
    assert "whole machine" in snapshot.missing["node.load1"]
