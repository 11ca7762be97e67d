from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from acting import Bench, limit
from kernel_tree import KernelTree
from qosmanager.cli.main import main
from qosmanager.execute.resource_executor import ResourceExecutor
from qosmanager.linux.boot import LinuxBoot
from qosmanager.linux.lock import NodeLock
from qosmanager.model.workload import CgroupFile

QUOTA = "cpu.cfs_quota_us"


class Left(Bench):
    """What an agent left behind in this boot: BE at 1 core where it had 3.5."""

    def __init__(self, path):
        super().__init__(path)
        self.boot = LinuxBoot()
        self.executor = ResourceExecutor(self.tree, self.journal, self.scores, self.boot)
        self.tree.add("be", cpu_cfs_quota_us="350000")

    def cycle(self, *actions):
        self.boot.now = 0.0
        return super().cycle(*actions)


def restore(left, *options):
    state, root = str(left.journal.path.parent), str(left.tree.root)
    return CliRunner().invoke(main, ["restore", "--state-dir", state, "--cgroup-root", root, *options])


@pytest.fixture
def left(tmp_path):
    left = Left(tmp_path)
    left.cycle(limit(1.0))
    assert left.tree.text("be", QUOTA) == "100000"
    return left


def test_originals_come_back_and_are_shown(left):
    done = restore(left)
    assert done.exit_code == 0
    assert left.tree.text("be", QUOTA) == "350000"
    header, row, *_ = [line.split() for line in done.output.splitlines() if line.strip()]
    assert header == ["file", "was", "ours", "now", "outcome"]
    assert row == [f"cpu:/be/{QUOTA}", "350000", "100000", "350000", "put", "back"]
    again = restore(left)
    assert (again.exit_code, again.output.split(":")[0]) == (0, "nothing to restore")


def test_value_of_somebody_else_is_left_alone(left):
    left.tree.put(CgroupFile("cpu", "be", QUOTA), "200000")
    done = restore(left)
    assert done.exit_code == 0
    assert "left alone: holds '200000', not ours ('100000')" in done.output
    assert left.tree.text("be", QUOTA) == "200000"


def test_what_cannot_be_put_back_is_exit_code_1(left):
    # A quota file that is a directory: nothing can be written.
    path = left.tree.root / "cpu/be" / QUOTA
    path.unlink()
    path.mkdir()
    done = restore(left)
    assert done.exit_code == 1
    assert "not put back" in done.output
    assert left.journal.load().entries != ()


def test_running_agent_is_named(left):
    with NodeLock(left.journal.path.parent):
        done = restore(left)
    assert done.exit_code == 2
    assert "another qosmanager runs on this node: process" in done.output
    with NodeLock(left.journal.path.parent):
        timer = restore(left, "--if-expired")
    assert timer.exit_code == 0
    assert "another qosmanager runs on this node: process" in timer.output
    assert left.tree.text("be", QUOTA) == "100000"


@pytest.mark.parametrize(("seconds", "opened"), [(60.0, False), (-1.0, True), (None, True)])
def test_if_expired_goes_by_the_lease(left, seconds, opened):
    until = None if seconds is None else left.boot.time() + seconds
    left.journal.save(replace(left.journal.load(), lease_until=until))
    done = restore(left, "--if-expired")
    assert done.exit_code == 0
    assert (left.tree.text("be", QUOTA) == "350000") is opened


def test_journal_of_an_earlier_boot_is_of_no_use(left):
    left.journal.save(replace(left.journal.load(), boot_id="another"))
    done = restore(left)
    assert (done.exit_code, left.tree.text("be", QUOTA)) == (0, "100000")
    assert "earlier boot" in done.output


def test_damaged_journal_is_said_and_kept(left):
    left.journal.path.write_bytes(b"\x00\x01")
    done = restore(left)
    assert done.exit_code == 2
    assert "cannot be understood" in done.output
    assert "remove it" in done.output
    assert left.journal.path.read_bytes() == b"\x00\x01"


def test_journal_of_another_version_and_boot_is_of_no_use(left):
    left.journal.path.write_text('{"version":9,"record":{"boot_id":"another"}}')
    done = restore(left)
    assert (done.exit_code, "earlier boot" in done.output) == (0, True)


def test_another_cgroup_root_is_a_mistake_and_costs_no_original(left, tmp_path):
    other = KernelTree(tmp_path / "other")
    done = CliRunner().invoke(main, ["restore", "--state-dir", str(left.journal.path.parent), "--cgroup-root", str(other.root)])
    assert done.exit_code == 2
    assert "give the one that the agent ran with" in done.output
    assert restore(left).exit_code == 0
    assert left.tree.text("be", QUOTA) == "350000"


def test_no_state_directory_is_nothing_to_do(tmp_path):
    done = CliRunner().invoke(main, ["restore", "--state-dir", str(tmp_path / "none")])
    assert (done.exit_code, done.output) == (0, f"nothing to restore: there is no {tmp_path}/none\n")


def test_root_without_cgroups_is_a_mistake(left, tmp_path):
    (tmp_path / "empty").mkdir()
    done = CliRunner().invoke(main, ["restore", "--state-dir", str(left.journal.path.parent), "--cgroup-root", str(tmp_path / "empty")])
    assert done.exit_code == 2
    assert "no cgroup hierarchy" in done.output


def test_entry_without_a_value_of_ours_is_told_and_left_alone(left):
    record = left.journal.load()
    left.journal.save(replace(record, entries=tuple(replace(entry, written=()) for entry in record.entries)))
    done = restore(left)
    assert done.exit_code == 1
    assert "is not understood" in done.output
    assert left.tree.text("be", QUOTA) == "100000"


def test_names_that_a_terminal_or_a_table_would_obey_are_shown_as_they_are(left):
    left.be_parent = left.tree.add("x\x1b[2J[/red]", cpu_cfs_quota_us="350000")
    left.cycle(limit(0.5))
    done = restore(left)
    assert (done.exit_code, left.tree.text(left.be_parent, QUOTA)) == (0, "350000")
    assert rf"cpu:/x\x1b[2J[/red]/{QUOTA}" in done.output
    assert "\x1b" not in done.output


def test_what_is_left_alone_is_said_once(left):
    left.tree.put(CgroupFile("cpu", "be", QUOTA), "200000")
    assert restore(left).output.count("left alone") == 1


@pytest.fixture
def watching(left):
    """Start `restore --if-expired --every 1s` beside a journal whose lease is over."""
    left.journal.save(replace(left.journal.load(), lease_until=None))
    started = []

    def start():
        options = ["--state-dir", str(left.journal.path.parent), "--cgroup-root", str(left.tree.root)]
        command = [sys.executable, "-m", "qosmanager", "restore", "--if-expired", "--every", "1s", *options]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_every_goes_on_until_it_is_told_to_stop(left, watching):
    process = watching()
    assert "outcome" in process.stdout.readline()
    assert "put back" in process.stdout.readline()
    assert left.tree.text("be", QUOTA) == "350000"
    assert "holds no entry" in process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


def test_every_outlives_a_journal_that_it_cannot_use_and_says_so_once(left, watching):
    kept = json.loads(left.journal.path.read_text())
    left.journal.path.write_bytes(b"\x00\x01")
    process = watching()
    assert "cannot be understood" in process.stderr.readline()
    left.journal.path.write_text(json.dumps(kept))
    assert "outcome" in process.stdout.readline()
    assert "put back" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--every", "30s"], "--every needs --if-expired"),
        (["--if-expired", "--every", "30"], "a duration needs its unit: 30s or 30ms?"),
        (["--if-expired", "--every", "0s"], "'0s' is not allowed; a duration from 1s to 1h"),
    ],
)
def test_a_distance_that_makes_no_sense_is_refused(left, options, said):
    done = restore(left, *options)
    assert done.exit_code == 2
    assert said in done.output
    assert left.tree.text("be", QUOTA) == "100000"
