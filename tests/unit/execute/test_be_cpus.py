from __future__ import annotations

import errno

import pytest
from msgspec.structs import replace

from acting import Bench, cpus, limit, results, uncpus, unlimit
from qosmanager.model.actions import Result, Standing
from qosmanager.model.qos import QoS
from qosmanager.model.workload import CgroupFile

CPUS = "cpuset.cpus"


@pytest.fixture
def bench(tmp_path):
    bench = Bench(tmp_path)
    bench.tree.add("be")
    bench.tree.add("be/pod")
    return bench


def sets(bench, *groups):
    return [bench.tree.text(group, CPUS) for group in groups or ("be", "be/pod")]


def test_set_shrinks_child_first_and_grows_parent_first(bench):
    bench.cycle(cpus("0-1"))
    assert bench.tree.writes == [("cpuset:/be/pod/cpuset.cpus", "0-1"), ("cpuset:/be/cpuset.cpus", "0-1")]
    bench.tree.writes.clear()
    bench.cycle(cpus("0-2"))
    assert bench.tree.writes == [("cpuset:/be/cpuset.cpus", "0-2"), ("cpuset:/be/pod/cpuset.cpus", "0-2")]


def test_set_that_moves_passes_through_the_union(bench):
    bench.cycle(cpus("0-1"))
    bench.tree.writes.clear()
    bench.cycle(cpus("2-3"))
    assert bench.tree.writes == [
        ("cpuset:/be/cpuset.cpus", "0-3"),
        ("cpuset:/be/pod/cpuset.cpus", "0-3"),
        ("cpuset:/be/pod/cpuset.cpus", "2-3"),
        ("cpuset:/be/cpuset.cpus", "2-3"),
    ]


def test_originals_come_back(bench):
    bench.tree.put(CgroupFile("cpuset", "be/pod", CPUS), "1-3")
    bench.cycle(cpus("0-1"))
    assert sets(bench) == ["0-1", "1"]
    bench.cycle(uncpus())
    assert sets(bench) == ["0-3", "1-3"]
    assert bench.journal.load().entries == ()


def test_group_born_inside_our_set_is_widened_with_it(bench):
    bench.cycle(cpus("0"))
    bench.tree.add("be/new")
    assert sets(bench, "be/new") == ["0"]
    bench.cycle(cpus("0-1"))
    assert sets(bench, "be/new") == ["0-1"]
    bench.tree.add("be/newer")
    bench.cycle(uncpus())
    assert sets(bench, "be", "be/new", "be/newer") == ["0-3", "0-3", "0-3"]


def test_group_that_was_never_given_cpus_is_left_alone(bench):
    bench.tree.add("be/empty", cpuset_cpus="")
    assert Result.FAILED not in results(bench.cycle(cpus("0-1")))
    assert sets(bench, "be/empty") == [""]


def test_cpus_outside_the_parents_are_left_out(tmp_path):
    bench = Bench(tmp_path)
    bench.tree.add("slice", cpuset_cpus="0-2")
    bench.tree.add("slice/be")
    bench.be_parent = "slice/be"
    bench.cycle(cpus("2-3"))
    assert sets(bench, "slice/be") == ["2"]


def test_set_is_never_empty(bench):
    bench.standing = Standing(exclusive_cpus=(0, 1))
    (receipt,) = [each for each in bench.cycle(cpus("0-1")) if each.action is not None]
    assert receipt.result is Result.REFUSED
    assert "no CPU would be left" in receipt.detail


def test_exclusive_cpus_are_never_in_the_set_under_either_policy(bench):
    bench.standing = Standing(exclusive_cpus=(0,))
    bench.cycle()
    assert sets(bench) == ["1-3", "1-3"]
    bench.cycle(cpus("0-1"))
    assert sets(bench) == ["1", "1"]
    bench.cycle(uncpus())
    assert sets(bench) == ["1-3", "1-3"]
    bench.standing = Standing()
    bench.cycle()
    assert sets(bench) == ["0-3", "0-3"]


def test_text_that_is_no_list_of_cpus_is_refused(bench):
    assert results(bench.cycle(cpus("0-x"))) == [Result.REFUSED]


def test_refused_set_is_undone(bench):
    bench.tree.fail(CPUS, errno.EBUSY, group="be", times=1)
    assert results(bench.cycle(cpus("0-1"))) == [Result.FAILED, Result.FAILED]
    assert sets(bench) == ["0-3", "0-3"]


def test_foreign_set_is_put_back(bench):
    bench.cycle(cpus("0-1"))
    bench.tree.put(CgroupFile("cpuset", "be", CPUS), "0-3")
    assert results(bench.cycle()) == [Result.DRIFTED]
    assert sets(bench) == ["0-1", "0-1"]


def test_pods_without_a_common_parent(bench):
    bench.be_parent = None
    bench.tree.add("one")
    bench.pod("one", QoS.BE, "one")
    bench.cycle(cpus("3"))
    assert sets(bench, "one", "be") == ["3", "0-3"]
    bench.pods["default/one"] = replace(bench.pods["default/one"], qos=QoS.LS)
    bench.cycle()
    assert sets(bench, "one") == ["0-3"]


def test_v2_writes_the_parent_alone_and_empties_it_again(tmp_path):
    bench = Bench(tmp_path, "v2")
    bench.tree.add("be")
    bench.tree.add("be/pod")
    bench.cycle(cpus("0-1"))
    assert sets(bench) == ["0-1", ""]
    assert bench.tree.text("be/pod", "cpuset.cpus.effective") == "0,1"
    bench.cycle(uncpus())
    assert sets(bench) == ["", ""]
    assert bench.journal.load().entries == ()


def test_below_kubelets_static_policy_no_cpuset_is_written_on_v1(bench):
    bench.kubelet_owned = True
    bench.kubelet_cpusets = "be"
    bench.standing = Standing(exclusive_cpus=(0,))
    # kubelet itself keeps its shared pool off the exclusive CPUs: there is nothing to do and nothing to tell.
    assert bench.cycle() == ()
    (receipt,) = bench.cycle(cpus("1"))
    assert (receipt.result, receipt.action) == (Result.REFUSED, 0)
    assert "kubelet's static CPU policy" in receipt.detail
    assert bench.tree.writes == []


def test_where_kubelets_policy_is_not_known_batch_is_kept_off_exclusive_cpus_and_given_no_others_on_v1(bench):
    bench.kubelet_owned = True
    bench.kubelet_may_write = "be"
    bench.standing = Standing(exclusive_cpus=(0,))
    bench.cycle()
    assert sets(bench) == ["1-3", "1-3"]
    receipt = next(each for each in bench.cycle(cpus("1")) if each.action == 0)
    assert receipt.result is Result.REFUSED
    assert "kubelet's CPU policy is not known" in receipt.detail
    bench.cycle()
    assert sets(bench) == ["1-3", "1-3"]


def test_a_set_that_holds_none_of_the_cpus_a_group_below_asks_for_is_refused_on_v2(tmp_path):
    bench = Bench(tmp_path, "v2")
    bench.tree.add("be")
    bench.tree.add("be/pod", cpuset_cpus="2-3")
    # The kernel would give it 0-1 then, which kubelet may have given to somebody else.
    receipt = next(each for each in bench.cycle(cpus("0-1")) if each.action == 0)
    assert (receipt.result, "be/pod asks for other CPUs" in receipt.detail) == (Result.REFUSED, True)
    assert sets(bench, "be") == [""]
    bench.cycle(cpus("1-2"))
    assert sets(bench, "be") == ["1-2"]


def test_our_set_is_put_back_when_kubelet_begins_to_write_cpusets(bench):
    bench.cycle(cpus("1"))
    assert sets(bench) == ["1", "1"]
    bench.kubelet_cpusets = "be"
    bench.cycle()
    assert sets(bench) == ["0-3", "0-3"]


def test_groups_outside_kubelets_tree_are_held_beside_it(bench):
    bench.be_parent = None
    bench.kubelet_cpusets = "kubepods"
    for group in ("kubepods/besteffort/pod1", "job"):
        bench.tree.add(group)
        bench.pod(group.rpartition("/")[2], QoS.BE, group)
    bench.standing = Standing(exclusive_cpus=(2, 3))
    bench.cycle()
    assert sets(bench, "kubepods/besteffort/pod1", "job") == ["0-3", "0-1"]


def test_on_v2_kubelets_containers_may_ask_for_more_than_batch_has(tmp_path):
    bench = Bench(tmp_path, "v2")
    bench.tree.add("be/pod", cpuset_cpus="1-3")
    bench.kubelet_cpusets = "be"
    bench.standing = Standing(exclusive_cpus=(0,))
    bench.cycle(cpus("1"))
    assert sets(bench) == ["1", "1-3"]
    bench.tree.write(CgroupFile("cpuset", "be/pod", CPUS), "0-3")  # the pool grows: kubelet's write is taken
    assert bench.tree.text("be/pod", "cpuset.cpus.effective") == "1"


def test_set_that_could_not_be_written_is_not_written_later_unasked(bench):
    bench.cycle(cpus("0"))
    bench.tree.fail(CPUS, errno.EBUSY)
    assert Result.FAILED in results(bench.cycle(cpus("0-2")))
    bench.tree.heal()
    bench.cycle()
    assert sets(bench) == ["0", "0"]
    assert bench.journal.load().be_cpus == "0"


def test_set_that_one_pod_cannot_take_is_in_force_for_the_others(bench):
    bench.be_parent = None
    bench.tree.add("one", cpuset_cpus="0-1")
    bench.tree.add("two", cpuset_cpus="2-3")
    for name in ("one", "two"):
        bench.pod(name, QoS.BE, name)
    receipts = bench.cycle(cpus("0"))
    assert sets(bench, "one", "two") == ["0", "2-3"]
    assert {(each.target, each.result, each.action) for each in receipts} == {
        ("cpuset:/one/cpuset.cpus", Result.APPLIED, 0),
        ("cpuset:/two/cpuset.cpus", Result.REFUSED, None),
    }


def test_the_quota_goes_on_holding_when_the_cpus_that_were_to_hold_instead_cannot_be_set(bench):
    bench.cycle(limit(2.0))
    bench.tree.fail(CPUS, errno.EBUSY)
    assert results(bench.cycle(cpus("0-1"), unlimit()))[-1] is Result.REFUSED
    assert bench.tree.text("be", "cpu.cfs_quota_us") == "200000"
    bench.tree.heal()
    for _ in range(12):
        assert bench.cycle() == (), "nor do the CPUs come late"
    assert (sets(bench), bench.journal.load().be_cpus) == (["0-3", "0-3"], None)
    assert set(results(bench.cycle(cpus("0-1"), unlimit()))) == {Result.APPLIED}
    assert (sets(bench), bench.tree.text("be", "cpu.cfs_quota_us")) == (["0-1", "0-1"], "-1")


def test_the_cpus_go_on_holding_when_the_quota_cannot_be_set(bench):
    bench.cycle(cpus("0-1"))
    bench.tree.fail("cpu.cfs_quota_us", errno.EIO, group="be")
    bench.cycle(limit(2.0), uncpus())
    assert sets(bench) == ["0-1", "0-1"]


def test_the_cpus_that_batch_may_have_are_those_of_its_groups_without_us(bench):
    bench.tree.put(CgroupFile("cpuset", "be", CPUS), "1-3")
    assert bench.executor.allowed_cpus(["be"]) == {1, 2, 3}
    bench.cycle(cpus("2"))
    assert bench.executor.allowed_cpus(["be"]) == {1, 2, 3}
    bench.tree.add("one", cpuset_cpus="0-1")
    assert bench.executor.allowed_cpus(["be", "one"]) == {1}, "all of them"
    bench.tree.add("two", cpuset_cpus="0")
    assert bench.executor.allowed_cpus(["be", "two"]) == frozenset()
    assert bench.executor.allowed_cpus(["be", "gone"]) == {1, 2, 3}


def test_v2_takes_no_empty_set_back_while_tasks_run_and_gets_every_cpu_instead(tmp_path):
    bench = Bench(tmp_path, "v2")
    for group in ("be", "be/pod"):
        bench.tree.add(group)
    bench.cycle(cpus("0-1"))
    bench.tree.set_pids("be/pod", 4711)
    (receipt,) = bench.cycle(uncpus())
    assert (receipt.result, receipt.after) == (Result.APPLIED, "0-3"), receipt.detail
    assert "the kernel takes no empty set while tasks run in the group" in receipt.detail
    assert sets(bench, "be") == ["0-3"]
    assert bench.executor.restore_all() == (), "nothing is owned any more"


def test_a_refused_set_leaves_those_below_ours_too(tmp_path):
    bench = Bench(tmp_path)
    bench.tree.add("be", cpuset_cpus="0-1")
    bench.tree.add("be/job", pids=(7,), cpuset_cpus="0")
    bench.pod("job", QoS.BE, "be/job")
    bench.cycle(cpus("0"), cpus("3"))
    assert bench.tree.text("be", "cpuset.cpus") == "0"
    # Taken for one born since, it would be given what the group above it had.
    bench.executor.restore_all()
    assert (bench.tree.text("be", "cpuset.cpus"), bench.tree.text("be/job", "cpuset.cpus")) == ("0-1", "0")
