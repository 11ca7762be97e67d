"""What keeps an agent from starting (specification, section 9)."""

import os
import subprocess
import sys

from kernel_tree import KernelTree
from qosmanager.model.workload import CgroupFile


def test_a_journal_that_cannot_be_understood_is_no_ground_to_take_our_own_values_for_originals(tmp_path):
    tree = KernelTree(tmp_path / "cgroup")
    (tmp_path / "state").mkdir(mode=0o700)
    journal = tmp_path / "state" / "journal.json"
    journal.write_text("{")
    options = ["--once", "--cgroup-root", str(tree.root), "--state-dir", str(tmp_path / "state")]
    ended = subprocess.run([sys.executable, "-m", "qosmanager", "run", *options], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert f"qosmanager: the journal {journal} cannot be understood" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert journal.read_text() == "{"


def test_once_names_the_pods_and_what_of_the_declarations_cannot_be_followed(tmp_path):
    tree = KernelTree(tmp_path / "cgroup")
    workloads = tmp_path / "w.yaml"
    workloads.write_text("workloads: [{name: api, qos: LS, cgroup: nosuch.slice}]")
    options = ["--once", "--dry-run", "--cgroup-root", str(tree.root), "--workloads", str(workloads)]
    ended = subprocess.run([sys.executable, "-m", "qosmanager", "run", *options], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    said = " ".join(ended.stdout.partition("\nPods\n")[2].split())
    assert said == f"none Problems - default/api: no cgroup nosuch.slice under {tree.root} (yet)"
    assert ended.stderr == "", "it wrote nothing, so there is nothing to put back"


def once(tree, tmp_path, *options):
    """One cycle with a BE pod; whatever that uses, the score is above CPUEvict's threshold."""
    (tmp_path / "w.yaml").write_text("workloads: [{name: job, qos: BE, cgroup: batch}]")
    (tmp_path / "q.yaml").write_text("qosManager: {syncPeriod: 100ms, cpuEvict: {trigger: either, evictThreshold: 0}}")
    where = ("--cgroup-root", str(tree.root), "--state-dir", str(tmp_path / "state"))
    what = ("--workloads", str(tmp_path / "w.yaml"), "--config", str(tmp_path / "q.yaml"))
    command = [sys.executable, "-m", "qosmanager", "run", "--once", *where, *what, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_an_audit_log_that_cannot_be_written_costs_no_predecessors_limits(tmp_path):
    tree = KernelTree(tmp_path / "cgroup")
    tree.add("batch")
    first = once(tree, tmp_path, "--on-stop", "lease")
    assert first.returncode == 0, first.stderr
    assert "cooling down" not in first.stdout
    held = tree.read(CgroupFile("cpu", "batch", "cpu.cfs_quota_us"))
    assert int(held) > 0
    os.mkfifo(pipe := tmp_path / "pipe")
    ended = once(tree, tmp_path, "--audit-log", str(pipe), "--on-stop", "restore")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"qosmanager: --audit-log {pipe}: is not a regular file; a file that this user may write is needed\n"
    assert tree.read(CgroupFile("cpu", "batch", "cpu.cfs_quota_us")) == held


def test_after_an_eviction_of_a_predecessor_that_left_no_state_nobody_is_evicted_for_the_cpu_at_once(tmp_path):
    tree = KernelTree(tmp_path / "cgroup")
    tree.add("batch")
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "evictions.json").write_text("[]")
    ended = once(tree, tmp_path, "--on-stop", "lease")
    assert ended.returncode == 0, ended.stderr
    assert "CPUEvict: cooling down for another " in ended.stdout
