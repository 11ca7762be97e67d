"""Standing properties on the kernel itself: what they do to those who run, and that all of it goes back."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

import pytest

from acting import FakeBoot
from qosmanager.execute.resource_executor import ResourceExecutor
from qosmanager.execute.shield import Shield
from qosmanager.linux.journal import FileJournal
from qosmanager.linux.processes import ProcScores
from qosmanager.model.actions import KnobState, Plan, Result, Standing
from qosmanager.model.qos import QoS
from qosmanager.model.snapshot import Node, Snapshot
from qosmanager.model.workload import CgroupFile, Placement, Workload
from real_groups import obstacle, real_groups
from waiting import wait

WHY_NOT = obstacle()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))

MIB = 1 << 20
# All on one CPU, the first that this process may use: so the split does not depend on who is moved where.
ON_ONE_CPU = f"import os\nos.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})\nwhile True: pass"
# Reads the disk past the page cache, piece after piece, for ever.
READER = """
import mmap, os, sys
disk = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
piece, size = mmap.mmap(-1, 65536), os.lseek(disk, 0, os.SEEK_END)
while True:
    for offset in range(0, min(size, 64 << 20), 65536):
        os.preadv(disk, [piece], offset)
"""
# Reads the disk through the page cache, once, then sleeps.
CACHER = """
import os, sys, time
disk = os.open(sys.argv[1], os.O_RDONLY)
for offset in range(0, 64 << 20, 1 << 20):
    os.pread(disk, 1 << 20, offset)
print("read", flush=True)
time.sleep(600)
"""


class Agent:
    """An executor on the kernel over an LS group with a limit of half a core and a BE group with a pod."""

    def __init__(self, groups, state: Path) -> None:
        self.groups = groups
        self.state = state
        for name in ("web", "web/api", "be", "be/job"):
            groups.add(name)
        quota = ("cpu.cfs_quota_us", "50000") if groups.kernel.version("cpu") == 1 else ("cpu.max", "50000 100000")
        groups.put(groups.path("web/api"), *quota)
        self.now = 0.0
        self.start()

    def start(self) -> None:
        """One that knows nothing but the journal."""
        self.executor = ResourceExecutor(self.groups.kernel, FileJournal(self.state), ProcScores(), FakeBoot(), _Bfq())
        self.executor.adopt()

    def keep(self, standing: Standing):
        self.now += 11.0
        top = self.groups.top
        api = Workload(name="api", qos=QoS.LS, cgroup=f"{top}/web/api", cpu_request=2.0, memory_request=64 * MIB)
        pods = {"default/api": api, "default/job": Workload(name="job", qos=QoS.BE, cgroup=f"{top}/be/job")}
        placement = Placement(workloads=pods, be_parent=f"{top}/be")
        return self.executor.apply(Plan(standing=standing), placement, Snapshot(node=Node(cpus=2.0)), self.now)

    def knob(self, name):
        return next(each for each in self.executor.knobs() if each.name == name)

    def contents(self):
        """Every file that a standing property may be in."""
        found = {}
        for group in ("web", "web/api", "be", "be/job"):
            for controller, names in FILES.items():
                for name in names:
                    with contextlib.suppress(OSError):
                        found[group, name] = self.groups.kernel.read(CgroupFile(controller, self.groups.path(group), name))
        return found


class _Bfq:
    """Says that weights count, so that they are written: whether they do something depends on the disk."""

    def weighing(self):
        return True


FILES = {
    "cpu": ("cpu.shares", "cpu.weight", "cpu.idle", "cpu.cfs_burst_us", "cpu.max.burst", "cpu.cfs_quota_us", "cpu.max"),
    "memory": ("memory.high", "memory.low"),
    "blkio": (
        *("blkio.bfq.weight", "blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"),
        *("io.bfq.weight", "io.weight", "io.max"),
    ),
}
ALL = Standing(be_idle=True, services=True, memory_low=True, be_memory_high=256 * MIB, be_io_weight=True, be_io_limit=MIB)


@pytest.fixture
def groups():
    yield from real_groups()


@pytest.fixture
def agent(groups, tmp_path):
    return Agent(groups, tmp_path / "state")


@pytest.fixture
def disk(tmp_path) -> str:
    """A disk, or a file on one, whose reads are counted for the group that reads."""
    if Path("/dev/nvme0n1").exists():
        return "/dev/nvme0n1"
    path = tmp_path / "data"
    path.write_bytes(os.urandom(16 * MIB))
    descriptor = os.open(path, os.O_RDWR)
    os.fsync(descriptor)
    os.close(descriptor)
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
    except OSError as error:
        pytest.skip(f"{tmp_path} is on no disk: {error}")
    return str(path)


def share_of_be(groups):
    """BE's part of the next second of CPU that BE and LS use together; whatever else runs on the machine takes from both."""
    before = used(groups)

    def share():
        ls, be = (after - first for after, first in zip(used(groups), before, strict=True))
        return (be / (ls + be),) if ls + be >= 1.0 else None

    return wait(share, 20, "a second of CPU")[0]


def wait_for_share(groups, least, most):
    seen = []

    def is_within():
        seen.append(share_of_be(groups))
        return least <= seen[-1] <= most

    wait(is_within, 20, f"a share of BE from {least} to {most}: ", lambda: str(seen))


def used(groups):
    found = []
    for name in ("web", "be"):
        if groups.kernel.version("cpuacct") == 1:
            found.append(int(groups.text(groups.path(name), "cpuacct.usage")) / 1e9)
        else:
            found.append(int(groups.kernel.read(CgroupFile("cpu", groups.path(name), "cpu.stat")).split()[1]) / 1e6)
    return found


def test_be_yields_when_it_is_idle_or_has_the_smallest_weight(agent, groups):
    for name in ("web/api", "be/job"):
        groups.start(name, sys.executable, "-c", ON_ONE_CPU)
    groups.put(groups.path("web/api"), *(("cpu.cfs_quota_us", "-1") if groups.kernel.version("cpu") == 1 else ("cpu.max", "max")))
    wait(lambda: all(seconds > 0.1 for seconds in used(groups)), 20, "both to run")
    shield = Shield(groups.kernel)
    wait_for_share(groups, 0.45, 0.55)
    assert shield.shielded([groups.path("be")], [groups.path("web/api")])[0] is False
    for standing in (Standing(be_idle=True), Standing(be_weight=True)):
        agent.keep(standing)
        assert shield.shielded([groups.path("be")], [groups.path("web/api")])[0] is True
        wait_for_share(groups, 0.0, 0.05)
    agent.keep(Standing())
    wait_for_share(groups, 0.45, 0.55)


def test_everything_at_once_is_in_the_kernel_and_goes_back_after_kill_9(agent, groups, disk):
    reader = groups.start("be/job", sys.executable, "-c", READER, disk)
    before = agent.contents()
    wait(lambda: moved(groups) > 0, 20, "a first read")
    receipts = agent.keep(ALL)
    assert not [each for each in receipts if each.result in (Result.FAILED, Result.REFUSED)]
    held = agent.contents()
    v1 = groups.kernel.version("cpu") == 1
    assert held["be", "cpu.idle"] == "1"
    assert held["web/api", "cpu.shares" if v1 else "cpu.weight"] == ("2048" if v1 else "200")
    assert held["web/api", "cpu.cfs_burst_us" if v1 else "cpu.max.burst"] == "50000"
    if groups.kernel.version("memory") == 2:
        assert (held["be", "memory.high"], held["web", "memory.low"], held["web/api", "memory.low"]) == (
            str(256 * MIB),
            str(64 * MIB),
            str(64 * MIB),
        )
    if groups.kernel.version("blkio") is not None:
        limits = held["be", "io.max"] if groups.kernel.version("blkio") == 2 else held["be/job", "blkio.throttle.read_bps_device"]
        assert "1048576" in limits
    agent.start()  # all that the one before knew is gone
    agent.executor.restore_all()
    assert agent.contents() == before
    reader.kill()


def test_who_is_idle_can_be_given_a_weight_again(agent, groups):
    name, own = ("cpu.shares", "700") if groups.kernel.version("cpu") == 1 else ("cpu.weight", "70")
    groups.put(groups.path("be"), name, own)
    for standing in (Standing(be_idle=True), Standing(be_weight=True), Standing(be_idle=True)):
        assert not [each for each in agent.keep(standing) if each.result in (Result.FAILED, Result.REFUSED)]
    agent.start()
    agent.executor.restore_all()
    assert (groups.text(groups.path("be"), name), groups.text(groups.path("be"), "cpu.idle")) == (own, "0")


def stat(groups):
    if groups.kernel.version("blkio") is None:
        pytest.skip("there is no I/O controller here")
    name = "io.stat" if groups.kernel.version("blkio") == 2 else "blkio.throttle.io_service_bytes_recursive"
    return groups.kernel.read(CgroupFile("blkio", groups.path("be"), name))


def moved(groups):
    """Bytes that BE has read."""
    text = stat(groups)
    if groups.kernel.version("blkio") == 2:
        return sum(int(word[7:]) for word in text.split() if word.startswith("rbytes="))
    return sum(int(line.split()[2]) for line in text.splitlines() if " Read " in line)


def test_be_reads_no_more_than_its_io_limit(agent, groups, disk):
    groups.start("be/job", sys.executable, "-c", READER, disk)
    wait(lambda: moved(groups) > 4 * MIB, 20, "the reader to read")
    agent.keep(Standing(be_io_weight=True, be_io_limit=MIB))
    assert agent.knob("BE I/O limit").state is KnobState.IN_FORCE
    time.sleep(1.0)
    began, before = time.monotonic(), moved(groups)
    time.sleep(2.0)
    assert moved(groups) - before <= 1.5 * MIB * (time.monotonic() - began)
    agent.keep(Standing())
    wait(lambda: moved(groups) - before > 16 * MIB, 20, "the reader to read freely")


def test_be_gives_back_page_cache_when_its_memory_is_held(agent, groups, disk):
    if groups.kernel.version("memory") != 2:
        agent.keep(Standing(memory_low=True, be_memory_high=16 * MIB))
        assert agent.knob("BE memory.high").state is KnobState.IMPOSSIBLE
        return
    groups.start("be/job", sys.executable, "-c", CACHER, disk)
    shield = Shield(groups.kernel)
    wait(lambda: (shield.memory(groups.path("be")) or 0) > 60 * MIB, 20, "a full page cache")
    for step in (48, 32, 16):
        agent.keep(Standing(memory_low=True, be_memory_high=step * MIB))
        wait(lambda most=step * MIB * 1.05: (shield.memory(groups.path("be")) or 0) <= most, 20, f"BE at {step} MiB")
    agent.keep(Standing())
    assert groups.text(groups.path("be"), "memory.high") == "max"
