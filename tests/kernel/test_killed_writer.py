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
from real_groups import SLOWNESS, obstacle, real_groups

WHY_NOT = obstacle()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
RUNS = int(os.environ.get("QOSM_KILLS", "50"))

WRITER = """
import itertools, pathlib, sys
from qosmanager.execute.resource_executor import ResourceExecutor
from qosmanager.linux.boot import LinuxBoot
from qosmanager.linux.cgroup import Hierarchies
from qosmanager.linux.journal import FileJournal
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
pods = {"default/api": Workload(name="api", qos=QoS.LS, cgroup=f"{top}/api"),
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
    plan = Plan(actions=actions, standing=Standing(be_weight=number % 3 > 0, oom_score_adj=900 if number % 2 else 800))
    executor.apply(plan, placement, Snapshot(node=Node(cpus=2.0)), 6.0 * number)
"""


@pytest.fixture
def groups():
    yield from real_groups()


def contents(groups, names, pid):
    version = groups.kernel.version("cpu")
    files = ("cpu.cfs_quota_us", "cpu.cfs_burst_us", "cpu.shares") if version == 1 else ("cpu.max", "cpu.max.burst", "cpu.weight")
    # v2 takes no empty set back while tasks run in the group, but every CPU, which means the same.
    cpus = "cpuset.cpus" if groups.kernel.version("cpuset") == 1 else "cpuset.cpus.effective"
    files = files if groups.kernel.version("cpuset") is None else (*files, cpus)
    found = {(name, file): groups.text(groups.path(name), file) for name in names for file in files}
    with open(f"/proc/{pid}/oom_score_adj") as score:
        return found | {("be/job", "oom_score_adj"): score.read().strip()}


def killed_writer(groups, state, delay):
    with subprocess.Popen([sys.executable, "-c", WRITER, groups.top, str(state)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "ready\n"
        time.sleep(delay * SLOWNESS)
        assert writer.poll() is None, "the writer ended by itself"
        writer.kill()


def test_all_originals_come_back_after_kill_9_at_any_instant(groups, tmp_path):
    names = ("be", "be/job", "be/job/inner", "api")
    for name in names:
        groups.add(name)
    limits = {"api": 0.5, "be/job": 1.5, "be/job/inner": 1.0}
    version = groups.kernel.version("cpu")
    for name, cores in limits.items():
        file, period = ("cpu.cfs_quota_us", "") if version == 1 else ("cpu.max", " 100000")
        groups.put(groups.path(name), file, f"{int(cores * 100_000)}{period}")
    sleeper = groups.start("be/job/inner", "sleep", "600")
    time.sleep(0.2)
    originals = contents(groups, names, sleeper.pid)
    state = tmp_path / "state"
    random_delay = random.Random(7)
    changed = 0
    for _ in range(RUNS):
        killed_writer(groups, state, random_delay.uniform(0.0, 0.03))
        changed += contents(groups, names, sleeper.pid) != originals
        done = CliRunner().invoke(main, ["restore", "--state-dir", str(state)])
        assert done.exit_code == 0, done.output
        assert contents(groups, names, sleeper.pid) == originals
    # Most kills came while something was changed: the test means something.
    assert changed > RUNS / 2


def test_restore_as_its_own_process_and_the_lock_and_the_lease(groups, tmp_path):
    for name in ("be", "be/job", "api"):
        groups.add(name)
    sleeper = groups.start("be/job", "sleep", "600")
    originals = contents(groups, ("be", "be/job", "api"), sleeper.pid)
    state = tmp_path / "state"
    while (record := FileJournal(state).load()) is None or not record.entries:
        # Killed in a moment in which nothing was held: once more.
        killed_writer(groups, state, 0.05)
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
