import errno
import resource
from pathlib import Path

import pytest

from kernel_tree import KernelTree
from qosmanager.linux.cgroup import CgroupRootError, Hierarchies
from qosmanager.linux.cgroup_tree import CgroupTree


@pytest.fixture(params=["v1", "v2", "hybrid"])
def kernel(request, tmp_path):
    return KernelTree(tmp_path, request.param)


def test_children_sorted(kernel):
    for name in ("a/z", "a/b", "a/b/deep"):
        kernel.add(name)
    tree = CgroupTree(kernel.files)
    assert list(tree.children("a")) == ["b", "z"]
    assert tree.children("a") == {"b": tree.identity("a/b"), "z": tree.identity("a/z")}
    assert tree.children("nobody") == {}


def test_links_are_never_followed(kernel, tmp_path):
    kernel.add("a/b")
    tree = CgroupTree(kernel.files)
    home = kernel.files.directory("cpu", "")
    (tmp_path / "elsewhere/inside").mkdir(parents=True)
    (type(tmp_path)(home) / "a/link").symlink_to(tmp_path / "elsewhere")
    assert list(tree.children("a")) == ["b"]
    assert tree.children("a/link") == {}
    assert tree.identity("a/link") is None
    assert tree.identity("a/link/inside") is None


def test_the_link_count_tells_that_a_group_came_or_went(kernel):
    kernel.add("a/b")
    tree = CgroupTree(kernel.files)
    before = tree.identity("a")
    kernel.add("a/c")
    assert tree.identity("a") != before
    kernel.remove("a/c")
    assert tree.identity("a") == before
    assert tree.identity("nobody") is None


def test_processes_of_the_group_itself(kernel):
    kernel.add("a", pids=(1,))
    kernel.add("a/b")
    tree = CgroupTree(kernel.files)
    assert tree.has_processes("a")
    assert not tree.has_processes("a/b")
    assert not tree.has_processes("nobody")


def test_a_path_that_leaves_the_root_is_refused(kernel):
    with pytest.raises(ValueError, match="leaves the cgroup root"):
        CgroupTree(kernel.files).identity("a/../../..")


def test_groups_that_cannot_be_looked_at_for_want_of_descriptors_have_not_ended(kernel):
    kernel.add("a/b")
    tree = CgroupTree(kernel.files)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        for look in (tree.children, tree.has_processes):
            with pytest.raises(OSError, match="Too many open files") as caught:
                look("a")
            assert caught.value.errno == errno.EMFILE
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert list(tree.children("a")) == ["b"]


def test_a_root_whose_name_no_file_can_have_is_none():
    with pytest.raises(CgroupRootError, match="no cgroup hierarchy at xxx"):
        Hierarchies.probe(Path("x" * 300))
