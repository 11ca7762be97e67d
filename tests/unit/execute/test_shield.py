"""Whether the kernel puts BE behind LS, as the weights say."""

from __future__ import annotations

import pytest

from kernel_tree import KernelTree
from qosmanager.execute.shield import Shield
from qosmanager.model.workload import CgroupFile


def look(tree, batch, services):
    return Shield(tree).shielded(batch, services).holds


@pytest.fixture(params=["v1", "v2"])
def tree(request, tmp_path):
    """kubelet's layout with its weights: besteffort 2 or 1, burstable as 2 cores."""
    tree = KernelTree(tmp_path / "cgroup", request.param)
    tree.add("kubepods/besteffort/pod1", **({"cpu_shares": "2"} if request.param == "v1" else {"cpu_weight": "1"}))
    for group in ("kubepods/burstable/pod2", "kubepods/pod3", "system.slice/nginx.service", "batch/one", "batch/two"):
        tree.add(group)
    low = {"v1": ("cpu.shares", "2"), "v2": ("cpu.weight", "1")}[request.param]
    tree.weak = lambda group: tree.put(tree_file(group, low[0]), low[1])
    tree.weak("kubepods/besteffort")
    return tree


def tree_file(group, name):
    return CgroupFile("cpu", group, name)


def test_kubelets_smallest_weight_counts(tree):
    assert look(tree, ["kubepods/besteffort"], ["kubepods/burstable/pod2", "kubepods/pod3"]) is True


def test_a_service_beside_all_of_kubepods_is_not_shielded(tree):
    assert look(tree, ["kubepods/besteffort"], ["kubepods/burstable/pod2", "system.slice/nginx.service"]) is False


def test_weight_of_the_pods_below_counts_for_nothing(tree):
    tree.weak("batch/one")
    assert look(tree, ["batch/one", "batch/two"], ["system.slice/nginx.service"]) is False


def test_one_group_above_all_counts(tree):
    tree.weak("batch")
    assert look(tree, ["batch/one", "batch/two"], ["system.slice/nginx.service"]) is True


def test_idle_counts_and_idle_on_both_sides_does_not(tree):
    tree.write(tree_file("batch", "cpu.idle"), "1")
    assert look(tree, ["batch/one"], ["system.slice/nginx.service"]) is True
    tree.write(tree_file("system.slice", "cpu.idle"), "1")
    assert look(tree, ["batch/one"], ["system.slice/nginx.service"]) is False


def test_a_smallest_weight_beside_a_small_one_is_no_shield(tree):
    tree.weak("batch")
    tree.weak("system.slice")
    assert look(tree, ["batch/one"], ["system.slice/nginx.service"]) is False


def test_a_service_in_the_same_group_is_not_shielded(tree):
    tree.weak("batch")
    assert look(tree, ["batch"], ["batch/one"]) is False


def test_be_all_over_the_tree_is_not_shielded(tree):
    assert look(tree, ["kubepods/besteffort/pod1", "batch/one"], ["system.slice/nginx.service"]) is False


def test_without_services_the_group_itself_tells(tree):
    assert look(tree, ["batch/one", "batch/two"], []) is False
    tree.weak("batch")
    assert look(tree, ["batch/one", "batch/two"], []) is True


def test_what_cannot_be_read_is_not_known(tree):
    shield = Shield(tree)
    assert shield.shielded(["gone/one"], ["system.slice/nginx.service"]).holds is None
    assert shield.shielded([], []).holds is None
    assert "the group is gone" in shield.shielded(["gone/one"], ["system.slice/nginx.service"]).why
