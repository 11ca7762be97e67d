import os

import pytest

from qosmanager.linux.kubelet import LARGEST, KubeletCpus

# As kubelet 1.31 wrote it, policy static on 8 CPUs; a pod with two containers, one with a container of its own.
STATIC = (
    '{"policyName":"static","defaultCpuSet":"0-1,7","entries":{'
    '"4f8be2bd-2b4c-4c7e-9f0e-6c6d7f5c9e10":{"api":"2-3","proxy":"6"},'
    '"a91c6f52-77c5-4f0b-8a3a-0d1f55d1c7aa":{"db":"4-5"}},"checksum":3242153352}'
)
NONE = '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cpu_manager_state"


def test_the_static_policys_cpus_by_pod(path):
    path.write_text(STATIC)
    grants = KubeletCpus(path).grants()
    assert (grants.static, grants.problem) == (True, "")
    assert grants.by_uid == {
        "4f8be2bd-2b4c-4c7e-9f0e-6c6d7f5c9e10": (2, 3, 6),
        "a91c6f52-77c5-4f0b-8a3a-0d1f55d1c7aa": (4, 5),
    }


def test_another_policy_gives_nothing_away(path):
    path.write_text(NONE)
    grants = KubeletCpus(path).grants()
    assert (grants.static, grants.by_uid, grants.problem) == (False, {}, "")


def test_a_static_policy_that_has_given_nothing_yet(path):
    path.write_text('{"policyName":"static","defaultCpuSet":"0-7","checksum":1}')
    grants = KubeletCpus(path).grants()
    assert (grants.static, grants.by_uid) == (True, {})


def test_it_is_read_again_only_when_it_has_changed(path):
    path.write_text(NONE)
    cpus = KubeletCpus(path)
    before = cpus.grants()
    assert cpus.grants() is before
    fresh = path.with_suffix(".new")
    fresh.write_text(STATIC)
    os.replace(fresh, path)
    assert cpus.grants().static
    path.unlink()
    assert not cpus.grants().static


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"entries":{}}',
        '{"policyName":"static","entries":{"uid":"2-3"}}',
        '{"policyName":"static","entries":{"uid":{"api":"3-2"}}}',
        '{"policyName":"static","entries":{"uid":{"api":7}}}',
        '{"policyName":"static","x":' + "[" * 100_000,
        "\udcff",
        STATIC + " " * LARGEST,
    ],
)
def test_what_is_not_understood_gives_nothing_away_and_says_why(path, text):
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    cpus = KubeletCpus(path)
    grants = cpus.grants()
    assert (grants.static, grants.by_uid) == (False, {})
    assert grants.problem.startswith(f"{path}: not understood: ")
    assert cpus.grants() is grants
    path.write_text(STATIC)
    assert cpus.grants().problem == ""


def test_no_file_says_so(path):
    grants = KubeletCpus(path).grants()
    assert grants.problem == f"{path}: No such file or directory; the CPUs that kubelet gives to single pods are not known"


def test_a_directory_in_its_place(path):
    path.mkdir()
    assert "Is a directory" in KubeletCpus(path).grants().problem


def test_a_pipe_in_its_place_holds_nobody_up(path):
    os.mkfifo(path)
    assert "is not a regular file" in KubeletCpus(path).grants().problem
