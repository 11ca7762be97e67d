from __future__ import annotations

import errno

import pytest

from acting import Bench, FullJournal, limit, results, unlimit
from qosmanager.execute.resource_executor import ResourceExecutor
from qosmanager.model.actions import Result
from qosmanager.model.qos import Mode, QoS
from qosmanager.model.workload import CgroupFile


@pytest.fixture
def bench(tmp_path):
    bench = Bench(tmp_path)
    bench.tree.add("be")
    return bench


def v2(tmp_path):
    bench = Bench(tmp_path, "v2")
    bench.tree.add("be")
    return bench


def test_limit_is_written_in_the_groups_own_period(bench):
    bench.tree.put(CgroupFile("cpu", "be", "cpu.cfs_period_us"), "50000")
    (receipt,) = bench.limit(1.5)
    assert bench.tree.text("be", "cpu.cfs_quota_us") == "75000"
    assert (receipt.result, receipt.action, receipt.before, receipt.after) == (Result.APPLIED, 0, "-1", "75000")


def test_limit_on_v2_keeps_the_period(tmp_path):
    bench = v2(tmp_path)
    bench.tree.put(CgroupFile("cpu", "be", "cpu.max"), "max 20000")
    bench.limit(2.5)
    assert bench.tree.text("be", "cpu.max") == "50000 20000"


PERIOD, QUOTA = "cpu.cfs_period_us", "cpu.cfs_quota_us"


def in_force(bench, group="be"):
    return bench.tree.text(group, QUOTA), bench.tree.text(group, PERIOD)


@pytest.mark.parametrize("own", ["-1", "2000"])
def test_a_period_too_short_for_the_limit_is_lengthened_and_comes_back(bench, own):
    bench.tree.put(CgroupFile("cpu", "be", PERIOD), "1000")
    bench.tree.put(CgroupFile("cpu", "be", QUOTA), own)
    assert set(results(bench.limit(0.1))) == {Result.APPLIED}
    assert in_force(bench) == ("10000", "100000")
    assert bench.tree.writes == [(f"cpu:/be/{PERIOD}", "100000"), (f"cpu:/be/{QUOTA}", "10000")]
    bench.limit(1.5)  # the longer period stays until the limit goes
    assert in_force(bench) == ("150000", "100000")
    bench.restarted().adopt()
    bench.limit(0.2)
    bench.tree.writes.clear()
    bench.cycle(unlimit())
    assert in_force(bench) == (own, "1000")
    assert bench.tree.writes == [(f"cpu:/be/{QUOTA}", own), (f"cpu:/be/{PERIOD}", "1000")]
    assert bench.journal.load().entries == ()


def test_a_limit_above_the_groups_own_gives_its_period_back_too(bench):
    bench.tree.put(CgroupFile("cpu", "be", PERIOD), "1000")
    bench.tree.put(CgroupFile("cpu", "be", QUOTA), "2000")
    bench.limit(0.1)
    bench.limit(3.0)
    assert in_force(bench) == ("2000", "1000")


def test_children_with_short_periods_stay_within_their_parent(bench):
    bench.tree.add("be/pod", cpu_cfs_period_us="1000", cpu_cfs_quota_us="3000")
    assert set(results(bench.limit(0.5))) == {Result.APPLIED}
    assert in_force(bench, "be/pod") == ("50000", "100000")
    bench.tree.put(CgroupFile("cpu", "be/pod", PERIOD), "1000")
    assert Result.DRIFTED in results(bench.cycle())
    assert in_force(bench, "be/pod") == ("50000", "100000")
    bench.executor.restore_all()
    assert (in_force(bench), in_force(bench, "be/pod")) == (("-1", "100000"), ("3000", "1000"))


def test_limit_is_never_below_the_kernels_minimum(bench):
    bench.limit(0.001)
    assert bench.tree.text("be", "cpu.cfs_quota_us") == "1000"


def test_same_limit_again_writes_nothing(bench):
    bench.limit(2.0)
    writes = len(bench.tree.writes)
    assert results(bench.limit(2.0)) == [Result.UNCHANGED]
    assert bench.cycle() == ()
    assert len(bench.tree.writes) == writes


def test_group_is_not_raised_above_its_own_limit(bench):
    bench.tree.put(CgroupFile("cpu", "be", "cpu.cfs_quota_us"), "150000")
    bench.limit(3.0)
    assert bench.tree.text("be", "cpu.cfs_quota_us") == "150000"
    bench.limit(1.0)
    bench.limit(3.0)
    assert bench.tree.text("be", "cpu.cfs_quota_us") == "150000"


def test_group_is_not_raised_above_a_limited_group_above_it(tmp_path):
    bench = Bench(tmp_path)
    bench.tree.add("slice", cpu_cfs_quota_us="200000")
    bench.tree.add("slice/be")
    bench.be_parent = "slice/be"
    assert results(bench.limit(3.0)) == [Result.APPLIED]
    assert bench.tree.text("slice/be", "cpu.cfs_quota_us") == "200000"


def test_originals_come_back(bench):
    bench.tree.put(CgroupFile("cpu", "be", "cpu.cfs_quota_us"), "350000")
    bench.limit(2.0)
    (receipt,) = bench.cycle(unlimit())
    assert bench.tree.text("be", "cpu.cfs_quota_us") == "350000"
    assert (receipt.result, receipt.action) == (Result.APPLIED, 0)
    assert bench.journal.load().entries == ()


def test_observed_action_is_recorded_and_not_done(bench):
    action = type(limit(2.0))(plugin=limit(2.0).plugin, reason="", cores=2.0, mode=Mode.OBSERVE)
    assert results(bench.cycle(action)) == [Result.RECORDED]
    assert bench.tree.writes == []


@pytest.mark.parametrize("layout", ["v1", "v2"])
def test_kernel_burst_stays_within_the_quota(tmp_path, layout):
    bench = Bench(tmp_path, layout)
    quota, burst = ("cpu.cfs_quota_us", "cpu.cfs_burst_us") if layout == "v1" else ("cpu.max", "cpu.max.burst")
    bench.tree.add("be")
    bench.tree.put(CgroupFile("cpu", "be", burst), "80000")
    assert results(bench.limit(0.5)) == [Result.APPLIED, Result.APPLIED]
    assert [name for name, _ in bench.tree.writes] == [f"cpu:/be/{burst}", f"cpu:/be/{quota}"]
    assert bench.tree.text("be", burst) == "50000"
    bench.tree.writes.clear()
    bench.limit(0.7)
    assert [name for name, _ in bench.tree.writes] == [f"cpu:/be/{quota}", f"cpu:/be/{burst}"]
    assert bench.tree.text("be", burst) == "70000"
    bench.cycle(unlimit())
    assert bench.tree.text("be", burst) == "80000"


def test_v1_limited_groups_below_are_lowered_first_and_raised_last(bench):
    bench.tree.add("be/pod", cpu_cfs_quota_us="300000")
    bench.tree.add("be/pod/one", cpu_cfs_quota_us="200000")
    bench.tree.add("be/pod/two")
    bench.limit(1.0)
    assert bench.tree.writes == [
        ("cpu:/be/pod/one/cpu.cfs_quota_us", "100000"),
        ("cpu:/be/pod/cpu.cfs_quota_us", "100000"),
        ("cpu:/be/cpu.cfs_quota_us", "100000"),
    ]
    bench.tree.writes.clear()
    bench.limit(2.5)
    assert bench.tree.writes == [
        ("cpu:/be/cpu.cfs_quota_us", "250000"),
        ("cpu:/be/pod/cpu.cfs_quota_us", "250000"),
        ("cpu:/be/pod/one/cpu.cfs_quota_us", "200000"),
    ]
    bench.cycle(unlimit())
    assert [bench.tree.text(group, "cpu.cfs_quota_us") for group in ("be", "be/pod", "be/pod/one", "be/pod/two")] == [
        "-1",
        "300000",
        "200000",
        "-1",
    ]


def test_v2_groups_below_are_left_alone(tmp_path):
    bench = v2(tmp_path)
    bench.tree.add("be/pod", cpu_max="300000 100000")
    bench.limit(1.0)
    assert bench.tree.writes == [("cpu:/be/cpu.max", "100000 100000")]


def test_failed_write_undoes_the_group(bench):
    bench.tree.add("be/pod", cpu_cfs_quota_us="300000")
    bench.tree.fail("cpu.cfs_quota_us", errno.EINVAL, group="be", times=1)
    receipts = bench.limit(1.0)
    assert bench.tree.text("be/pod", "cpu.cfs_quota_us") == "300000"
    assert results(receipts) == [Result.FAILED, Result.FAILED]
    assert "undone" in receipts[0].detail
    assert "EINVAL" in receipts[1].detail
    # The limit is still wanted: the next cycle succeeds.
    assert results(bench.cycle()) == [Result.APPLIED, Result.APPLIED]
    assert bench.tree.text("be", "cpu.cfs_quota_us") == "100000"


def test_foreign_value_is_put_back_at_once(bench):
    bench.limit(2.0)
    bench.tree.put(CgroupFile("cpu", "be", "cpu.cfs_quota_us"), "-1")
    (receipt,) = bench.cycle()
    assert (receipt.result, receipt.action, receipt.before, receipt.after) == (Result.DRIFTED, None, "-1", "200000")
    assert bench.tree.text("be", "cpu.cfs_quota_us") == "200000"
    assert bench.cycle() == ()


def test_foreign_value_beside_a_new_limit_gives_way_to_the_new_one(bench):
    bench.limit(2.0)
    bench.tree.put(CgroupFile("cpu", "be", "cpu.cfs_quota_us"), "-1")
    assert results(bench.limit(1.0)) == [Result.DRIFTED, Result.APPLIED]
    assert bench.tree.text("be", "cpu.cfs_quota_us") == "100000"


def test_fourth_change_within_a_minute_is_a_conflict_and_once_a_minute_is_none(bench):
    bench.limit(2.0)
    details = []
    for _ in range(4):
        bench.tree.put(CgroupFile("cpu", "be", "cpu.cfs_quota_us"), "-1")
        details.append(bench.cycle()[0].detail)
    assert ["conflict" in detail for detail in details] == [False, False, False, True]
    for _ in range(5):
        bench.now += 60.0
        bench.tree.put(CgroupFile("cpu", "be", "cpu.cfs_quota_us"), "-1")
        assert "conflict" not in bench.cycle()[0].detail


def test_group_made_anew_is_a_new_group(bench):
    bench.limit(2.0)
    bench.tree.recreate("be", cpu_cfs_quota_us="400000")
    receipts = bench.cycle()
    assert results(receipts) == [Result.GONE, Result.APPLIED]
    assert bench.tree.text("be", "cpu.cfs_quota_us") == "200000"
    bench.cycle(unlimit())
    assert bench.tree.text("be", "cpu.cfs_quota_us") == "400000"


def test_group_that_vanishes_and_comes_back_is_held_again(bench):
    bench.limit(2.0)
    bench.tree.remove("be")
    assert Result.FAILED not in results(bench.cycle())
    assert bench.cycle() == ()
    bench.tree.add("be")
    assert results(bench.cycle()) == [Result.APPLIED]


def test_limit_follows_the_parent_and_back_to_the_pods(bench):
    for name in ("a", "b"):
        bench.tree.add(f"be/{name}")
        bench.pod(name, QoS.BE, f"be/{name}")
    bench.limit(2.0)
    bench.be_parent = None
    bench.cycle()
    assert [bench.tree.text(group, "cpu.cfs_quota_us") for group in ("be", "be/a", "be/b")] == ["-1", "100000", "100000"]
    bench.be_parent = "be"
    bench.cycle()
    assert [bench.tree.text(group, "cpu.cfs_quota_us") for group in ("be", "be/a", "be/b")] == ["200000", "-1", "-1"]


def test_pods_that_come_and_go_share_the_limit(bench):
    bench.be_parent = None
    for name in ("a", "b", "c"):
        bench.tree.add(name)
    bench.pod("a", QoS.BE, "a")
    bench.limit(3.0)
    assert bench.tree.text("a", "cpu.cfs_quota_us") == "300000"
    bench.pod("b", QoS.BE, "b")
    bench.pod("c", QoS.BE, "c")
    bench.cycle()
    assert [bench.tree.text(group, "cpu.cfs_quota_us") for group in "abc"] == ["100000"] * 3
    del bench.pods["default/a"]
    bench.cycle()
    assert [bench.tree.text(group, "cpu.cfs_quota_us") for group in "abc"] == ["-1", "150000", "150000"]


def test_shares_follow_use_but_not_its_noise(bench):
    bench.be_parent = None
    for name, usage in (("a", 0.1), ("b", 1.8)):
        bench.tree.add(name)
        bench.pod(name, QoS.BE, name)
        bench.usage[name] = usage
    # Wants: a 1.5*0.1 + 0.1 = 0.25, b min(2.8, what is left) = 1.75.
    bench.limit(2.0)
    assert [bench.tree.text(group, "cpu.cfs_quota_us") for group in "ab"] == ["25000", "175000"]
    bench.usage["a"] = 0.12
    assert bench.cycle() == ()
    bench.usage["a"] = 0.3
    # 1.5*0.3 + 0.1 = 0.55
    bench.cycle()
    assert [bench.tree.text(group, "cpu.cfs_quota_us") for group in "ab"] == ["55000", "145000"]


def test_limit_without_any_be_group_is_kept_for_those_that_come(bench):
    bench.be_parent = None
    assert results(bench.limit(2.0)) == [Result.UNCHANGED]
    bench.tree.add("a")
    bench.pod("a", QoS.BE, "a")
    bench.cycle()
    assert bench.tree.text("a", "cpu.cfs_quota_us") == "200000"


def test_full_journal_means_that_nothing_is_written(bench):
    bench.executor = ResourceExecutor(bench.tree, FullJournal(), bench.scores, bench.boot)
    receipt = bench.limit(2.0)[0]
    assert receipt.result is Result.REFUSED
    assert "No space left" in receipt.detail
    assert bench.tree.writes == []


def test_journal_knows_the_value_before_the_kernel_has_it(bench):
    seen = []

    class Spy:
        def load(self):
            return None

        def save(self, record):
            seen.append((bench.tree.text("be", "cpu.cfs_quota_us"), [entry.written for entry in record.entries]))

    bench.executor = ResourceExecutor(bench.tree, Spy(), bench.scores, bench.boot)
    bench.limit(2.0)
    bench.limit(1.0)
    assert seen == [
        ("-1", [("200000",)]),
        ("200000", [("200000", "100000")]),
        ("100000", [("100000",)]),
    ]


@pytest.mark.parametrize(
    ("how", "expected", "word"),
    [
        (errno.EACCES, Result.REFUSED, "EACCES"),
        (errno.EPERM, Result.REFUSED, "EPERM"),
        (errno.EROFS, Result.REFUSED, "read-only"),
        (errno.EINVAL, Result.FAILED, "EINVAL"),
        (errno.EBUSY, Result.FAILED, "EBUSY"),
        (errno.EIO, Result.FAILED, "EIO"),
    ],
)
def test_write_faults(bench, how, expected, word):
    bench.tree.fail("cpu.cfs_quota_us", how)
    (receipt,) = bench.limit(2.0)
    assert receipt.result is expected
    assert word in receipt.detail
    assert bench.tree.text("be", "cpu.cfs_quota_us") == "-1"
    # The same trouble is not told again each second, and nothing is left in the journal to be put back.
    assert bench.cycle() == ()
    assert bench.journal.load().entries == ()
    bench.tree.heal()
    bench.now += 9.0
    assert results(bench.cycle()) == [Result.APPLIED]


def test_what_is_refused_is_tried_in_the_next_cycle_and_then_every_ten_seconds_by_itself(bench):
    bench.be_parent = None
    for name in ("a", "b"):
        bench.tree.add(name)
        bench.pod(name, QoS.BE, name)
    bench.tree.fail("cpu.cfs_quota_us", errno.EACCES, group="a", times=3)
    bench.limit(2.0)  # the first time, at 1 s
    bench.tree.writes.clear()
    said = [results(bench.cycle()) for _ in range(30)]
    # Again at 2 s and at 12 s; at 22 s the fault is over.
    assert [second for second, receipts in enumerate(said, 2) if receipts] == [22]
    assert bench.tree.writes == [("cpu:/a/cpu.cfs_quota_us", "100000")]


def test_a_pods_own_limit_that_is_not_ours_is_followed_within_ten_seconds(bench):
    bench.be_parent = None
    for name in ("a", "b"):
        bench.tree.add(name)
        bench.pod(name, QoS.BE, name)
    bench.tree.put(CgroupFile("cpu", "a", "cpu.cfs_quota_us"), "20000")
    bench.limit(2.0)
    assert [bench.tree.text(group, "cpu.cfs_quota_us") for group in "ab"] == ["20000", "180000"]
    bench.tree.put(CgroupFile("cpu", "a", "cpu.cfs_quota_us"), "60000")
    for _ in range(10):
        bench.cycle()
    assert [bench.tree.text(group, "cpu.cfs_quota_us") for group in "ab"] == ["60000", "140000"]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (errno.EACCES, Result.REFUSED),
        (errno.EIO, Result.FAILED),
        ("", Result.FAILED),
        ("10x", Result.FAILED),
        ("-", Result.FAILED),
    ],
)
def test_read_faults(bench, how, expected):
    bench.tree.fail("cpu.cfs_quota_us", how, call="read")
    assert results(bench.limit(2.0)) == [expected]
    assert bench.tree.writes == []


@pytest.mark.parametrize("how", [errno.ENOENT, errno.ENODEV])
@pytest.mark.parametrize("call", ["read", "write"])
def test_group_that_ends_between_read_and_write_is_gone(bench, how, call):
    bench.tree.fail("cpu.cfs_quota_us", how, call=call, skip=1 if call == "read" else 0)
    bench.tree.fail("", errno.ENOENT, call="inode", skip=0 if call == "read" else 1)
    assert results(bench.limit(2.0)) == [Result.GONE]
    assert bench.journal.load() is None or bench.journal.load().entries == ()


def test_missing_file_in_a_group_that_is_there_is_a_missing_controller(bench):
    bench.tree.fail("cpu.cfs_quota_us", errno.ENOENT, call="read")
    (receipt,) = bench.limit(2.0)
    assert receipt.result is Result.REFUSED
    assert "not enabled" in receipt.detail


def test_write_that_the_kernel_ignores_is_a_failure(bench):
    bench.tree.fail("cpu.cfs_quota_us", "-1", call="read")
    (receipt,) = bench.limit(2.0)
    assert receipt.result is Result.FAILED
    assert "wrote '200000'" in receipt.detail


def test_pod_that_cannot_be_limited_is_told_of_and_the_limit_holds_for_the_others(bench):
    bench.be_parent = None
    for name in ("a", "b"):
        bench.tree.add(name)
        bench.pod(name, QoS.BE, name)
    bench.tree.fail("cpu.cfs_quota_us", errno.EROFS, group="a")
    receipts = bench.limit(2.0)
    assert [(each.result, each.action, each.pod) for each in receipts] == [
        (Result.REFUSED, None, "default/a"),
        (Result.APPLIED, 0, "default/b"),
    ]


def test_rise_that_could_not_be_written_is_not_written_later_unasked(bench):
    # The engine takes the old limit for the one in force.
    bench.limit(1.0)
    bench.tree.fail("cpu.cfs_quota_us", errno.EINVAL, group="be")
    assert results(bench.limit(2.0)) == [Result.FAILED]
    bench.tree.heal()
    bench.cycle()
    assert bench.tree.text("be", "cpu.cfs_quota_us") == "100000"
    assert bench.journal.load().be_limit == 1.0


def test_limit_is_not_in_force_because_a_pod_below_its_parent_keeps_to_it_by_itself(bench):
    bench.tree.add("be/pod", cpu_cfs_quota_us="50000")
    bench.tree.fail("cpu.cfs_quota_us", errno.EINVAL, group="be")
    receipts = bench.limit(1.0)
    assert {(each.target, each.result, each.action) for each in receipts} == {
        ("cpu:/be/cpu.cfs_quota_us", Result.FAILED, 0),
        ("cpu:/be/pod/cpu.cfs_quota_us", Result.UNCHANGED, 0),
    }
