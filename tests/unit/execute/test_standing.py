from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from acting import Bench, FakeScores, FullJournal, results
from qosmanager.execute.resource_executor import ResourceExecutor
from qosmanager.model.actions import Result, Standing
from qosmanager.model.qos import QoS
from qosmanager.model.workload import CgroupFile

OOM = Standing(oom_score_adj=1000)


@pytest.mark.parametrize(("layout", "name", "smallest", "own"), [("v1", "cpu.shares", "2", "1024"), ("v2", "cpu.weight", "1", "100")])
def test_be_parent_has_the_smallest_weight(tmp_path, layout, name, smallest, own):
    bench = Bench(tmp_path, layout)
    bench.tree.add("be")
    bench.standing = Standing(be_weight=True)
    assert results(bench.cycle()) == [Result.APPLIED]
    assert bench.tree.text("be", name) == smallest
    bench.tree.put(CgroupFile("cpu", "be", name), own)
    assert results(bench.cycle()) == [Result.DRIFTED]
    assert bench.tree.text("be", name) == smallest
    bench.standing = Standing()
    bench.cycle()
    assert bench.tree.text("be", name) == own


def test_kubelets_group_keeps_the_weight_that_kubelet_gives_it(tmp_path):
    bench = Bench(tmp_path)
    bench.tree.add("be")
    bench.kubelet_owned = True
    bench.standing = Standing(be_weight=True)
    assert bench.cycle() == ()
    assert bench.tree.writes == []


def test_weight_is_not_written_while_idle(tmp_path):
    bench = Bench(tmp_path)
    bench.tree.add("be", cpu_idle="1")
    bench.standing = Standing(be_weight=True)
    assert results(bench.cycle()) == [Result.REFUSED]
    assert bench.tree.writes == []
    assert bench.cycle() == ()


@pytest.fixture
def bench(tmp_path):
    """BE pod default/job with processes 11 (0), 12 (1000) in its group and 13 (-5) in one below."""
    bench = Bench(tmp_path)
    bench.tree.add("be/job", pids=(11, 12))
    bench.tree.add("be/job/inner", pids=(13,))
    bench.scores = FakeScores(p11=0, p12=1000, p13=-5)
    bench.executor = ResourceExecutor(bench.tree, bench.journal, bench.scores, bench.boot)
    bench.pod("job", QoS.BE, "be/job")
    bench.standing = OOM
    return bench


def test_oom_scores_are_raised_and_put_back(bench):
    assert results(bench.cycle()) == [Result.APPLIED]
    assert bench.scores.scores == {11: 1000, 12: 1000, 13: 1000}
    bench.standing = Standing()
    bench.cycle()
    assert bench.scores.scores == {11: 0, 12: 1000, 13: -5}
    assert bench.journal.load().oom == ()


def test_processes_that_are_in_another_hierarchy_alone_are_found_there_and_put_back(bench):
    for group in ("be/job", "be/job/inner"):
        Path(bench.tree.files.path(CgroupFile("memory", group, "cgroup.procs"))).write_text("")
    bench.cycle()
    assert bench.scores.scores == {11: 1000, 12: 1000, 13: 1000}
    successor = ResourceExecutor(bench.tree, bench.journal, bench.scores, bench.boot)
    successor.adopt()
    successor.restore_all()
    assert bench.scores.scores == {11: 0, 12: 1000, 13: -5}


def test_new_processes_are_found_within_ten_seconds_and_get_their_own_back(bench):
    bench.cycle()
    # 14 is born of a raised one, 15 came with 300.
    bench.scores.scores |= {14: 1000, 15: 300}
    bench.tree.set_pids("be/job", 11, 12, 14, 15)
    for _ in range(10):
        bench.cycle()
    assert bench.scores.scores[15] == 1000
    bench.executor.restore_all()
    assert bench.scores.scores == {11: 0, 12: 1000, 13: -5, 14: -5, 15: 300}


def test_a_group_is_looked_at_at_once_and_then_every_ten_seconds(bench):
    # The first time after it comes sooner, so that many groups are not looked at in the same cycle.
    for second in range(1, 25):
        bench.tree.set_pids("be/job", 11, 100 + second)
        bench.scores.scores[100 + second] = 0
        bench.cycle()
    assert [second for second in range(1, 25) if bench.scores.scores[100 + second] == 1000] == [1, 2, 12, 22]


def test_many_groups_are_raised_after_one_save_of_the_journal(bench):
    saves = []

    class Spy:
        def load(self):
            return None

        def save(self, record):
            saves.append({each.group: each.value for each in record.oom})

    bench.executor = ResourceExecutor(bench.tree, Spy(), bench.scores, bench.boot)
    bench.tree.add("be/more", pids=(21,))
    bench.scores.scores[21] = 5
    bench.pod("more", QoS.BE, "be/more")
    assert results(bench.cycle()) == [Result.APPLIED, Result.APPLIED]
    assert saves == [{"be/job": 1000, "be/more": 1000}]
    assert bench.scores.scores[21] == 1000


def test_score_that_somebody_else_changed_is_left_alone(bench):
    bench.cycle()
    bench.scores.scores[11] = 500
    bench.executor.restore_all()
    assert bench.scores.scores[11] == 500


def test_group_that_is_no_longer_be_has_its_scores_back(bench):
    bench.cycle()
    bench.pods.clear()
    for _ in range(5):
        bench.cycle()
    assert bench.scores.scores == {11: 0, 12: 1000, 13: -5}


def test_processes_that_may_not_be_raised_are_told_of(bench):
    bench.scores.locked = {11}
    (receipt,) = bench.cycle()
    assert receipt.result is Result.REFUSED
    assert "process 11" in receipt.detail
    assert bench.scores.scores[13] == 1000


def test_full_journal_means_that_no_score_is_written(bench):
    bench.executor = ResourceExecutor(bench.tree, FullJournal(), bench.scores, bench.boot)
    assert Result.REFUSED in results(bench.cycle())
    assert bench.scores.scores == {11: 0, 12: 1000, 13: -5}


def test_scores_survive_the_agent(bench):
    bench.cycle()
    bench.restarted()
    bench.executor.adopt()
    bench.cycle()
    bench.executor.restore_all()
    assert bench.scores.scores == {11: 0, 12: 1000, 13: -5}


@pytest.mark.parametrize("code", [errno.EIO, errno.EMFILE])
def test_a_group_that_cannot_be_looked_at_keeps_its_scores_in_the_journal(bench, code):
    bench.cycle()
    bench.tree.fail("", code, call="inode", group="be/job")
    bench.restarted().adopt()
    assert Result.FAILED in results(bench.executor.restore_all())
    assert bench.scores.scores == {11: 1000, 12: 1000, 13: 1000}
    bench.tree.heal()
    bench.restarted().adopt()
    bench.executor.restore_all()
    assert bench.scores.scores == {11: 0, 12: 1000, 13: -5}


def lose(bench):
    """The group ends in the hierarchy where its processes were found; they live on in the others."""
    shutil.rmtree(bench.tree.root / "memory" / "be/job")


def make_anew(bench):
    """The group in the hierarchy where its processes were found becomes another one, and empty."""
    directory = bench.tree.root / "memory" / "be/job"
    directory.rename(directory.with_name("before"))
    directory.mkdir()
    (directory / "cgroup.procs").write_text("")


@pytest.mark.parametrize("change", [lose, make_anew])
def test_processes_that_live_on_in_another_hierarchy_get_their_scores_back_at_a_restore(bench, change):
    bench.cycle()
    change(bench)
    bench.restarted().adopt()
    assert results(bench.executor.restore_all()) == [Result.APPLIED]
    assert bench.scores.scores == {11: 0, 12: 1000, 13: -5}
    assert bench.journal.load().oom == ()


@pytest.mark.parametrize("change", [lose, make_anew])
def test_processes_that_live_on_in_another_hierarchy_are_raised_there_with_their_own_originals(bench, change):
    bench.cycle()
    change(bench)
    for _ in range(21):  # two looks, 10 s apart
        bench.cycle()
    assert bench.scores.scores == {11: 1000, 12: 1000, 13: 1000}
    assert [(entry.controller, entry.processes) for entry in bench.journal.load().oom] == [
        ("cpu", {"11:110": 0, "12:120": 1000, "13:130": -5})
    ]
    bench.executor.restore_all()
    assert bench.scores.scores == {11: 0, 12: 1000, 13: -5}


def test_a_group_of_which_no_process_is_left_is_forgotten(bench):
    bench.cycle()
    bench.tree.remove("be/job")
    bench.scores.scores = {}
    bench.restarted().adopt()
    assert results(bench.executor.restore_all()) == [Result.GONE]
    assert bench.journal.load().oom == ()


def test_scores_that_cannot_be_put_back_stay_in_the_journal_and_are_no_originals(bench):
    bench.cycle()
    bench.scores.locked = {11}
    bench.standing = Standing(oom_score_adj=900)
    bench.cycle()
    assert [entry.processes for entry in bench.journal.load().oom] == [{"11:110": 0, "12:120": 1000, "13:130": -5}]
    bench.scores.locked = set()
    for _ in range(6):
        bench.cycle()
    assert bench.scores.scores == {11: 900, 12: 1000, 13: 900}
    bench.executor.restore_all()
    assert bench.scores.scores == {11: 0, 12: 1000, 13: -5}
