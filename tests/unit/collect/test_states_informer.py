import os

import pytest

from kernel_tree import KernelTree
from measuring import rule
from qosmanager.collect.kubepods import Kubepods
from qosmanager.collect.states_informer import RuleSource, StatesInformer
from qosmanager.linux.cgroup_reader import CgroupReaders
from qosmanager.linux.cgroup_tree import CgroupTree
from qosmanager.linux.kubelet import KubeletCpus
from qosmanager.model.qos import QoS
from qosmanager.model.workload import LatencySource


@pytest.fixture(params=["v1", "v2", "hybrid"])
def kernel(request, tmp_path):
    return KernelTree(tmp_path, request.param)


def informer(kernel, *rules):
    tree = CgroupTree(kernel.files)
    return StatesInformer(tree, (RuleSource(tree, rules),))


def found(kernel, *rules):
    return {workload.key: workload.cgroup for workload in informer(kernel, *rules).refresh(0.0).workloads}


def test_a_declared_group_that_is_there(kernel):
    kernel.add("system.slice/nginx.service")
    rules = (rule("api", "system.slice/nginx.service"), rule("ghost", "system.slice/ghost.service"))
    assert found(kernel, *rules) == {"default/api": "system.slice/nginx.service"}


def test_all_that_is_declared_is_taken_over(kernel):
    kernel.add("web")
    fields = {
        "namespace": "shop",
        "priority": 9000,
        "critical": True,
        "owner": "unit",
        "cpu_request": 2.0,
        "cpu_limit": 4.0,
        "memory_request": 5,
        "memory_limit": 6,
        "slo_p99": 0.05,
        "latency": LatencySource("http://127.0.0.1:1/metrics", "h"),
        "grace": 5.0,
    }
    (workload,) = informer(kernel, rule("api", "web", QoS.LSR, **fields)).refresh(0.0).workloads
    assert {name: getattr(workload, name) for name in fields} == fields
    assert workload.qos is QoS.LSR
    assert workload.created is not None


def test_each_match_of_a_pattern_is_a_pod(kernel):
    for name in ("job-b", "job-a", "other"):
        kernel.add(f"batch.slice/{name}")
    assert found(kernel, rule("batch", "batch.slice/job-*", QoS.BE)) == {
        "default/batch-job-a": "batch.slice/job-a",
        "default/batch-job-b": "batch.slice/job-b",
    }


def test_a_group_named_in_full_belongs_to_that_rule_whatever_the_order(kernel):
    kernel.add("batch.slice/a")
    kernel.add("batch.slice/db")
    rules = (rule("batch", "batch.slice/*", QoS.BE), rule("db", "batch.slice/db"))
    assert found(kernel, *rules) == {"default/db": "batch.slice/db", "default/batch-a": "batch.slice/a"}


def test_the_first_of_two_patterns_has_the_group(kernel):
    kernel.add("batch.slice/a")
    assert found(kernel, rule("x", "batch.slice/*"), rule("y", "batch.slice/a*")) == {"default/x-a": "batch.slice/a"}


@pytest.mark.parametrize("first", ["batch.slice", "batch.slice/a/deep"])
def test_no_process_counts_twice(kernel, first):
    kernel.add("batch.slice/a/deep")
    residents = informer(kernel, rule("first", first), rule("second", "batch.slice/a")).refresh(0.0)
    assert [workload.name for workload in residents.workloads] == ["first"]
    assert "default/second" in residents.problems[0]


def test_a_name_stands_for_one_group(kernel):
    kernel.add("a")
    kernel.add("b")
    residents = informer(kernel, rule("api", "a"), rule("api", "b")).refresh(0.0)
    assert [workload.cgroup for workload in residents.workloads] == ["a"]
    assert "both a and b" in residents.problems[0]


def test_a_declared_group_that_is_not_there_is_told_until_it_comes(kernel):
    kernel.add("web")
    states = informer(kernel, rule("api", "shop/api", namespace="shop"), rule("web", "web"))
    residents = states.refresh(0.0)
    assert residents.problems == (f"shop/api: no cgroup shop/api under {kernel.root} (yet)",)
    kernel.add("shop/api")
    residents = states.refresh(1.0)
    assert residents.problems == ()
    assert len(residents.workloads) == 2


def test_a_pattern_without_a_match_is_no_problem_but_its_parent_must_be_there(kernel):
    kernel.add("batch.slice")
    rules = (rule("batch", "batch.slice/*", QoS.BE), rule("top", "nothing-*"), rule("other", "bacth.slice/*", QoS.BE))
    assert informer(kernel, *rules).refresh(0.0).problems == (f"default/other: no cgroup bacth.slice under {kernel.root} (yet)",)


def test_nothing_at_all_is_told(kernel):
    assert informer(kernel).refresh(0.0).problems == (f"no workload is declared and no kubelet tree was found under {kernel.root}",)


class _Unreached(RuleSource):
    """Declares nothing, and knows why."""

    problems = property(lambda _: ("pods from api: connection refused",), lambda _self, _value: None)


def test_why_nothing_is_known_is_told_beside_it(kernel):
    tree = CgroupTree(kernel.files)
    nothing = f"no workload is declared and no kubelet tree was found under {kernel.root}"
    found = StatesInformer(tree, (_Unreached(tree, ()),)).refresh(0.0)
    assert found.problems == (nothing, "pods from api: connection refused")


def test_a_link_is_no_group(kernel, tmp_path):
    kernel.add("batch.slice/a")
    (tmp_path / "elsewhere").mkdir()
    base = kernel.files.directory("cpu", "batch.slice")
    (type(tmp_path)(base) / "link").symlink_to(tmp_path / "elsewhere")
    assert found(kernel, rule("batch", "batch.slice/*"), rule("l", "batch.slice/link")) == {"default/batch-a": "batch.slice/a"}


def test_nothing_is_read_again_while_nothing_changes(kernel):
    kernel.add("batch.slice/a")
    states = informer(kernel, rule("batch", "batch.slice/*", QoS.BE))
    before = states.refresh(0.0)
    assert states.refresh(1.0) is before
    assert states.refresh(30.0) is before


def test_a_new_group_is_seen_at_once(kernel):
    kernel.add("batch.slice/a")
    states = informer(kernel, rule("batch", "batch.slice/*", QoS.BE), rule("late", "late.slice/x"))
    states.refresh(0.0)
    kernel.add("batch.slice/b")
    assert len(states.refresh(1.0).workloads) == 2
    kernel.add("late.slice/x")
    assert len(states.refresh(2.0).workloads) == 3
    kernel.remove("batch.slice/a")
    assert len(states.refresh(3.0).workloads) == 2


def test_a_vanished_group_has_everything_read_again(kernel):
    kernel.add("batch.slice/a")
    states = informer(kernel, rule("batch", "batch.slice/*", QoS.BE))
    states.refresh(0.0)
    kernel.remove("batch.slice/a")
    kernel.add("batch.slice/b")
    states.invalidate()
    assert [workload.name for workload in states.refresh(1.0).workloads] == ["batch-b"]


class Birth(CgroupTree):
    """A tree in which a group is born right after the groups beside it were listed."""

    def __init__(self, kernel, group):
        super().__init__(kernel.files)
        self._born = group
        self._kernel = kernel

    def children(self, group):
        names = super().children(group)
        if group == self._born.rpartition("/")[0] and not os.path.exists(self._kernel.files.directory("cpu", self._born)):
            self._kernel.add(self._born)
        return names


def test_a_group_born_during_the_scan_is_found_by_the_next_one_and_does_not_cost_the_parent(kernel):
    kernel.add("batch.slice/a")
    tree = Birth(kernel, "batch.slice/b")
    states = StatesInformer(tree, (RuleSource(tree, (rule("batch", "batch.slice/*", QoS.BE),)),))
    first = states.refresh(0.0)
    assert [workload.name for workload in first.workloads] == ["batch-a"]
    assert first.be_parent == "batch.slice"
    assert [workload.name for workload in states.refresh(1.0).workloads] == ["batch-a", "batch-b"]


def test_a_service_among_batch_costs_the_parent_also_where_batch_is_born(kernel):
    kernel.add("batch.slice/a")
    kernel.add("batch.slice/api")
    states = informer(kernel, rule("api", "batch.slice/api"), rule("batch", "batch.slice/*", QoS.BE))
    assert states.refresh(0.0).be_parent is None


class TestBeParent:
    BATCH = rule("batch", "batch.slice/*", QoS.BE)

    def parent(self, kernel, *rules):
        return informer(kernel, *rules).refresh(0.0).be_parent

    def test_the_parent_that_holds_all_be_and_nothing_else(self, kernel):
        kernel.add("batch.slice/a")
        kernel.add("batch.slice/b")
        kernel.add("web")
        assert self.parent(kernel, self.BATCH, rule("api", "web")) == "batch.slice"

    def test_it_is_known_before_the_first_pod_comes(self, kernel):
        kernel.add("batch.slice")
        assert self.parent(kernel, self.BATCH) == "batch.slice"

    def test_none_with_an_ls_pod_in_it(self, kernel):
        kernel.add("batch.slice/a")
        kernel.add("batch.slice/db")
        assert self.parent(kernel, self.BATCH, rule("db", "batch.slice/db")) is None

    def test_none_with_an_undeclared_group_in_it(self, kernel):
        kernel.add("batch.slice/job-a")
        kernel.add("batch.slice/stranger")
        assert self.parent(kernel, rule("batch", "batch.slice/job-*", QoS.BE)) is None

    def test_none_with_processes_of_its_own(self, kernel):
        kernel.add("batch.slice", pids=(1,))
        kernel.add("batch.slice/a")
        assert self.parent(kernel, self.BATCH) is None

    def test_none_when_be_lies_in_two_places(self, kernel):
        kernel.add("batch.slice/a")
        kernel.add("more.slice/b")
        assert self.parent(kernel, self.BATCH, rule("b", "more.slice/b", QoS.BE)) is None

    def test_the_root_is_nobodys(self, kernel):
        kernel.add("job")
        assert self.parent(kernel, rule("job", "job", QoS.BE)) is None

    def test_none_without_be(self, kernel):
        kernel.add("web")
        assert self.parent(kernel, rule("api", "web")) is None


BESTEFFORT = "kubepods/besteffort/pod12345678-1234-1234-1234-123456789abc"


@pytest.mark.parametrize("production", [(BESTEFFORT, "kubepods/pod22345678-1234-1234-1234-123456789abc"), ("kubepods/besteffort",)])
def test_where_one_group_is_the_node_the_rest_of_the_machine_is_left_alone(tmp_path, production):
    kernel = KernelTree(tmp_path, "v1")
    for group in ("node/api", "node/batch/one", "nodes/other", *production):
        kernel.add(group)
    tree = CgroupTree(kernel.files)
    rules = (rule("api", "node/api"), rule("batch", "node/batch/*", QoS.BE), rule("other", "nodes/other"))
    kubepods = Kubepods(tree, CgroupReaders(kernel.files), KubeletCpus(tmp_path / "cpu_manager_state"))
    residents = StatesInformer(tree, (RuleSource(tree, rules), kubepods), "node").refresh(0.0)
    assert [workload.cgroup for workload in residents.workloads] == ["node/api", "node/batch/one"]
    assert residents.be_parent == "node/batch"
    assert "default/other: nodes/other lies outside node, which is the node; left alone" in residents.problems
    assert not [problem for problem in residents.problems if "12345678" in problem], "pods of kubelet are not declared: nothing to tell"


def test_without_batch_on_the_node_that_of_the_machine_is_not_its_parent(tmp_path):
    kernel = KernelTree(tmp_path, "v1")
    for group in ("node/api", "kubepods/besteffort"):
        kernel.add(group)
    tree = CgroupTree(kernel.files)
    kubepods = Kubepods(tree, CgroupReaders(kernel.files), KubeletCpus(tmp_path / "cpu_manager_state"))
    assert StatesInformer(tree, (kubepods,)).refresh(0.0).be_parent == "kubepods/besteffort"
    assert StatesInformer(tree, (kubepods,), "node").refresh(0.0).be_parent is None


def test_a_groups_name_that_is_no_text_is_a_pod_whose_name_can_be_told(kernel):
    group = os.fsdecode(b"batch.slice/\xffj")
    kernel.add(group)
    assert found(kernel, rule("batch", "batch.slice/*", QoS.BE)) == {"default/batch-\\xffj": group}


def test_a_group_whose_name_a_terminal_would_obey_is_told_without_that(kernel):
    kernel.add("batch.slice/\x1b[2J\u202eä b")
    assert found(kernel, rule("batch", "batch.slice/*", QoS.BE)) == {r"default/batch-\x1b[2J\u202e" + "ä b": "batch.slice/\x1b[2J\u202eä b"}
