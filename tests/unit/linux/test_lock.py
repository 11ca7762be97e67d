from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from qosmanager.linux.lock import LockHeldError, NodeLock, TreeLock

HOLDER = """
import sys, pathlib
from qosmanager.linux.lock import NodeLock
lock = NodeLock(pathlib.Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_second_holder_is_told_who_holds_it(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(LockHeldError) as caught:
            NodeLock(tmp_path)
        assert f"process {process.pid} holds {tmp_path}/lock" in str(caught.value)
        process.kill()
        process.wait()
    # The kernel has let go of a dead holder's lock.
    with NodeLock(tmp_path) as lock:
        assert lock.path.read_text() == f"{os.getpid()}\n"


def test_a_full_disk_keeps_nobody_from_holding_it(tmp_path):
    no_room = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"
    held = subprocess.run([sys.executable, "-c", no_room + HOLDER, str(tmp_path)], input="", capture_output=True, text=True, check=False)
    assert (held.stdout, held.stderr) == ("held\n", "")
    assert (tmp_path / "lock").read_text() == ""


def test_lock_that_was_released_can_be_taken(tmp_path):
    NodeLock(tmp_path).release()
    NodeLock(tmp_path).release()


@pytest.mark.parametrize("removed", [lambda path: path.unlink(), lambda path: shutil.rmtree(path.parent)])
def test_lock_whose_file_was_removed_is_taken_anew(tmp_path, removed):
    with NodeLock(tmp_path / "state") as lock:
        assert not lock.renew()
        removed(lock.path)
        assert lock.renew()
        assert not lock.renew()
        with pytest.raises(LockHeldError, match=f"process {os.getpid()}"):
            NodeLock(tmp_path / "state")


def test_lock_that_another_one_has_taken_meanwhile_stays_its_own(tmp_path):
    with NodeLock(tmp_path / "state") as lock:
        lock.path.unlink()
        with NodeLock(tmp_path / "state"), pytest.raises(LockHeldError):
            lock.renew()
        assert lock.renew()


def test_a_tree_is_held_by_one_agent_whatever_its_state_directory(tmp_path):
    with TreeLock(str(tmp_path)), pytest.raises(LockHeldError, match="another qosmanager"):
        TreeLock(str(tmp_path))
    with TreeLock(str(tmp_path)):
        assert tmp_path.is_dir()
