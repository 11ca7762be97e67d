"""kill -9 at any instant loses nothing: a process that acts all the time is killed, then `qosmanager restore` puts all back."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from qosmanager.cli.main import main
from qosmanager.linux.journal import FileJournal
from qosmanager.linux.lock import NodeLock
from real_groups import obstacle, real_groups
from waiting import PATIENCE, SLOWNESS

WHY_NOT = obstacle()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
RUNS = int(os.environ.get("QOSM_KILLS", "50"))

WRITER = """
import itertools, pathlib, sys
from qosmanager.execute.resource_executor import ResourceExecutor
from qosmanager.linux.boot import LinuxBoot
from qosmanager.linux.cgroup import Hierarchies
from qosmanager.linux.journal import FileJournal
from qosmanager.linux.lock import NodeLock
from qosmanager.linux.processes import ProcScores
from qosmanager.model.actions import *
from qosmanager.model.qos import Plugin, QoS
from qosmanager.model.snapshot import Node, Snapshot
from qosmanager.model.workload import Placement, Workload

top, state = sys.argv[1], pathlib.Path(sys.argv[2])
lock = NodeLock(state)
kernel = Hierarchies.probe(pathlib.Path("/sys/fs/cgroup"))
executor = ResourceExecutor(kernel, FileJournal(state), ProcScores(), LinuxBoot())
executor.adopt()
pods = {"default/api": Workload(name="api", qos=QoS.LS, cgroup=f"{top}/api", cpu_request=2.0, memory_request=1 << 20),
        "default/job": Workload(name="job", qos=QoS.BE, cgroup=f"{top}/be/job")}
placement = Placement(workloads=pods, be_parent=f"{top}/be")
said = dict(plugin=Plugin.CPU_SUPPRESS, reason="")
script = [
    (SetBeCpuLimit(cores=1.2, **said), SetCpuLimit(pod="default/api", cores=0.75, base=0.5, **said)),
    (SetBeCpuLimit(cores=0.4, **said), SetBeCpuset(cpus="0", **said)),
    (RestoreCpuLimit(pod="default/api", cores=0.5, **said), SetBeCpuLimit(cores=0.9, **said)),
    (SetBeCpuset(cpus="0-1", **said), RestoreBeCpuLimit(**said), RestoreBeCpuset(**said)),
]
print("ready", flush=True)
for number, actions in enumerate(itertools.cycle(script)):
    high = [None, 64 << 20][number % 2]
    isolation = dict(be_idle=number % 3 == 2, services=number % 4 > 0, memory_low=number % 4 > 1, be_memory_high=high)
    standing = Standing(be_weight=number % 3 == 1, oom_score_adj=900 if number % 2 else 800, **isolation)
    plan = Plan(actions=actions, standing=standing)
    executor.apply(plan, placement, Snapshot(node=Node(cpus=2.0)), 6.0 * number)
    print("done", flush=True)
"""

# Ends the process right before its n-th step: a kernel file or the new journal is about to be opened for writing, or the new journal,
# written and synced, to be renamed over the old one. The interpreter's own audit events tell.
STEPS = """
import os, signal, sys
left = [int(sys.argv[3])]
def step(event, args):
    if event == "os.rename" or (event == "open" and isinstance(args[2], int) and args[2] & os.O_WRONLY):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(step)
"""


@pytest.fixture
def groups():
    yield from real_groups()


def contents(groups, names, pid):
    version = groups.kernel.version("cpu")
    files = ("cpu.cfs_quota_us", "cpu.cfs_burst_us", "cpu.shares") if version == 1 else ("cpu.max", "cpu.max.burst", "cpu.weight")
    files = (*files, "cpu.idle") if groups.kernel.version("memory") != 2 else (*files, "cpu.idle", "memory.high", "memory.low")
    # v2 takes no empty set back while tasks run in the group, but every CPU, which means the same.
    cpus = "cpuset.cpus" if groups.kernel.version("cpuset") == 1 else "cpuset.cpus.effective"
    files = files if groups.kernel.version("cpuset") is None else (*files, cpus)
    found = {(name, file): groups.text(groups.path(name), file) for name in names for file in files}
    with open(f"/proc/{pid}/oom_score_adj") as score:
        return found | {("be/job", "oom_score_adj"): score.read().strip()}


def killed_writer(groups, state, plans, delay=0.0):
    """Kill it when it has acted on so many plans, and some seconds later at that."""
    with subprocess.Popen([sys.executable, "-c", WRITER, groups.top, str(state)], stdout=subprocess.PIPE, text=True) as writer:
        assert [writer.stdout.readline() for _ in range(plans + 1)] == ["ready\n", *["done\n"] * plans]
        time.sleep(delay * SLOWNESS)
        assert writer.poll() is None, "the writer ended by itself"
        writer.kill()


NAMES = ("be", "be/job", "be/job/inner", "api")
LIMITS = {"api": 0.5, "be/job": 1.5, "be/job/inner": 1.0}


def limit(groups, name, cores):
    file, period = ("cpu.cfs_quota_us", "") if groups.kernel.version("cpu") == 1 else ("cpu.max", " 100000")
    groups.put(groups.path(name), file, f"{int(cores * 100_000)}{period}")


@pytest.fixture
def sleeper(groups):
    """A process in the innermost of groups with limits of their own."""
    for name in NAMES:
        groups.add(name)
    for name, cores in LIMITS.items():
        limit(groups, name, cores)
    process = groups.start("be/job/inner", "sleep", "600")
    time.sleep(0.2)
    return process


def restored(state):
    """What `qosmanager restore` says."""
    done = CliRunner().invoke(main, ["restore", "--state-dir", str(state)])
    assert done.exit_code == 0, done.output
    return done.output


def test_all_originals_come_back_after_kill_9_at_any_instant(groups, sleeper, tmp_path):
    names = NAMES
    originals = contents(groups, names, sleeper.pid)
    state = tmp_path / "state"
    chance = random.Random(7)
    changed = 0
    for _ in range(RUNS):
        killed_writer(groups, state, chance.randrange(8), chance.uniform(0.0, 0.005))
        changed += contents(groups, names, sleeper.pid) != originals
        restored(state)
        assert contents(groups, names, sleeper.pid) == originals
    # Some kills, of many about half, came while something was changed: the test means something.
    assert changed >= max(1, RUNS // 3)


def test_all_originals_come_back_after_kill_9_before_each_step(groups, sleeper, tmp_path):
    """Also between the write of the journal and its rename. 25 of the first 159 steps, over a round; with QOSM_KILLS=1000 each."""
    originals = contents(groups, NAMES, sleeper.pid)
    changed = 0
    tried = min(max(RUNS // 2, 1), 159)
    for step in (1 + (2 * number + 1) * 159 // (2 * tried) for number in range(tried)):
        state = tmp_path / f"state-{step}"
        command = [sys.executable, "-c", STEPS + WRITER, groups.top, str(state), str(step)]
        killed = subprocess.run(command, stdout=subprocess.DEVNULL, check=False, timeout=60 * PATIENCE)
        assert killed.returncode == -9
        changed += contents(groups, NAMES, sleeper.pid) != originals
        restored(state)
        assert contents(groups, NAMES, sleeper.pid) == originals, f"killed before step {step}"
    assert changed > 0


def held_by_a_dead_writer(groups, state):
    """Kill writers until one leaves something; return its record."""
    while (record := FileJournal(state).load()) is None or not record.entries:
        killed_writer(groups, state, 6)  # with a limit for BE, before this plan and after it
    return record


def test_a_group_made_anew_after_the_kill_is_somebody_elses(groups, sleeper, tmp_path):
    state = tmp_path / "state"
    name = "cpu.cfs_quota_us" if groups.kernel.version("cpu") == 1 else "cpu.max"
    group = groups.path("be")
    while not (
        entries := [each for each in held_by_a_dead_writer(groups, state).entries if (each.file.group, each.file.name) == (group, name)]
    ):
        restored(state)
    sleeper.kill()
    sleeper.wait()
    for each in ("be/job/inner", "be/job", "be"):
        groups.end(each)
    groups.add("be")
    # The very value that the dead one wrote, in a group of the same name: all that tells is that it is another group.
    groups.put(group, name, entries[0].written[-1])
    held = groups.text(group, name)
    restored(state)
    assert groups.text(group, name) == held
    assert groups.quota(groups.path("api")).split()[0] == "50000"


def test_a_record_of_an_earlier_boot_restores_nothing(groups, sleeper, tmp_path):
    originals = contents(groups, NAMES, sleeper.pid)
    state = tmp_path / "state"
    record = held_by_a_dead_writer(groups, state)
    left = contents(groups, NAMES, sleeper.pid)
    journal = state / "journal.json"
    ours = journal.read_text()
    journal.write_text(ours.replace(record.boot_id, "11111111-2222-4333-8444-555555555555"))
    assert "is of an earlier boot" in restored(state)
    assert contents(groups, NAMES, sleeper.pid) == left
    journal.write_text(ours)
    restored(state)
    assert contents(groups, NAMES, sleeper.pid) == originals


def test_restore_as_its_own_process_and_the_lock_and_the_lease(groups, tmp_path):
    for name in ("be", "be/job", "api"):
        groups.add(name)
    sleeper = groups.start("be/job", "sleep", "600")
    originals = contents(groups, ("be", "be/job", "api"), sleeper.pid)
    state = tmp_path / "state"
    held_by_a_dead_writer(groups, state)
    restore = [sys.executable, "-m", "qosmanager", "restore", "--state-dir", str(state)]
    with NodeLock(state):
        refused = subprocess.run(restore, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "another qosmanager runs on this node: process" in refused.stderr
    early = subprocess.run([*restore, "--if-expired"], capture_output=True, text=True, check=False)
    assert (early.returncode, early.stderr) == (0, "")
    assert "is on a lease that lasts" in early.stdout
    done = subprocess.run(restore, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"cpu:/{groups.top}/be/" in done.stdout
    assert contents(groups, ("be", "be/job", "api"), sleeper.pid) == originals
    again = subprocess.run(restore, capture_output=True, text=True, check=False)
    assert (again.returncode, again.stdout.startswith("nothing to restore")) == (0, True)
