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
