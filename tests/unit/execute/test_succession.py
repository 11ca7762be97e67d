from __future__ import annotations

import pytest
from msgspec.structs import replace

from acting import Bench, FakeBoot, FullJournal, burst, cpus, limit, results, unlimit
from kernel_tree import KernelTree
from qosmanager.execute.resource_executor import ResourceExecutor
from qosmanager.model.actions import Result, Standing
from qosmanager.model.qos import QoS
from qosmanager.model.workload import CgroupFile
from qosmanager.ports import JournalError, OomEntry

QUOTA = "cpu.cfs_quota_us"


@pytest.fixture
def bench(tmp_path):
    bench = Bench(tmp_path)
    bench.tree.add("be")
    bench.tree.add("be/pod", cpu_cfs_quota_us="300000")
    bench.tree.add("api", cpu_cfs_quota_us="200000")
    bench.pod("api", QoS.LS, "api")
    return bench


def held(bench):
    return [bench.tree.text(group, QUOTA) for group in ("be", "be/pod", "api")]


def test_clean_stop_ends_bursts_and_keeps_be_limits_for_a_lease(bench):
    bench.cycle(burst("default/api", 3.0, 2.0), limit(1.0))
    bench.executor.leave(lease=120.0, state=b"{}")
    assert held(bench) == ["100000", "100000", "200000"]
    record = bench.journal.load()
    assert (record.lease_until, record.state, record.be_limit) == (bench.boot.now + 120.0, b"{}", 1.0)


def test_successor_neither_opens_be_nor_takes_our_values_for_originals(bench):
    bench.cycle(limit(1.0))
    bench.executor.leave(state=b'{"be_limit":1.0}')
    bench.tree.writes.clear()
    adopted = bench.restarted().adopt()
    assert (adopted.state, adopted.be_limit, adopted.receipts) == (b'{"be_limit":1.0}', 1.0, ())
    assert set(results(bench.limit(1.0))) == {Result.UNCHANGED}
    assert bench.tree.writes == []
    # One save may follow: it takes the predecessor's state out and renews the lease.
    assert bench.journal.load().state is None
    assert {entry.original for entry in bench.journal.load().entries} == {"-1", "300000"}
    bench.cycle(unlimit())
    assert held(bench) == ["-1", "300000", "200000"]


def test_successor_of_a_killed_agent_ends_its_bursts_and_holds_be(bench):
    bench.cycle(burst("default/api", 3.0, 2.0), limit(1.0))
    adopted = bench.restarted().adopt()
    assert (adopted.state, adopted.be_limit) == (None, 1.0)
    assert results(adopted.receipts) == [Result.APPLIED]
    assert held(bench) == ["100000", "100000", "200000"]
    assert bench.cycle() == ()
    assert held(bench) == ["100000", "100000", "200000"]


def test_entries_of_another_boot_are_dropped(bench):
    bench.cycle(limit(1.0))
    bench.boot = FakeBoot("boot-2")
    adopted = bench.restarted().adopt()
    assert (adopted.be_limit, adopted.receipts) == (None, ())
    bench.executor.restore_all()
    assert held(bench)[0] == "100000"


def test_group_made_anew_meanwhile_is_not_adopted(bench):
    bench.cycle(limit(1.0))
    bench.tree.recreate("be", cpu_cfs_quota_us="100000")
    assert Result.GONE in results(bench.restarted().adopt().receipts)
    bench.executor.restore_all()
    assert bench.tree.text("be", QUOTA) == "100000"


def test_a_group_that_lost_the_controller_has_nothing_to_put_back(bench):
    bench.cycle(limit(1.0))
    for group in ("be", "be/pod"):
        bench.tree.take(group, QUOTA)
    receipts = bench.executor.restore_all()
    assert [(each.target, each.result) for each in receipts] == [(f"cpu:/{group}/{QUOTA}", Result.GONE) for group in ("be", "be/pod")]
    assert receipts[0].detail == "controller 'cpu' was taken from the group, and with it what was set"
    assert bench.journal.load().entries == ()


def test_a_controller_that_comes_back_has_the_kernels_values_and_is_limited_anew(bench):
    bench.cycle(limit(1.0))
    bench.tree.take("be", QUOTA)
    assert (Result.GONE, f"cpu:/be/{QUOTA}") in [(each.result, each.target) for each in bench.cycle()]
    bench.tree.put(CgroupFile("cpu", "be", QUOTA), "-1")
    bench.limit(1.0)
    assert held(bench)[0] == "100000"
    bench.executor.restore_all()
    assert held(bench)[:2] == ["-1", "300000"]


def test_file_changed_meanwhile_is_left_alone_and_said(bench):
    bench.cycle(limit(1.0))
    bench.tree.put(CgroupFile("cpu", "be", QUOTA), "350000")
    receipts = bench.restarted().adopt().receipts
    assert [(each.result, each.detail) for each in receipts] == [(Result.DRIFTED, "left alone: holds '350000', not ours ('100000')")]
    bench.executor.restore_all()
    assert held(bench) == ["350000", "300000", "200000"]


def test_value_that_was_only_intended_counts_as_ours_and_so_does_the_one_before(bench):
    bench.cycle(limit(1.0))
    record = bench.journal.load()
    assert {entry.written for entry in record.entries} == {("100000",)}
    bench.tree.fail(QUOTA, 5, group="be", skip=0)
    bench.cycle(limit(0.5))
    bench.tree.heal()
    bench.restarted().adopt()
    bench.executor.restore_all()
    assert held(bench) == ["-1", "300000", "200000"]


def test_restore_all_puts_every_kind_back(bench):
    bench.standing = Standing(be_weight=True)
    bench.tree.put(CgroupFile("cpu", "be", "cpu.cfs_burst_us"), "70000")
    before = {name: bench.tree.text("be", name) for name in (QUOTA, "cpu.cfs_burst_us", "cpu.shares", "cpuset.cpus")}
    bench.cycle(burst("default/api", 3.0, 2.0), limit(0.5), cpus("1"))
    assert all(bench.tree.text("be", name) != text for name, text in before.items())
    receipts = bench.executor.restore_all()
    assert set(results(receipts)) == {Result.APPLIED}
    assert {name: bench.tree.text("be", name) for name in before} == before
    assert held(bench) == ["-1", "300000", "200000"]
    assert bench.journal.load().entries == ()


def test_restore_goes_on_after_one_that_cannot_be(bench):
    bench.cycle(burst("default/api", 3.0, 2.0), limit(1.0))
    bench.tree.fail(QUOTA, 22, group="be/pod")
    receipts = bench.executor.restore_all()
    assert sorted(each.value for each in results(receipts)) == ["applied", "applied", "failed"]
    assert held(bench) == ["-1", "100000", "200000"]
    assert [str(entry.file) for entry in bench.journal.load().entries] == [f"cpu:/be/pod/{QUOTA}"]


def test_restore_needs_no_room_for_the_journal(bench):
    bench.cycle(burst("default/api", 3.0, 2.0), limit(1.0))

    class Full(FullJournal):
        def load(self):
            return bench.journal.load()

    executor = ResourceExecutor(bench.tree, Full(), bench.scores, bench.boot)
    executor.adopt()
    receipts = executor.restore_all()
    assert held(bench) == ["-1", "300000", "200000"]
    assert receipts[-1].target == "journal"


def test_lease_is_renewed_while_the_agent_lives(bench):
    bench.cycle(limit(1.0))
    first = bench.journal.load().lease_until
    for _ in range(40):
        bench.cycle()
    assert bench.journal.load().lease_until >= first + 30.0
    assert bench.journal.load().lease_until > bench.boot.now + 85.0


@pytest.mark.parametrize(
    "change", [{"original": "soon"}, {"written": ()}, {"written": ("x",)}, {"file": CgroupFile("cpu", "be", "cgroup.procs")}]
)
def test_entry_that_makes_no_sense_is_left_alone_and_said(bench, change):
    bench.cycle(limit(1.0))
    record = bench.journal.load()
    bad = tuple(replace(entry, **change) if entry.file.group == "be" else entry for entry in record.entries)
    bench.journal.save(replace(record, entries=bad))
    receipts = bench.restarted().adopt().receipts
    assert [each.result for each in receipts] == [Result.FAILED]
    bench.executor.restore_all()
    # The group below cannot have its 3 cores back under a parent that keeps 1.
    assert held(bench) == ["100000", "100000", "200000"]


@pytest.mark.parametrize("group", ["../be", "be/../../etc", "be\\u0000"])
def test_journal_with_a_path_that_leaves_the_root_is_told_and_stops_nobody(bench, group):
    bench.cycle(limit(1.0))
    text = bench.journal.path.read_text()
    bench.journal.path.write_text(text.replace('"group":"be"', f'"group":"{group}"'))
    failed = [each.detail for each in bench.restarted().adopt().receipts if each.result is Result.FAILED]
    assert failed == ["left alone: what the journal holds of it is not understood (original '-1')"]
    # What is not known stays, and on v1 no pod below it may have more.
    assert sorted(each.value for each in results(bench.executor.restore_all())) == ["failed"]
    assert held(bench) == ["100000", "100000", "200000"]


def test_under_another_cgroup_root_the_originals_are_kept_for_the_right_one(bench, tmp_path):
    bench.limit(1.0)
    # It has the controllers and none of the groups: all would be taken for gone.
    elsewhere = ResourceExecutor(KernelTree(tmp_path / "other"), bench.journal, bench.scores, bench.boot)
    with pytest.raises(JournalError, match="give the one that the agent ran with"):
        elsewhere.adopt()
    bench.restarted().adopt()
    bench.executor.restore_all()
    assert held(bench) == ["-1", "300000", "200000"]


def test_journal_that_holds_nothing_is_of_every_cgroup_root(bench, tmp_path):
    bench.limit(1.0)
    bench.executor.restore_all()
    elsewhere = ResourceExecutor(KernelTree(tmp_path / "other"), bench.journal, bench.scores, bench.boot)
    assert elsewhere.adopt().receipts == ()


@pytest.mark.parametrize("version", [1, 2])
def test_journal_that_cannot_be_used_stops_the_successor_but_not_after_a_reboot(bench, version):
    bench.limit(1.0)
    bench.journal.path.write_text(f'{{"version":{version},"record":{{"boot_id":"boot-1","entries":7}}}}')
    with pytest.raises(JournalError):
        bench.restarted().adopt()
    bench.boot = FakeBoot("boot-2")
    assert bench.restarted().adopt().be_limit is None


@pytest.mark.parametrize("group", ["", "/", ".", "be/..", "/be"])
def test_scores_of_no_group_below_the_root_are_left_alone(bench, group):
    bench.scores.scores = {7: 0}
    (bench.tree.root / "memory" / "cgroup.procs").write_text("7\n")
    bench.limit(1.0)
    entry = OomEntry(group=group, inode=bench.tree.inode("memory", ""), value=0, original=999)
    bench.journal.save(replace(bench.journal.load(), oom=(entry,)))
    adopted = bench.restarted().adopt()
    bench.executor.restore_all()
    assert [(receipt.result, receipt.detail) for receipt in adopted.receipts] == [
        (Result.FAILED, "left alone: the journal names no group below the cgroup root")
    ]
    assert bench.scores.scores == {7: 0}
    assert held(bench) == ["-1", "300000", "200000"]
