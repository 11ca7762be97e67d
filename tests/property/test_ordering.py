"""Whatever changes at once: the kernel accepts every step of the order, and originals come back."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from acting import Bench, burst, cpus, limit, unburst, uncpus, unlimit
from kernel_tree import KernelTree
from qosmanager.execute.ordering import Change, ordered
from qosmanager.model.actions import Result
from qosmanager.model.cpu_list import format_cpus
from qosmanager.model.qos import QoS
from qosmanager.model.workload import CgroupFile

GROUPS = ("a", "a/b", "a/b/c", "a/d")
QUOTA, BURST, CPUS = "cpu.cfs_quota_us", "cpu.cfs_burst_us", "cpuset.cpus"


def above(group):
    return group.rpartition("/")[0]


@st.composite
def finite_trees(draw):
    """Quota, burst and cpuset of each group, as the kernel would allow them; every quota a number."""
    tree = {"": (400_000, 0, frozenset(range(4)))}
    for group in GROUPS:
        quota, _, mine = tree[above(group)]
        own = draw(st.integers(1000, quota))
        tree[group] = (own, draw(st.integers(0, own)), frozenset(draw(st.sets(st.sampled_from(sorted(mine)), min_size=1))))
    del tree[""]
    return tree


def texts(values):
    quota, kernel_burst, mine = values
    return {QUOTA: str(quota), BURST: str(kernel_burst), CPUS: format_cpus(mine)}


@given(before=finite_trees(), after=finite_trees())
def test_kernel_accepts_every_step_from_any_tree_to_any_other(before, after):
    with tempfile.TemporaryDirectory() as directory:
        tree = KernelTree(Path(directory))
        for group in GROUPS:
            tree.add(group, pids=(7,))
            for name, text in texts(before[group]).items():
                tree.put(CgroupFile(name.partition(".")[0], group, name), text)
        changes = [
            Change(CgroupFile(name.partition(".")[0], group, name), texts(before[group])[name], text)
            for group in GROUPS
            for name, text in texts(after[group]).items()
        ]
        for step in ordered(change for change in changes if change.before != change.after):
            tree.write(step.file, step.after)
        held = {group: {name: tree.text(group, name) for name in (QUOTA, BURST, CPUS)} for group in GROUPS}
        assert held == {group: texts(after[group]) for group in GROUPS}


ACTIONS = st.one_of(
    st.floats(0.05, 4.0).map(limit),
    st.just(unlimit()),
    st.sampled_from(["0", "1-2", "0-3", "3"]).map(cpus),
    st.just(uncpus()),
    st.floats(1.0, 3.0).map(lambda cores: burst("default/api", cores, 1.0)),
    st.just(unburst("default/api", 1.0)),
)


@given(plans=st.lists(st.lists(ACTIONS, max_size=3), max_size=6), own=finite_trees(), parent=st.booleans())
def test_any_sequence_of_plans_is_accepted_and_can_be_undone(plans, own, parent):
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory))
        for group in GROUPS:
            bench.tree.add(group, pids=(7,))
            for name, text in texts(own[group]).items():
                bench.tree.put(CgroupFile(name.partition(".")[0], group, name), text)
        bench.tree.add("api", cpu_cfs_quota_us="100000")
        bench.pod("api", QoS.LS, "api")
        bench.pod("b", QoS.BE, "a/b")
        bench.pod("d", QoS.BE, "a/d")
        bench.be_parent = "a" if parent else None
        before = contents(bench)
        for plan in plans:
            receipts = bench.cycle(*plan)
            assert not [each for each in receipts if each.result in (Result.FAILED, Result.GONE, Result.DRIFTED)]
        bench.executor.restore_all()
        assert contents(bench) == before


def contents(bench):
    return {(group, name): bench.tree.text(group, name) for group in (*GROUPS, "api") for name in (QUOTA, BURST, CPUS)}
