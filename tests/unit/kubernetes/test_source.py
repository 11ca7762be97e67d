"""Kubelet's groups joined with what the cluster says, on a kernel of files."""

import pytest

from kernel_tree import KernelTree
from kubernetes_pods import known
from qosmanager.collect.kubepods import Kubepods
from qosmanager.collect.readings import CpuGrants
from qosmanager.collect.states_informer import StatesInformer
from qosmanager.kubernetes.claims import Claims
from qosmanager.kubernetes.cluster import Cluster
from qosmanager.kubernetes.known_pods import KnownPods
from qosmanager.kubernetes.source import ClusterPods
from qosmanager.linux.cgroup_reader import CgroupReaders
from qosmanager.linux.cgroup_tree import CgroupTree
from qosmanager.model.qos import QoS
from qosmanager.model.workload import LatencySource

A, B, C = (f"{letter}1b2c3d4-0000-4000-8000-00000000000{letter}" for letter in "abc")
HASH = "5f1d0123456789abcdef0123456789ab"
ID = "0123456789abcdef" * 4
SCOPES = {"systemd": ("docker-{}.scope", "cri-containerd-{}.scope", "crio-{}.scope"), "cgroupfs": ("{}", "{}", "crio-{}")}
DRIVERS = sorted(SCOPES)


class SetClock:
    now = 0.0

    def monotonic(self):
        return self.now

    def wall(self):
        return self.now


class Told:
    """Somebody who knows the pods and has nothing to add."""

    problem = ""
    problems = ()

    def __init__(self):
        self.clock = SetClock()
        self.known = KnownPods(self.clock)

    def once(self):
        return 3600.0


class Grants:
    def __init__(self, **told):
        self.told = CpuGrants(**told)

    def grants(self):
        return self.told


def group(driver, tier, uid):
    if driver == "cgroupfs":
        return f"kubepods/{tier}/pod{uid}".replace("//", "/")
    prefix = f"kubepods-{tier}" if tier else "kubepods"
    above = "kubepods.slice" + (f"/{prefix}.slice" if tier else "")
    return f"{above}/{prefix}-pod{uid.replace('-', '_')}.slice"


@pytest.fixture(params=["v1", "v2"])
def kernel(request, tmp_path):
    return KernelTree(tmp_path, request.param)


class Node:
    """A node with kubelet's tree, and a cluster that tells of it."""

    def __init__(self, kernel, manager=None):
        self.kernel = kernel
        self.told = Told()
        self.cluster = Cluster({"api": self.told}, self.told.clock)
        tree = CgroupTree(kernel.files)
        kubepods = Kubepods(tree, CgroupReaders(kernel.files), manager or Grants())
        self.informer = StatesInformer(tree, (ClusterPods(kubepods, self.cluster),))
        self.now = 0.0

    def residents(self, after=1.0):
        self.now += after
        return self.informer.refresh(self.now)

    def workloads(self):
        return {workload.key: workload for workload in self.residents().workloads}


@pytest.mark.parametrize("driver", DRIVERS)
def test_groups_get_everything_that_the_cluster_says(kernel, driver):
    where = group(driver, "besteffort", A)
    for scope in SCOPES[driver]:
        kernel.add(f"{where}/{scope.format(ID)}")
    node = Node(kernel)
    said = known(
        A,
        name="rec-0",
        critical=True,
        grace=7.0,
        slo_p99=0.1,
        latency=LatencySource("http://10.0.0.1:80/metrics", "h"),
        containers={ID: "main"},
        claims=Claims(cpu_request=1.5, memory_request=1 << 30, cpu_limit=2.0, memory_limit=None),
    )
    node.told.known.replace([said])
    (found,) = node.workloads().values()
    assert (found.key, found.uid, found.cgroup, found.qos, found.labelled) == ("batch/rec-0", A, where, QoS.BE, True)
    assert (found.critical, found.grace, found.slo_p99, found.latency) == (True, 7.0, 0.1, said.latency)
    assert (found.priority, found.created, found.owner) == (5000, 1000.0, "ReplicaSet")
    assert (found.cpu_request, found.cpu_limit, found.memory_request, found.memory_limit) == (1.5, 2.0, 1 << 30, None)
    assert {container.name for container in found.containers} == {"main"}


def test_a_group_that_the_cluster_does_not_name_is_what_its_place_says_and_unlabelled(kernel):
    kernel.add(group("cgroupfs", "besteffort", A))
    kernel.add(group("cgroupfs", "burstable", B))
    found = Node(kernel).workloads()
    assert {key: (each.qos, each.labelled) for key, each in found.items()} == {
        f"kubepods/pod{A}": (QoS.BE, False),
        f"kubepods/pod{B}": (QoS.LS, False),
    }


def test_what_the_cluster_names_without_a_group_is_nobody(kernel):
    kernel.add(group("cgroupfs", "besteffort", A))
    node = Node(kernel)
    node.told.known.replace([known(A), known(B)])
    assert set(node.workloads()) == {f"batch/{A}"}


def test_a_pod_whose_class_is_not_told_has_that_of_its_place(kernel):
    kernel.add(group("cgroupfs", "burstable", A))
    node = Node(kernel)
    node.told.known.replace([known(A, qos=None, labelled=False)])
    assert next(iter(node.workloads().values())).qos is QoS.LS


def test_what_the_cluster_says_anew_counts_in_the_next_cycle_though_no_group_changed(kernel):
    kernel.add(group("cgroupfs", "besteffort", A))
    node = Node(kernel)
    node.told.known.replace([known(A)])
    before = node.residents()
    assert node.residents() is before
    node.told.known.put(known(A, terminating=True))
    assert node.residents().workloads[0].terminating


def test_mirror_pods_are_found_by_their_hash(kernel):
    kernel.add(group("cgroupfs", "burstable", HASH))
    node = Node(kernel)
    node.told.known.replace([known("mirror-uid", cgroup_uid=HASH, owner="Node", qos=QoS.SYSTEM, name="kube-proxy")])
    (found,) = node.workloads().values()
    assert (found.key, found.uid, found.owner) == ("batch/kube-proxy", "mirror-uid", "Node")


def test_of_two_pods_of_one_name_the_one_that_stays_has_it(kernel):
    for uid in (A, B):
        kernel.add(group("cgroupfs", "besteffort", uid))
    node = Node(kernel)
    node.told.known.replace([known(A, name="db-0", terminating=True), known(B, name="db-0")])
    found = node.workloads()
    assert {key: each.uid for key, each in found.items()} == {f"kubepods/pod{A}": A, "batch/db-0": B}
    assert found[f"kubepods/pod{A}"].terminating
    assert node.residents().problems == ()


def test_batch_with_a_directory_of_its_own_is_limited_there(kernel):
    for uid in (A, B):
        kernel.add(group("cgroupfs", "besteffort", uid))
    node = Node(kernel)
    node.told.known.replace([known(A), known(B)])
    assert node.residents().be_parent == "kubepods/besteffort"


@pytest.mark.parametrize("qos", [QoS.SYSTEM, QoS.LS])
def test_what_is_no_batch_in_that_directory_is_not_limited_with_it(kernel, qos):
    for uid in (A, B):
        kernel.add(group("cgroupfs", "besteffort", uid))
    node = Node(kernel)
    node.told.known.replace([known(A), known(B, qos=qos)])
    assert node.residents().be_parent is None
    # Also while no batch is there: the next one is born beside it.
    kernel.remove(group("cgroupfs", "besteffort", A))
    assert node.residents().be_parent is None


def test_batch_in_two_directories_is_limited_pod_by_pod(kernel):
    kernel.add(group("cgroupfs", "besteffort", A))
    kernel.add(group("cgroupfs", "burstable", B))
    node = Node(kernel)
    node.told.known.replace([known(A), known(B)])
    assert node.residents().be_parent is None


def test_exclusive_cpus_are_kubelets_where_it_gives_any_else_what_the_pod_says(kernel):
    for uid in (A, B, C):
        kernel.add(group("cgroupfs", "", uid))
    node = Node(kernel, Grants(static=True, by_uid={A: (2, 3)}))
    told = [known(A, qos=QoS.LSR, exclusive_cpus=(0,)), known(B, qos=QoS.LSE, exclusive_cpus=(1,)), known(C, qos=QoS.LSR)]
    node.told.known.replace(told)
    found = {workload.uid: workload.exclusive_cpus for workload in node.workloads().values()}
    assert found == {A: (2, 3), B: (1,), C: ()}
    assert node.residents().kubelet_cpusets == "kubepods"


def test_problems_are_told_for_people(kernel):
    kernel.add(group("cgroupfs", "besteffort", A))
    node = Node(kernel)
    node.told.known.replace([known(A, problems=("batch/a: odd",))])
    node.told.problem = "no word from it"
    assert node.residents().problems == ("pods from api: no word from it", "batch/a: odd")
