"""What keeps an agent from starting (specification, section 9)."""

import subprocess
import sys

from kernel_tree import KernelTree


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
