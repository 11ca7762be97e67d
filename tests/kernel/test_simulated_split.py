"""The simulator against the kernel: how one CPU is split, and how long the service's group stalls, in small situations.

Each is measured on real groups and in the model; use in cores and stall as a share of the time agree within 5 points. On more than one CPU
the kernel's own figure is not one number: two threads beside two on two CPUs stall half of the time or all of it, as they came to lie.
What is measured while others take part of that CPU (other groups, interrupts, the host of a virtual machine) says nothing of the split: it
is measured again.
"""

import os
import time
from pathlib import Path

import pytest
from msgspec import Struct

from qosmanager.linux.cgroup import Hierarchies
from qosmanager.model.cpu_list import format_cpus, parse_cpus
from qosmanager.model.workload import CgroupFile
from qosmanager.simulate.load import Loaded, load_scenario
from qosmanager.simulate.node import SimulatedNode
from real_groups import obstacle, real_groups
from waiting import SLOWNESS

WITHIN = 0.05
# What others may take of the CPU, in cores: less than the tolerance. /proc/stat counts in hundredths of a second.
DISTURBED = 0.03
TRIES = 8
SECONDS = 1.2
SETTLED = 0.2
PERIOD = 100_000


class Situation(Struct, frozen=True, kw_only=True):
    """Busy threads of a service and of batch on one CPU; limits in cores (None: none). `raised`: the service's limit in a burst."""

    ls_threads: int = 1
    be_threads: int = 1
    ls_quota: float | None = None
    be_quota: float | None = None
    idle: bool = False
    raised: float | None = None


SITUATIONS = {
    "equal weights": Situation(),
    "batch under a quota": Situation(be_quota=0.3),
    "batch idle": Situation(idle=True),
    "two quotas": Situation(ls_quota=0.4, be_quota=0.3),
    "a burst": Situation(ls_quota=0.3, be_quota=0.3, raised=0.6),
    "two threads under a quota": Situation(ls_threads=2, ls_quota=0.4, be_quota=0.3),
}


class Split(Struct, frozen=True, kw_only=True):
    """Cores, and the share of the time in which some thread of the service waited. `others`: what neither group had and was not idle."""

    ls: float
    be: float
    stall: float
    others: float = 0.0


def why_not():
    reason = obstacle()
    if reason is not None:
        return reason
    hierarchies = Hierarchies.probe(Path("/sys/fs/cgroup"))
    if hierarchies.version("cpu") != 1:
        return "the groups of this test are set up with cgroup v1's files"
    if hierarchies.version("unified") is None:
        return "no v2 mount tells a group's CPU pressure"
    return None


WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
groups = pytest.fixture(real_groups)


def limit(groups, name, cores):
    groups.put(groups.path(name), "cpu.cfs_quota_us", "-1" if cores is None else str(round(cores * PERIOD)))


def stalled(groups, name):
    some = groups.kernel.read(CgroupFile("unified", groups.path(name), "cpu.pressure")).splitlines()[0]
    return int(some.rpartition("=")[2]) / 1e6


def idle_seconds(cpu):
    fields = next(line.split() for line in Path("/proc/stat").read_text().splitlines() if line.startswith(f"cpu{cpu} "))
    idle, waiting_for_io = fields[4:6]
    return (int(idle) + int(waiting_for_io)) / os.sysconf("SC_CLK_TCK")


def measured(groups, cpu):
    def readings():
        return [groups._cpu_seconds("ls"), groups._cpu_seconds("be"), stalled(groups, "ls"), idle_seconds(cpu)]

    began, before = time.monotonic(), readings()
    time.sleep(SECONDS)
    after = readings()
    elapsed = time.monotonic() - began
    ls, be, stall, idle = ((later - earlier) / elapsed for earlier, later in zip(before, after, strict=True))
    return Split(ls=ls, be=be, stall=stall, others=1 - ls - be - idle)


def on_the_kernel(groups, situation):
    # What else runs on the machine has little of the CPU: all of this has the largest weight there is, for these seconds.
    groups.put(groups.top, "cpu.shares", "262144")
    cpu = max(parse_cpus(groups.text(groups.top, "cpuset.cpus")))
    for name in ("ls", "be"):
        groups.add(name)
        groups.put(groups.path(name), "cpuset.cpus", format_cpus([cpu]))
    limit(groups, "ls", situation.ls_quota)
    limit(groups, "be", situation.be_quota)
    if situation.idle:
        groups.put(groups.path("be"), "cpu.idle", "1")
    groups.busy("ls", situation.ls_threads)
    groups.busy("be", situation.be_threads)
    time.sleep(SETTLED + 0.3 * SLOWNESS)
    if situation.raised is not None:
        limit(groups, "ls", situation.raised)
        time.sleep(SETTLED)
    taken = []
    while len(taken) < TRIES:
        split = measured(groups, cpu)
        if split.others <= DISTURBED:
            return split
        taken.append(split.others)
    return pytest.skip(f"others had at least {min(taken):.0%} of CPU {cpu} in each of {TRIES} tries")


def in_the_model(situation):
    limits = "" if situation.ls_quota is None else f"limits: {{cpu: {situation.ls_quota}}}, "
    text = f"""
about: busy loops
duration: 10s
node: {{cpus: 1, system_cpu: 0}}
workloads:
- {{name: ls, qos: LS, {limits}cpu: {{constant: {situation.ls_threads}}}}}
- {{name: be, qos: BE, cpu: {{constant: {situation.be_threads}}}}}
"""
    node = SimulatedNode(Loaded(name="busy", scenario=load_scenario(text, "busy")), 1, 0.0)
    if situation.be_quota is not None:
        node.hold_batch(situation.be_quota, None)
    if situation.idle:
        node.batch.make_idle()
    ls, be = node.pods["default/ls"], node.pods["default/be"]
    node.advance(10)
    if situation.raised is not None:
        node.limit(ls, situation.raised)
    before = (ls.usage, be.usage, ls.stalled)
    node.advance(20)
    return Split(ls=(ls.usage - before[0]) / 2, be=(be.usage - before[1]) / 2, stall=(ls.stalled - before[2]) / 2)


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_model_splits_the_cpu_and_stalls_as_the_kernel_does(name, groups):
    model, kernel = in_the_model(SITUATIONS[name]), on_the_kernel(groups, SITUATIONS[name])
    assert model.ls == pytest.approx(kernel.ls, abs=WITHIN)
    assert model.be == pytest.approx(kernel.be, abs=WITHIN)
    assert model.stall == pytest.approx(kernel.stall, abs=WITHIN)
