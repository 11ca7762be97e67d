"""The doctor's look at a node, over trees of the test's own and over this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from kernel_tree import KernelTree
from proc_tree import ProcTree
from qosmanager.linux.probe import Places, probe
from qosmanager.linux.trial import filesystem, try_directory
from real_groups import ROOT, obstacle

WHY_NOT = obstacle()

MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
23 22 0:21 / /run rw,nosuid shared:5 - tmpfs tmpfs rw,mode=755
24 23 0:22 / /run/with\\040blank rw - xfs /dev/x rw
25 22 0:23 / /srv rw - xfs /dev/y rw
26 22 0:24 / /srv rw - tmpfs none rw
"""


@pytest.fixture
def places(tmp_path):
    proc = ProcTree(tmp_path / "host")
    (proc.proc / "self").mkdir(exist_ok=True)
    KernelTree(tmp_path / "cgroup", "v1")
    return Places(
        cgroup_root=tmp_path / "cgroup",
        state_dir=tmp_path / "state",
        proc=proc.proc,
        sysfs=proc.sysfs,
        kubelet=tmp_path / "kubelet",
        systemd=tmp_path / "systemd",
    )


def kubelet(places: Places, config: str, state: str = '{"policyName": "static", "defaultCpuSet": "0", "entries": {}}') -> None:
    places.kubelet.mkdir()
    (places.kubelet / "config.yaml").write_text(config)
    (places.kubelet / "cpu_manager_state").write_text(state)


def test_a_node_without_kubelet_and_systemd(places):
    host = probe(places)
    assert (host.kubelet, host.systemd, host.foreign) == (None, False, None)
    assert host.versions["cpu"] == 1
    assert host.kernel == os.uname().release


def test_kubelets_policy_and_thresholds(places):
    kubelet(places, "evictionHard: {memory.available: 500Mi, nodefs.available: 10%}\nevictionSoft: {memory.available: 1Gi}\n")
    found = probe(places).kubelet
    assert found.static is True
    assert found.eviction == {"hard memory.available": "500Mi", "hard nodefs.available": "10%", "soft memory.available": "1Gi"}
    assert found.problem == ""


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ("kind: KubeletConfiguration\n", "sets none"),
        ("[1, 2]", "sets none"),
        ("evictionHard: [", "is not understood"),
    ],
)
def test_a_kubelet_configuration_without_thresholds_says_why(places, config, problem):
    kubelet(places, config)
    found = probe(places).kubelet
    assert found.eviction == {}
    assert problem in found.problem


def test_a_state_of_kubelet_that_is_not_understood(places):
    kubelet(places, "evictionHard: {memory.available: 1Gi}", state="{")
    assert probe(places).kubelet.static is None


def test_no_cgroups_is_a_problem_with_its_reason(places, tmp_path):
    host = probe(Places(cgroup_root=tmp_path / "nothing", proc=places.proc, sysfs=places.sysfs, kubelet=tmp_path / "no"))
    assert "no cgroup hierarchy at" in host.cgroup_problem
    assert host.versions == {}
    assert host.group_stall.ok is None


@pytest.mark.parametrize(
    ("directory", "kind"),
    [("/run/qosmanager", "tmpfs"), ("/var/lib/x", "ext4"), ("/run/with blank/x", "xfs"), ("/srv/x", "tmpfs"), ("/running", "ext4")],
)
def test_the_file_system_is_that_of_the_nearest_mount(tmp_path, directory, kind):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    # Directories that are there on this machine may be links: these are not there.
    assert filesystem(Path(directory), mounts) == kind


def test_a_file_system_that_nobody_tells_is_not_known(tmp_path):
    assert filesystem(Path("/run"), tmp_path / "nothing") == ""


def test_a_state_directory_is_judged_without_being_made(tmp_path):
    assert try_directory(tmp_path / "a/b").ok is True
    assert not (tmp_path / "a").exists()
    (tmp_path / "file").write_text("")
    assert try_directory(tmp_path / "file").ok is False
    (tmp_path / "link").symlink_to(tmp_path)
    assert try_directory(tmp_path / "link").ok is False


UNPRIVILEGED = """
import os, sys
sys.path[:] = {paths!r}
from qosmanager.linux.trial import try_directory
from pathlib import Path
os.setuid(65534)
print(try_directory(Path("/qosmanager-not-there")).ok)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming somebody else needs root")
def test_what_is_refused_to_others_is_not_called_impossible():
    code = UNPRIVILEGED.format(paths=sys.path)
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "None\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a directory to somebody else needs root")
def test_a_state_directory_of_somebody_else_is_refused(tmp_path):
    os.chown(tmp_path, 65534, 65534)
    found = try_directory(tmp_path)
    assert (found.ok, "belongs to user 65534" in found.detail) == (False, True)


@pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
def test_on_this_machine_limits_can_be_written_and_no_group_stays():
    host = probe(Places())
    assert host.writes["cpu"].ok is True, host.writes["cpu"].detail
    assert [*ROOT.glob("qosmanager-doctor-*"), *ROOT.glob("*/qosmanager-doctor-*")] == []
    assert host.memory_total > 0
    assert host.oom_score.ok is True


def test_the_knobs_of_isolation_are_tried_one_by_one(places):
    scheduler = places.sysfs / "block/sda/queue/scheduler"
    scheduler.parent.mkdir(parents=True)
    scheduler.write_text("mq-deadline kyber [bfq] none\n")
    knobs = probe(places).knobs
    assert list(knobs) == ["cpu: BE idle", "services: kernel burst", "memory: memory.low, high", "io: I/O limit", "io: I/O weight"]
    assert (knobs["memory: memory.low, high"].ok, knobs["memory: memory.low, high"].detail) == (False, "cgroup v1 has neither")
    assert knobs["io: I/O weight"].ok is True
    scheduler.write_text("[mq-deadline] kyber bfq none\n")
    assert probe(places).knobs["io: I/O weight"].ok is False


@pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
def test_the_knobs_of_this_machine(places):
    knobs = probe(replace(places, cgroup_root=ROOT)).knobs
    assert knobs["cpu: BE idle"].ok is True
    assert not list(ROOT.glob(f"*/qosmanager-doctor-{os.getpid()}"))
