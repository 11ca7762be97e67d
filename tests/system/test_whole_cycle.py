"""The whole cycle over a fake kernel that enforces the kernel's rules: v1, v2 and hybrid, and what goes wrong there."""

from __future__ import annotations

import errno
import math

import pytest

from acting import FakeBoot
from measuring import Bench, rule
from qosmanager.config.settings import CpuSuppressSettings, Settings, Strategy
from qosmanager.engine.cycle import Edge
from qosmanager.engine.runner import Runner
from qosmanager.execute.actuator import Enforcer
from qosmanager.execute.evictor import Evictor
from qosmanager.execute.resource_executor import ResourceExecutor
from qosmanager.linux.journal import FileJournal
from qosmanager.model.actions import Evict, Result, SetBeCpuLimit
from qosmanager.model.qos import QoS
from qosmanager.model.state import State
from qosmanager.ports import EvictionProgress

LAYOUTS = ("v1", "v2", "hybrid")
SETTINGS = Settings(cpu_suppress=CpuSuppressSettings(strategy=Strategy.USAGE))
RULES = (
    rule("api", "shop/api", QoS.LS, cpu_request=1.0),
    rule("job", "batch/*", QoS.BE),
)


class NoScores:
    """oom_score_adj of processes that are not there."""

    def identity(self, pid: int) -> str:
        return f"{pid}:1"

    def read(self, pid: int) -> int:
        del pid
        return 1000

    def write(self, identity: str, value: int) -> None:
        raise AssertionError((identity, value))


class NotedEvictions:
    def __init__(self) -> None:
        self.begun: list[str] = []

    def begin(self, action: Evict, workload, now) -> str:
        del workload, now
        self.begun.append(action.pod)
        return ""

    def poll(self, now) -> dict[str, EvictionProgress]:
        del now
        return {}


class World:
    """A 4-CPU node with an LS pod that uses `ls` cores and two BE pods that use `be` cores each, second by second."""

    def __init__(self, path, layout: str) -> None:
        self.bench = Bench(path, RULES, layout)
        self.kernel, self.layout = self.bench.kernel, layout
        for group in ("shop/api", "batch/one", "batch/two"):
            self.kernel.add(group)
        self.journal = FileJournal(path / "state")
        self.executor = ResourceExecutor(self.kernel, self.journal, NoScores(), FakeBoot())
        self.evictions = NotedEvictions()
        self.bench.own = {}
        hands = Enforcer(self.executor, Evictor(self.evictions))
        self.records = []
        self.errors: list[Exception] = []
        self.runner = Runner(Edge(self.bench.sampler, hands, self.bench.clock), SETTINGS, State(), self)
        self.used = {"shop/api": 0.0, "batch/one": 0.0, "batch/two": 0.0}
        self.ls, self.be, self.ticks = 1.0, 0.5, 0.0
        self.cpu()

    def cycle_done(self, record, settings) -> None:
        del settings
        self.records.append(record)

    def cycle_failed(self, error: Exception) -> None:
        self.errors.append(error)

    def cpu(self, seconds: float = 0.0) -> None:
        """Let time pass and the counters with it."""
        self.bench.clock.advance(seconds)
        rates = {"shop/api": self.ls, "batch/one": self.be, "batch/two": self.be}
        for group, rate in rates.items():
            self.used[group] += rate * seconds
            self.put_usage(group, self.used[group])
        self.ticks += sum(rates.values()) * seconds * 100
        idle = self.bench.clock.now * 400 - self.ticks
        self.bench.proc.put(
            "stat", f"cpu  {int(self.ticks)} 0 0 {int(idle)} 0 0 0 0 0 0\n" + "".join(f"cpu{n} 0 0 0 0\n" for n in range(4)) + "ctxt 1\n"
        )

    def put_usage(self, group: str, seconds: float) -> None:
        try:
            if self.layout == "v2":
                self.kernel._put_by_name(
                    group, "cpu_stat", f"usage_usec {int(seconds * 1e6)}\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0"
                )
            else:
                self.kernel._put_by_name(group, "cpuacct_usage", str(int(seconds * 1e9)))
        except FileNotFoundError:
            assert group == "batch/two", "only this one is ever removed"

    def second(self):
        self.cpu(1.0)
        return self.runner.once()

    def seconds(self, count: int):
        for _ in range(count):
            last = self.second()
        return last

    def quota(self, group: str) -> float:
        if self.layout == "v2":
            word, period = self.kernel.text(group, "cpu.max").split()
            return math.inf if word == "max" else int(word) / int(period)
        us = int(self.kernel.text(group, "cpu.cfs_quota_us"))
        return math.inf if us < 0 else us / int(self.kernel.text(group, "cpu.cfs_period_us"))


@pytest.fixture(params=LAYOUTS)
def world(request, tmp_path):
    return World(tmp_path, request.param)


def test_be_is_held_at_its_parent_and_everything_comes_back(world):
    record = world.seconds(4)
    # 4 CPUs x 0.65 - LS 1.0 - system 0
    assert record.state.be_limit == pytest.approx(1.6, abs=0.05)
    assert world.quota("batch") == pytest.approx(record.state.be_limit, abs=0.001)
    assert world.quota("batch/one") == math.inf
    world.executor.restore_all()
    assert world.quota("batch") == math.inf
    assert world.errors == []


def test_more_ls_lowers_the_limit_in_the_kernel_within_a_cycle(world):
    world.seconds(4)
    world.ls = 2.0
    world.second()
    assert world.quota("batch") == pytest.approx(0.6, abs=0.05)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.EINVAL, errno.EBUSY, errno.EIO])
def test_a_write_that_fails_leaves_no_limit_in_force_and_is_tried_again(world, code):
    name = "cpu.max" if world.layout == "v2" else "cpu.cfs_quota_us"
    world.kernel.fail(name, code)
    record = world.seconds(3)
    assert record.state.be_limit is None, "what the kernel refused is not in force"
    assert world.quota("batch") == math.inf
    assert all(receipt.result in (Result.FAILED, Result.REFUSED) for receipt in record.receipts if receipt.action is not None)
    world.kernel.heal()
    record = world.seconds(2)
    assert world.quota("batch") == pytest.approx(record.state.be_limit, abs=0.001)
    assert world.errors == []


def test_a_group_that_vanishes_in_mid_cycle_is_normal(world):
    world.seconds(3)
    name = "cpu.max" if world.layout == "v2" else "cpu.cfs_quota_us"
    world.kernel.fail(name, errno.ENOENT, times=2)
    world.ls = 2.0
    world.second()
    world.kernel.heal()
    world.kernel.remove("batch/two")
    record = world.seconds(3)
    assert {pod.key for pod in record.snapshot.pods} == {"default/api", "default/job-one"}
    assert world.errors == []


@pytest.mark.parametrize("content", ["", "garb", "usage_usec", "-5", "\x00\xff", "9" * 30])
def test_garbage_in_a_pods_counter_makes_it_unmeasured_and_does_not_raise_be(world, content):
    before = world.seconds(4).state.be_limit
    world.ls = 0.2
    group = "shop/api"
    name = "cpu_stat" if world.layout == "v2" else "cpuacct_usage"
    world.cpu(1.0)
    world.kernel._put_by_name(group, name, content)
    record = world.runner.once()
    assert world.errors == []
    pod = next(pod for pod in record.snapshot.pods if pod.key == "default/api")
    assert pod.cpu.usage is None
    assert record.snapshot.missing["pods.default/api.cpu.usage"]
    assert record.state.be_limit <= before
    record = world.seconds(3)
    assert next(pod for pod in record.snapshot.pods if pod.key == "default/api").cpu.usage == pytest.approx(0.2, abs=0.01)


def test_a_counter_that_falls_is_a_reset_and_no_rate(world):
    world.seconds(4)
    world.used["batch/one"] = -0.5
    record = world.second()
    assert next(pod for pod in record.snapshot.pods if pod.key == "default/job-one").cpu.usage is None
    record = world.second()
    assert next(pod for pod in record.snapshot.pods if pod.key == "default/job-one").cpu.usage == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("gap", [7200.0, 30.0])
def test_a_gap_is_a_gap_nothing_is_decided_on_it_and_the_limit_stays(world, gap):
    limit = world.seconds(4).state.be_limit
    world.cpu(gap)
    record = world.runner.once()
    assert record.snapshot.node.cpu_usage is None
    assert record.plan.degraded == ("node_cpu_not_measured",)
    assert record.plan.actions == ()
    assert record.state.be_limit == limit
    assert world.quota("batch") == pytest.approx(limit, abs=0.001)
    record = world.second()
    assert record.plan.degraded == ()


def test_a_clock_that_stands_still_or_jumps_back_gives_no_rate(world):
    limit = world.seconds(4).state.be_limit
    world.bench.clock.now -= 100.0
    record = world.runner.once()
    assert record.plan.actions == ()
    assert record.state.be_limit == limit
    assert world.seconds(2).plan.degraded == ()
    assert world.errors == []


def test_an_unreadable_proc_ages_the_sample_until_it_is_stale_and_then_nothing_moves(world):
    world.seconds(4)
    world.bench.proc.put("stat", "")
    ages, limits = [], []
    for _ in range(6):
        world.bench.clock.advance(1.0)
        record = world.runner.once()
        ages.append(record.snapshot.node_age)
        limits.append(record.state.be_limit)
        assert record.plan.degraded == (("node_stale",) if ages[-1] > 3 else ())
    assert ages == pytest.approx([1, 2, 3, 4, 5, 6])
    assert len(set(limits[2:])) == 1, "the limit stays as it was"
    assert world.errors == []


def test_a_full_disk_for_the_journal_means_nothing_is_written_to_the_kernel(world, monkeypatch):
    def full(record):
        del record
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(world.journal, "save", full)
    record = world.seconds(3)
    assert world.kernel.writes == []
    assert record.state.be_limit is None
    assert any("No space left" in receipt.detail for receipt in record.receipts)
    monkeypatch.undo()
    record = world.seconds(2)
    assert world.quota("batch") == pytest.approx(record.state.be_limit, abs=0.001)


def test_a_foreign_value_on_be_is_put_back_in_the_same_cycle_at_the_value_in_force(world):
    limit = world.seconds(5).state.be_limit
    unlimited = ("cpu_max", "max 100000") if world.layout == "v2" else ("cpu_cfs_quota_us", "-1")
    world.kernel._put_by_name("batch", *unlimited)
    record = world.second()
    assert any(receipt.result is Result.DRIFTED for receipt in record.receipts)
    assert world.quota("batch") == pytest.approx(limit, abs=0.05), "no slow rise after drift"
    assert not [action for action in record.plan.actions if isinstance(action, SetBeCpuLimit) and action.cores > limit + 0.05]


def test_inode_errors_and_unlistable_groups_do_not_stop_the_cycle(world):
    world.kernel.fail("", errno.EACCES, call="inode")
    world.seconds(3)
    world.kernel.heal()
    world.kernel.fail("", errno.EACCES, call="children")
    world.seconds(2)
    world.kernel.heal()
    record = world.seconds(3)
    assert world.errors == []
    assert world.quota("batch") == pytest.approx(record.state.be_limit, abs=0.001)
