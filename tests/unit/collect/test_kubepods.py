import pytest

from kernel_tree import KernelTree
from measuring import rule
from qosmanager.collect.kubepods import Kubepods, find_kubepods
from qosmanager.collect.readings import CpuGrants
from qosmanager.collect.states_informer import RuleSource, StatesInformer
from qosmanager.linux.cgroup_reader import CgroupReaders
from qosmanager.linux.cgroup_tree import CgroupTree
from qosmanager.model.qos import QoS

A, B, C = (f"{letter}1b2c3d4-0000-4000-8000-00000000000{letter}" for letter in "abc")
ID = "0123456789abcdef" * 4


@pytest.fixture(params=["v1", "v2"])
def kernel(request, tmp_path):
    return KernelTree(tmp_path, request.param)


class Manager:
    """kubelet's CPU manager, as told."""

    def __init__(self, **told):
        self.told = CpuGrants(**told)

    def grants(self):
        return self.told


def source(kernel, manager=None):
    return Kubepods(CgroupTree(kernel.files), CgroupReaders(kernel.files), manager or Manager())


def pods(kernel):
    return {workload.uid: workload for workload in source(kernel).scan()}


def systemd(kernel, prefix="kubepods", base=""):
    top = f"{base}{prefix}.slice"
    names = {uid: uid.replace("-", "_") for uid in (A, B, C)}
    kernel.add(f"{top}/{prefix}-pod{names[A]}.slice/cri-containerd-{ID}.scope")
    kernel.add(f"{top}/{prefix}-burstable.slice/{prefix}-burstable-pod{names[B]}.slice/crio-{ID}.scope")
    kernel.add(f"{top}/{prefix}-burstable.slice/{prefix}-burstable-pod{names[B]}.slice/crio-conmon-{ID}.scope")
    kernel.add(f"{top}/{prefix}-besteffort.slice/{prefix}-besteffort-pod{names[C]}.slice/docker-{ID}.scope")
    return top


def cgroupfs(kernel, top="kubepods"):
    kernel.add(f"{top}/pod{A}/{ID}")
    kernel.add(f"{top}/burstable/pod{B}/{ID}")
    kernel.add(f"{top}/besteffort/pod{C}/{ID}")
    return top


CLASSES = {A: QoS.LSR, B: QoS.LS, C: QoS.BE}


@pytest.mark.parametrize("layout", [systemd, cgroupfs])
def test_both_drivers(kernel, layout):
    top = layout(kernel)
    found = pods(kernel)
    assert {uid: workload.qos for uid, workload in found.items()} == CLASSES
    assert all(workload.cgroup.startswith(top) for workload in found.values())
    assert found[A].name == f"pod{A}"
    assert not found[C].labelled
    for workload in found.values():
        (container,) = workload.containers
        assert container.name == ID[:12]
        assert container.cgroup.startswith(workload.cgroup + "/")


def test_another_root(kernel):
    top = cgroupfs(kernel, "docker/0123456789ab/kubelet/kubepods")
    assert find_kubepods(CgroupTree(kernel.files)) == top
    assert {uid: workload.qos for uid, workload in pods(kernel).items()} == CLASSES


def test_kubelets_own_slice_above(kernel):
    top = systemd(kernel, "kubelet-kubepods", "kubelet.slice/")
    assert find_kubepods(CgroupTree(kernel.files)) == top
    assert {uid: workload.qos for uid, workload in pods(kernel).items()} == CLASSES


def test_a_tree_that_lies_too_deep_is_not_looked_for(kernel):
    cgroupfs(kernel, "far/away/from/the/root/kubepods")
    assert pods(kernel) == {}


def test_no_kubernetes(kernel):
    kernel.add("system.slice/nginx.service")
    assert pods(kernel) == {}
    assert source(kernel).watched() == []


def test_what_is_no_pod_is_left_alone(kernel):
    cgroupfs(kernel)
    kernel.add("kubepods/burstable/something")
    kernel.add("kubepods/podium")
    assert pods(kernel).keys() == CLASSES.keys()


def test_requests_come_from_the_weight(tmp_path):
    kernel = KernelTree(tmp_path, "v1")
    kernel.add(f"kubepods/pod{A}", cpu_shares="2048")
    kernel.add(f"kubepods/burstable/pod{B}", cpu_shares="256")
    kernel.add(f"kubepods/besteffort/pod{C}", cpu_shares="2")
    found = pods(kernel)
    assert {uid: workload.cpu_request for uid, workload in found.items()} == {A: 2.0, B: 0.25, C: None}


def test_the_besteffort_directory_is_where_be_is_limited_and_kubelets(kernel):
    cgroupfs(kernel)
    kernel.add("web")
    tree = CgroupTree(kernel.files)
    states = StatesInformer(tree, (RuleSource(tree, (rule("api", "web"),)), source(kernel)))
    residents = states.refresh(0.0)
    assert residents.be_parent == "kubepods/besteffort"
    assert residents.kubelet_owned
    assert len(residents.workloads) == 4


def test_no_common_place_with_a_declared_be_group_elsewhere(kernel):
    cgroupfs(kernel)
    kernel.add("batch.slice/a")
    tree = CgroupTree(kernel.files)
    residents = StatesInformer(tree, (RuleSource(tree, (rule("b", "batch.slice/*", QoS.BE),)), source(kernel))).refresh(0.0)
    assert residents.be_parent is None
    assert not residents.kubelet_owned


def test_pods_and_containers_come_and_go(kernel):
    cgroupfs(kernel)
    tree = CgroupTree(kernel.files)
    states = StatesInformer(tree, (source(kernel),))
    states.refresh(0.0)
    kernel.remove(f"kubepods/besteffort/pod{C}")
    assert len(states.refresh(1.0).workloads) == 2
    # the same number of containers: seen only when somebody says that one vanished
    kernel.remove(f"kubepods/pod{A}/{ID}")
    kernel.add(f"kubepods/pod{A}/{ID[::-1]}")
    states.invalidate()
    (container,) = next(workload for workload in states.refresh(2.0).workloads if workload.uid == A).containers
    assert container.name == ID[::-1][:12]


def test_cpus_given_by_kubelets_static_policy_whatever_the_class(kernel):
    cgroupfs(kernel)
    manager = Manager(static=True, by_uid={A: (2, 3), "some-other-pod": (1,)})
    states = StatesInformer(CgroupTree(kernel.files), (source(kernel, manager=manager),))
    residents = states.refresh(0.0)
    assert {workload.uid: workload.exclusive_cpus for workload in residents.workloads} == {A: (2, 3), B: (), C: ()}
    assert residents.kubelet_cpusets == "kubepods"
    # A change is seen with the next scan, 10 s later.
    manager.told = CpuGrants(static=True, by_uid={B: (1,)})
    assert states.refresh(9.0) is residents
    residents = states.refresh(10.0)
    assert {workload.uid: workload.exclusive_cpus for workload in residents.workloads} == {A: (), B: (1,), C: ()}


def test_a_new_pods_cpus_are_known_with_it(kernel):
    cgroupfs(kernel)
    manager = Manager(static=True)
    states = StatesInformer(CgroupTree(kernel.files), (source(kernel, manager=manager),))
    states.refresh(0.0)
    new = A.replace("a1b2", "d1b2")
    manager.told = CpuGrants(static=True, by_uid={new: (3,)})
    kernel.add(f"kubepods/pod{new}")
    assert {workload.uid: workload.exclusive_cpus for workload in states.refresh(1.0).workloads}[new] == (3,)


def test_why_kubelets_cpus_are_not_known_is_a_problem_only_where_kubelet_is(kernel):
    states = StatesInformer(CgroupTree(kernel.files), (source(kernel, manager=Manager(problem="cpu_manager_state: gone")),))
    assert "cpu_manager_state" not in str(states.refresh(0.0).problems)
    cgroupfs(kernel)
    residents = states.refresh(10.0)
    assert residents.problems == ("cpu_manager_state: gone",)
    assert (residents.kubelet_cpusets, residents.kubelet_may_write) == (None, "kubepods")


def test_kubelets_policy_is_known_where_its_checkpoint_is(kernel):
    cgroupfs(kernel)
    states = StatesInformer(CgroupTree(kernel.files), (source(kernel, manager=Manager()),))
    assert states.refresh(0.0).kubelet_may_write is None


def test_a_tree_that_a_user_made_is_not_kubelets(kernel):
    kernel.add(f"user.slice/user-1000.slice/user@1000.service/kubepods/pod{A}")
    assert find_kubepods(CgroupTree(kernel.files)) is None
    kernel.add(f"docker/node/kubelet/kubepods/pod{B}")
    assert find_kubepods(CgroupTree(kernel.files)) == "docker/node/kubelet/kubepods"


def test_where_a_group_is_the_node_its_own_tree_is_kubelets(kernel):
    for group in ("another/kubepods", "mine/deeper/kubepods", "plain"):
        kernel.add(group)
    tree = CgroupTree(kernel.files)
    assert find_kubepods(tree, "mine") == "mine/deeper/kubepods"
    assert find_kubepods(tree, "plain") == "another/kubepods"
