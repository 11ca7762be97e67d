"""Standing properties of the group of all BE: written, put back, and told of."""

from __future__ import annotations

import errno

import pytest

from acting import Bench, results
from qosmanager.execute import batch_knobs
from qosmanager.execute.resource_executor import ResourceExecutor
from qosmanager.model.actions import KnobState, Result, Standing
from qosmanager.model.workload import CgroupFile

IDLE = Standing(be_idle=True)
WEIGHT = Standing(be_weight=True)
IO = Standing(be_io_weight=True)
NAMES = {"v1": "cpu.shares", "v2": "cpu.weight", "hybrid": "cpu.shares"}
OWN = {"v1": "512", "v2": "50", "hybrid": "512"}
DISK_STAT = {"v1": "254:0 Read 5\n254:0 Write 7\nTotal 12", "v2": "254:0 rbytes=5 wbytes=7 rios=1 wios=1 dbytes=0 dios=0"}


class Bfq:
    def weighing(self):
        return True


def bench_on(tmp_path, layout, **values):
    bench = Bench(tmp_path, layout)
    bench.tree.add("be", **values)
    return bench


def with_own_weight(tmp_path, layout):
    return bench_on(tmp_path, layout, **{NAMES[layout].replace(".", "_"): OWN[layout]})


def knob(bench, name):
    return next(each for each in bench.executor.knobs() if each.name == name)


def with_disks(bench):
    bench.executor = ResourceExecutor(bench.tree, bench.journal, bench.scores, bench.boot, Bfq())
    return bench


@pytest.mark.parametrize("layout", ["v1", "v2", "hybrid"])
def test_idle_goes_back_and_the_weight_that_the_kernel_then_resets(tmp_path, layout):
    bench = with_own_weight(tmp_path, layout)
    bench.standing = IDLE
    assert results(bench.cycle()) == [Result.APPLIED, Result.APPLIED]
    assert bench.tree.text("be", "cpu.idle") == "1"
    assert bench.cycle() == ()
    assert knob(bench, batch_knobs.CPU).state is KnobState.IN_FORCE
    bench.standing = Standing()
    bench.cycle()
    assert (bench.tree.text("be", "cpu.idle"), bench.tree.text("be", NAMES[layout])) == ("0", OWN[layout])
    assert knob(bench, batch_knobs.CPU).state is KnobState.OFF
    assert bench.executor.restore_all() == ()


def test_a_weight_that_already_was_the_smallest_comes_back_too(tmp_path):
    bench = bench_on(tmp_path, "v2", cpu_weight="1")
    bench.standing = IDLE
    bench.cycle()
    bench.restarted().adopt()
    bench.executor.restore_all()
    assert (bench.tree.text("be", "cpu.idle"), bench.tree.text("be", "cpu.weight")) == ("0", "1")


@pytest.mark.parametrize("layout", ["v1", "v2"])
def test_from_idle_to_weight_and_to_idle_again(tmp_path, layout):
    bench = with_own_weight(tmp_path, layout)
    for standing, idle in ((IDLE, "1"), (WEIGHT, "0"), (IDLE, "1"), (WEIGHT, "0")):
        bench.standing = standing
        assert {Result.REFUSED, Result.FAILED}.isdisjoint(results(bench.cycle()))
        assert bench.tree.text("be", "cpu.idle") == idle
    assert bench.tree.text("be", NAMES[layout]) == {"v1": "2", "v2": "1"}[layout]
    bench.executor.restore_all()
    assert bench.tree.text("be", NAMES[layout]) == OWN[layout]


@pytest.mark.parametrize("layout", ["v1", "v2"])
def test_who_makes_it_busy_again_is_corrected(tmp_path, layout):
    bench = with_own_weight(tmp_path, layout)
    bench.standing = IDLE
    bench.cycle()
    bench.tree.write(CgroupFile("cpu", "be", "cpu.idle"), "0")
    assert Result.DRIFTED in results(bench.cycle())
    assert bench.tree.text("be", "cpu.idle") == "1"
    bench.executor.restore_all()
    assert bench.tree.text("be", NAMES[layout]) == OWN[layout]


@pytest.mark.parametrize("layout", ["v1", "v2"])
def test_a_restore_that_is_killed_between_idle_and_weight_goes_on_where_it_stopped(tmp_path, layout):
    bench = with_own_weight(tmp_path, layout)
    bench.standing = IDLE
    bench.cycle()
    bench.tree.fail(NAMES[layout], errno.EIO)
    bench.executor.restore_all()
    assert bench.tree.text("be", "cpu.idle") == "0"
    bench.tree.heal()
    bench.restarted().adopt()
    bench.executor.restore_all()
    assert bench.tree.text("be", NAMES[layout]) == OWN[layout]


def test_idle_is_never_put_on_kubelets_group(tmp_path):
    bench = bench_on(tmp_path, "v1")
    bench.kubelet_owned = True
    bench.standing = IDLE
    assert bench.cycle() == ()
    assert bench.tree.writes == []
    assert knob(bench, batch_knobs.CPU).state is KnobState.IMPOSSIBLE


def test_a_kernel_without_idle_gets_the_smallest_weight(tmp_path):
    bench = bench_on(tmp_path, "v1")
    bench.tree.fail("cpu.idle", errno.ENOENT, call="read")
    bench.standing = IDLE
    bench.cycle()
    assert bench.tree.writes == [("cpu:/be/cpu.shares", "2")]


def test_memory_high_is_written_drifts_back_and_is_released(tmp_path):
    bench = bench_on(tmp_path, "v2")
    bench.standing = Standing(memory_low=True, be_memory_high=1 << 30)
    assert results(bench.cycle()) == [Result.APPLIED]
    bench.tree.put(CgroupFile("memory", "be", "memory.high"), "max")
    assert results(bench.cycle()) == [Result.DRIFTED]
    assert bench.tree.text("be", "memory.high") == str(1 << 30)
    bench.standing = Standing(memory_low=True)
    bench.cycle()
    assert bench.tree.text("be", "memory.high") == "max"
    assert knob(bench, batch_knobs.MEMORY).state is KnobState.WAITING


def test_v1_has_no_memory_high(tmp_path):
    bench = bench_on(tmp_path, "v1")
    bench.standing = Standing(memory_low=True, be_memory_high=1 << 30)
    assert bench.cycle() == ()
    assert knob(bench, batch_knobs.MEMORY).state is KnobState.IMPOSSIBLE


@pytest.mark.parametrize(
    ("layout", "names", "held", "free"),
    [
        ("v1", ("blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"), "254:0 1048576", ""),
        ("v2", ("io.max",), "254:0 rbps=1048576 wbps=1048576 riops=max wiops=max", ""),
    ],
)
def test_the_io_limit_holds_each_disk_that_be_uses_and_goes_back(tmp_path, layout, names, held, free):
    bench = bench_on(tmp_path, layout)
    bench.standing = Standing(be_io_weight=True, be_io_limit=1 << 20)
    bench.cycle()
    assert knob(bench, batch_knobs.IO_LIMIT).state is KnobState.WAITING
    stat = "blkio.throttle.io_service_bytes" if layout == "v1" else "io.stat"
    bench.tree.put(CgroupFile("blkio", "be", stat), DISK_STAT[layout])
    for _ in range(11):
        bench.cycle()
    assert [bench.tree.read(CgroupFile("blkio", "be", name)) for name in names] == [held] * len(names)
    bench.restarted().adopt()
    assert bench.cycle() == ()
    bench.standing = Standing()
    bench.cycle()
    assert [bench.tree.read(CgroupFile("blkio", "be", name)) for name in names] == [free] * len(names)


def test_on_v1_each_group_that_uses_a_disk_gets_its_part(tmp_path):
    bench = bench_on(tmp_path, "v1")
    for group in ("be/one", "be/two", "be/two/deep", "be/quiet"):
        bench.tree.add(group)
    for group in ("be/one", "be/two/deep"):
        bench.tree.put(CgroupFile("blkio", group, "blkio.throttle.io_service_bytes"), DISK_STAT["v1"])
    bench.standing = Standing(be_io_weight=True, be_io_limit=1 << 20)
    bench.cycle()
    held = {
        group: bench.tree.read(CgroupFile("blkio", group, "blkio.throttle.write_bps_device"))
        for group in ("be", "be/one", "be/two", "be/two/deep")
    }
    assert held == {"be": "", "be/one": "254:0 524288", "be/two": "", "be/two/deep": "254:0 524288"}
    bench.executor.restore_all()
    assert bench.tree.read(CgroupFile("blkio", "be/one", "blkio.throttle.write_bps_device")) == ""


def test_an_io_limit_of_somebody_elses_is_never_loosened(tmp_path):
    bench = bench_on(tmp_path, "v2", io_stat=DISK_STAT["v2"], io_max="254:0 rbps=4096 wbps=max riops=10 wiops=max")
    bench.standing = Standing(be_io_weight=True, be_io_limit=1 << 20)
    bench.cycle()
    assert bench.tree.read(CgroupFile("blkio", "be", "io.max")) == "254:0 rbps=4096 wbps=1048576 riops=10 wiops=max"
    bench.executor.restore_all()
    assert bench.tree.read(CgroupFile("blkio", "be", "io.max")) == "254:0 rbps=4096 wbps=max riops=10 wiops=max"


@pytest.mark.parametrize(
    ("layout", "name", "smallest", "own"), [("v1", "blkio.bfq.weight", "1", "100"), ("v2", "io.bfq.weight", "default 1", "default 100")]
)
def test_io_weight_where_a_scheduler_goes_by_it(tmp_path, layout, name, smallest, own):
    bench = with_disks(bench_on(tmp_path, layout))
    bench.standing = IO
    bench.cycle()
    assert bench.tree.read(CgroupFile("blkio", "be", name)) == smallest
    bench.executor.restore_all()
    assert bench.tree.read(CgroupFile("blkio", "be", name)) == own


def test_io_weight_is_not_written_where_no_scheduler_goes_by_it(tmp_path):
    bench = bench_on(tmp_path, "v1")
    bench.standing = IO
    assert bench.cycle() == ()
    assert knob(bench, batch_knobs.IO_WEIGHT).state is KnobState.IMPOSSIBLE


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.EINVAL])
@pytest.mark.parametrize(
    ("name", "standing", "about"),
    [
        ("cpu.idle", IDLE, batch_knobs.CPU),
        ("cpu.weight", WEIGHT, batch_knobs.CPU),
        ("memory.high", Standing(memory_low=True, be_memory_high=1 << 30), batch_knobs.MEMORY),
        ("io.bfq.weight@default", IO, batch_knobs.IO_WEIGHT),
        ("io.max@254:0", Standing(be_io_weight=True, be_io_limit=1 << 20), batch_knobs.IO_LIMIT),
    ],
)
def test_what_the_kernel_refuses_is_told_once_and_leaves_nothing(tmp_path, code, name, standing, about):
    bench = with_disks(bench_on(tmp_path, "v2", io_stat=DISK_STAT["v2"]))
    bench.tree.fail(name, code)
    bench.standing = standing
    said = [receipt for receipt in bench.cycle() if name in receipt.target]
    assert [receipt.result for receipt in said] in ([Result.REFUSED], [Result.FAILED])
    assert knob(bench, about).state is KnobState.REFUSED
    assert bench.cycle() == ()
    bench.tree.heal()
    bench.executor.restore_all()
    assert (bench.tree.text("be", "cpu.idle"), bench.tree.text("be", "cpu.weight")) == ("0", "100")
    assert (bench.tree.text("be", "memory.high"), bench.tree.read(CgroupFile("blkio", "be", "io.max"))) == ("max", "")


def test_a_squeezed_system_is_told_and_left_alone(tmp_path):
    bench = bench_on(tmp_path, "v1")
    bench.tree.add("system.slice", cpu_shares="100")
    bench.standing = WEIGHT
    bench.cycle()
    found = knob(bench, batch_knobs.SYSTEM)
    assert (found.state, "system.slice has 100" in found.detail) == (KnobState.REFUSED, True)
    assert bench.tree.text("system.slice", "cpu.shares") == "100"
