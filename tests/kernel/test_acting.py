"""The acting side against the real kernel."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from acting import burst, cpus, evict, limit, results, unburst, unlimit
from qosmanager.execute.dialect import quota_text
from qosmanager.execute.resource_executor import ResourceExecutor
from qosmanager.linux.boot import LinuxBoot
from qosmanager.linux.evictions import LocalEvictions
from qosmanager.linux.journal import FileJournal
from qosmanager.linux.processes import ProcScores
from qosmanager.linux.systemd import Systemd
from qosmanager.model.actions import Plan, Result, Standing
from qosmanager.model.qos import QoS
from qosmanager.model.snapshot import Node, Snapshot
from qosmanager.model.workload import Container, Placement, Workload
from real_groups import obstacle, real_groups
from waiting import PATIENCE, wait

WHY_NOT = obstacle()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))


@pytest.fixture
def groups():
    yield from real_groups()


class Agent:
    """An executor over the real kernel, one BE parent "be", pods by name."""

    def __init__(self, groups, state):
        self.groups = groups
        self.journal = FileJournal(state)
        self.executor = ResourceExecutor(groups.kernel, self.journal, ProcScores(), LinuxBoot())
        self.pods = {}
        self.standing = Standing()
        self.now = 0.0

    def pod(self, name, qos, *containers):
        group = self.groups.path(name)
        parts = tuple(Container(name=each, cgroup=f"{group}/{each}") for each in containers)
        self.pods[f"default/{name}"] = Workload(name=name, qos=qos, cgroup=group, containers=parts)

    def cycle(self, *actions):
        self.now += 1.0
        placement = Placement(workloads=self.pods, be_parent=self.groups.path("be"))
        return self.executor.apply(Plan(actions=actions, standing=self.standing), placement, Snapshot(node=Node(cpus=2.0)), self.now)


@pytest.fixture
def agent(groups, tmp_path):
    groups.add("be")
    return Agent(groups, tmp_path / "state")


def cores_of(text):
    """Cores of a quota file's text, in a period of 100 ms."""
    return int(text.split()[0]) / 100_000


def test_limit_holds_a_busy_group(agent):
    agent.groups.busy("be", 2)
    agent.cycle(limit(0.3))
    # Above: the kernel's own slack of a period or two. Below: only that it runs at all, for others use this machine too.
    wait(lambda: 0.05 < agent.groups.cores("be", 1.0) < 0.3 * 1.2, 20, "the limit to hold it")
    agent.cycle(limit(0.6))
    wait(lambda: 0.05 < agent.groups.cores("be", 1.0) < 0.6 * 1.2, 20, "the limit to hold it")
    agent.cycle(unlimit())
    assert agent.groups.quota(agent.groups.path("be")).split()[0] in ("-1", "max")


def test_cpuset_holds_a_busy_group_on_its_cpu(agent):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU only")
    inner = agent.groups.add("be/pod")
    original = agent.groups.text(inner, "cpuset.cpus")
    busy = agent.groups.busy("be/pod", 2)
    assert set(results(agent.cycle(cpus("1")))) == {Result.APPLIED}
    assert [os.sched_getaffinity(each.pid) for each in busy] == [{1}, {1}]
    assert agent.groups.cores("be", 1.0) < 1.15  # two would take two
    agent.cycle(cpus("0"))
    assert [os.sched_getaffinity(each.pid) for each in busy] == [{0}, {0}]
    agent.executor.restore_all()
    assert agent.groups.text(inner, "cpuset.cpus") == original


def test_burst_really_raises_a_pods_limit(agent):
    version = agent.groups.kernel.version("cpu")
    name = "cpu.cfs_quota_us" if version == 1 else "cpu.max"
    inside = [agent.groups.add(each) for each in ("api", "api/app")]
    agent.groups.busy("api/app")
    wait(lambda: agent.groups.cores("api", 0.2) > 0.01, 20, "it to run")
    # So little that it is this that holds it, however many others want the CPU.
    for group in inside:
        agent.groups.put(group, name, quota_text(version, 0.05, 100_000))
    agent.pod("api", QoS.LS, "app")
    wait(lambda: 0.0 < agent.groups.cores("api", 1.0) < 0.05 * 1.25, 20, "its limit to hold it")
    assert results(agent.cycle(burst("default/api", 0.15, 0.05))) == [Result.APPLIED, Result.APPLIED]
    wait(lambda: 0.05 * 1.25 < agent.groups.cores("api", 1.0) < 0.15 * 1.2, 20, "the burst to be used")
    agent.cycle(unburst("default/api", 0.05))
    assert [cores_of(agent.groups.quota(group)) for group in inside] == [0.05, 0.05]


def test_wrong_order_is_refused_by_the_kernel_and_ours_is_not(agent):
    if agent.groups.kernel.version("cpu") != 1:
        pytest.skip("v2 takes any order")
    parent, child = agent.groups.path("be"), agent.groups.add("be/pod")
    name = "cpu.cfs_quota_us"
    agent.groups.put(child, name, "150000")
    with pytest.raises(OSError, match="Invalid argument") as caught:
        agent.groups.put(parent, name, "50000")
    assert caught.value.errno == errno.EINVAL
    assert set(results(agent.cycle(limit(0.5)))) == {Result.APPLIED}
    with pytest.raises(OSError, match="Invalid argument"):
        agent.groups.put(child, name, "150000")
    assert set(results(agent.cycle(limit(1.0)))) == {Result.APPLIED}
    assert [agent.groups.text(group, name) for group in (parent, child)] == ["100000", "100000"]
    agent.cycle(unlimit())
    assert [agent.groups.text(group, name) for group in (parent, child)] == ["-1", "150000"]


def test_kernel_burst_of_the_group_follows(agent):
    version = agent.groups.kernel.version("cpu")
    quota, kernel_burst = ("cpu.cfs_quota_us", "cpu.cfs_burst_us") if version == 1 else ("cpu.max", "cpu.max.burst")
    group = agent.groups.path("be")
    if not os.path.exists(f"{agent.groups.kernel.directory('cpu', group)}/{kernel_burst}"):
        pytest.skip(f"this kernel has no {kernel_burst}")
    agent.groups.put(group, quota, quota_text(version, 1.0, 100_000))
    agent.groups.put(group, kernel_burst, "80000")
    assert set(results(agent.cycle(limit(0.5)))) == {Result.APPLIED}
    assert agent.groups.text(group, kernel_burst) == "50000"
    agent.cycle(unlimit())
    assert (cores_of(agent.groups.quota(group)), agent.groups.text(group, kernel_burst)) == (1.0, "80000")


def test_drift_is_put_back_on_be_and_adopted_on_ls(agent):
    version = agent.groups.kernel.version("cpu")
    name = "cpu.cfs_quota_us" if version == 1 else "cpu.max"
    api, be = agent.groups.add("api"), agent.groups.path("be")
    agent.groups.put(api, name, quota_text(version, 0.5, 100_000))
    agent.pod("api", QoS.LS)
    agent.cycle(burst("default/api", 0.75, 0.5), limit(0.5))
    for group in (api, be):
        agent.groups.put(group, name, quota_text(version, 0.9, 100_000))
    drifted = agent.cycle()
    assert {(each.result, each.pod) for each in drifted} == {(Result.DRIFTED, None), (Result.DRIFTED, "default/api")}
    assert [cores_of(agent.groups.quota(group)) for group in (be, api)] == [0.5, 0.9]
    agent.executor.restore_all()
    assert cores_of(agent.groups.quota(api)) == 0.9


def test_smallest_weight_unless_idle(agent):
    version = agent.groups.kernel.version("cpu")
    name, smallest = ("cpu.shares", "2") if version == 1 else ("cpu.weight", "1")
    group = agent.groups.path("be")
    own = agent.groups.text(group, name)
    agent.standing = Standing(be_weight=True)
    assert results(agent.cycle()) == [Result.APPLIED]
    assert agent.groups.text(group, name) == smallest
    agent.executor.restore_all()
    assert agent.groups.text(group, name) == own


def test_oom_scores_are_raised_and_put_back(agent):
    agent.groups.add("be/one")
    agent.groups.add("be/job")
    (process,) = agent.groups.busy("be/one")
    inner = agent.groups.start("be/job", sys.executable, "-c", "import time; time.sleep(60)")
    score = Path(f"/proc/{process.pid}/oom_score_adj")
    before = int(score.read_text())
    agent.pods["default/be"] = Workload(name="be", qos=QoS.BE, cgroup=agent.groups.path("be"))
    agent.standing = Standing(oom_score_adj=before + 300)
    assert results(agent.cycle()) == [Result.APPLIED]
    assert int(score.read_text()) == before + 300
    assert int(Path(f"/proc/{inner.pid}/oom_score_adj").read_text()) == before + 300
    agent.executor.restore_all()
    assert int(score.read_text()) == before


STUBBORN = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(1)"


def stubborn(groups, name):
    """A process that ignores SIGTERM, from when this returns on."""
    process = groups.start(name, sys.executable, "-c", STUBBORN)

    def is_deaf():
        status = dict(line.split(":", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
        return int(status["SigIgn"], 16) & 1 << signal.SIGTERM - 1

    wait(is_deaf, 20, "it to ignore SIGTERM")
    return process


def finish(evictions, key, began):
    """Poll, in the evictions' own time, until the pod is gone."""
    polls = itertools.count()

    def is_gone():
        progress = evictions.poll(began + 0.02 * next(polls))[key]
        assert progress.error == ""
        return progress.done

    wait(is_gone, 20, f"{key} to be gone")


def test_eviction_ends_a_process_that_takes_a_hint(agent):
    process = agent.groups.start("be", "sleep", "60")
    evictions = LocalEvictions(agent.groups.kernel, Systemd())
    job = Workload(name="be", qos=QoS.BE, cgroup=agent.groups.path("be"), grace=30.0)
    assert evictions.begin(evict("default/be"), job, 0.0) == ""
    assert process.wait(10 * PATIENCE) == -signal.SIGTERM
    finish(evictions, "default/be", 1.0)


def test_eviction_ends_a_process_that_ignores_the_hint(agent):
    agent.groups.add("be/inner")
    process = stubborn(agent.groups, "be/inner")
    evictions = LocalEvictions(agent.groups.kernel, Systemd())
    job = Workload(name="be", qos=QoS.BE, cgroup=agent.groups.path("be"), grace=30.0)
    assert evictions.begin(evict("default/be", grace=1.0), job, 0.0) == ""
    evictions.poll(0.9)
    time.sleep(0.2)
    assert process.poll() is None
    finish(evictions, "default/be", 1.0)
    assert process.wait(10 * PATIENCE) == -signal.SIGKILL


def test_freezer_is_thawed_after_the_kill(agent):
    if agent.groups.kernel.version("freezer") != 1:
        pytest.skip("the freezer is v2's here")
    group = agent.groups.path("be")
    # Without the unified group, so that cgroup.kill cannot be used.
    process = stubborn(agent.groups, "be")
    if agent.groups.kernel.version("unified") is not None:
        Path(agent.groups.kernel.directory("unified", ""), "cgroup.procs").write_text(str(process.pid))
    evictions = LocalEvictions(agent.groups.kernel, Systemd())
    job = Workload(name="be", qos=QoS.BE, cgroup=group)
    assert evictions.begin(evict("default/be", grace=0.0), job, 0.0) == ""
    assert process.wait(10 * PATIENCE) == -signal.SIGKILL
    assert agent.groups.text(group, "freezer.state") == "THAWED"
    finish(evictions, "default/be", 1.0)


@pytest.mark.parametrize("frozen", ["be", "be/inner"])
def test_victim_that_somebody_froze_ends_all_the_same(agent, frozen):
    if agent.groups.kernel.version("freezer") != 1:
        pytest.skip("a task frozen by v2 ends with SIGKILL anyway")
    agent.groups.add("be/inner")
    process = stubborn(agent.groups, "be/inner")
    group = agent.groups.path(frozen)
    agent.groups.put(group, "freezer.state", "FROZEN")
    evictions = LocalEvictions(agent.groups.kernel, Systemd())
    job = Workload(name="be", qos=QoS.BE, cgroup=agent.groups.path("be"))
    assert evictions.begin(evict("default/be", grace=0.0), job, 0.0) == ""
    assert process.wait(10 * PATIENCE) == -signal.SIGKILL
    assert agent.groups.text(group, "freezer.state") == "THAWED"
    finish(evictions, "default/be", 1.0)


def test_group_that_is_removed_between_cycles_is_gone_and_no_error(agent):
    agent.cycle(limit(0.5))
    for directory in agent.groups._directories(agent.groups.path("be")):
        os.rmdir(directory)
    assert set(results(agent.cycle())) == {Result.GONE}
    agent.groups.add("be")
    assert results(agent.cycle()) == [Result.APPLIED]


def test_group_made_anew_between_cycles_is_another_group(agent):
    # The descriptor that is kept open belongs to the old one for ever.
    agent.cycle(limit(0.5))
    assert agent.cycle() == ()
    for directory in agent.groups._directories(agent.groups.path("be")):
        os.rmdir(directory)
    agent.groups.add("be")
    assert results(agent.cycle()) == [Result.GONE, Result.APPLIED]
    assert cores_of(agent.groups.quota(agent.groups.path("be"))) == 0.5
    assert agent.cycle() == ()
