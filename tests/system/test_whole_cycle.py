"""The whole cycle over a fake kernel that enforces the kernel's rules: v1, v2 and hybrid, and what goes wrong there."""

from __future__ import annotations

import errno
import math

import pytest

from qosmanager.model.actions import Result, SetBeCpuLimit
from whole_node import World

LAYOUTS = ("v1", "v2", "hybrid")


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
