"""Memory runs out in a bounded group that the agent itself lives in: it still ends the pod that eats it, before the kernel has to kill."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from qosmanager.linux.cgroup_reader import CgroupReaders
from real_groups import obstacle, real_groups
from waiting import PATIENCE

MIB = 1 << 20
LIMIT = 2560 * MIB
# Below 512 MiB the risk of running out of memory is there, and at that size it is also the fifth that must be free (sections 4, 5.6).
RISK = 512 * MIB
LATE = 0.1  # seconds without CPU in which a hog is through with what is left
TRIES = 3
CONFIG = "qosManager:\n  syncPeriod: %s\n"
HOG = """
import sys, time
# What is far from the risk comes at once.
rate, held = float(sys.argv[1]), [bytearray(b"x" * (1 << 30))]
began = time.monotonic()
while True:
    if len(held) - 1 < (time.monotonic() - began) * rate / 8:
        held.append(bytearray(b"x" * (8 << 20)))
    else:
        time.sleep(0.002)
"""


def why_not() -> str | None:
    """Why memory cannot run out here on purpose."""
    if (found := obstacle()) is not None:
        return found
    available = next(int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    return None if available * 1024 > 2 * LIMIT else f"needs {2 * LIMIT // MIB} MiB available on the machine"


WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))


@contextmanager
def bounded_node():
    for groups in real_groups():
        for name in ("agent", "api", "be", "be/hog"):
            groups.add(name)
        groups.put(groups.top, "memory.limit_in_bytes" if groups.kernel.version("memory") == 1 else "memory.max", str(LIMIT))
        yield groups


@pytest.fixture
def node():
    with bounded_node() as groups:
        yield groups


def used(groups) -> int:
    """Memory of the node that cannot be had back, in bytes."""
    version = groups.kernel.version("memory")
    name, prefix = ("memory.usage_in_bytes", "total_") if version == 1 else ("memory.current", "")
    stat = dict(line.split() for line in groups.text(groups.top, "memory.stat").splitlines())
    cache = int(stat[f"{prefix}active_file"]) + int(stat[f"{prefix}inactive_file"])
    return int(groups.text(groups.top, name)) - cache


def agent(groups, directory: Path, period: str):
    (directory / "config.yaml").write_text(CONFIG % period)
    (directory / "workloads.yaml").write_text(
        "workloads:\n"
        f'- {{name: api, qos: LS, cgroup: "{groups.top}/api", requests: {{cpu: 100m, memory: 64Mi}}}}\n'
        f'- {{name: job, qos: BE, cgroup: "{groups.top}/be/*", priority: 3000}}\n'
    )
    options = ("--config", f"{directory}/config.yaml", "--workloads", f"{directory}/workloads.yaml", "--node-cgroup", groups.top)
    where = ("--state-dir", f"{directory}/state", "--audit-log", f"{directory}/audit.log", "--listen", "off")
    # The log goes to a file: a pipe that nobody reads would stop it.
    command = f'exec "$0" -m qosmanager run "$@" 2>{directory}/agent.log'
    return groups.start("agent", "sh", "-c", command, sys.executable, *options, *where)


def until(condition, seconds: float, what: str, log: Path) -> None:
    deadline = time.monotonic() + seconds * PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}:\n{log.read_text()[-3000:]}"
        time.sleep(0.002)


@pytest.mark.parametrize(("rate", "period"), [(200, "1s"), (200, "100ms"), (1000, "100ms")])
def test_the_agent_ends_the_pod_that_eats_the_memory_it_lives_in(tmp_path, rate, period):
    """In a race with the kernel's own killer, which an agent that does not get to run cannot win: then again, with another node."""
    waited = []
    while len(waited) < TRIES:
        directory = tmp_path / str(len(waited))
        directory.mkdir()
        with bounded_node() as node:
            kills, stalled = race(node, directory, rate, period)
        if kills == 0:
            return
        assert stalled > LATE, f"the kernel was first, and nobody kept the agent from running (it waited {stalled:.3f} s for CPU)"
        waited.append(round(stalled, 2))
    pytest.skip(f"others kept the agent from running for {waited} s while the memory was eaten")


def race(node, directory: Path, rate: float, period: str) -> tuple[int, float]:
    """Return how often the kernel killed, and how long the agent has waited for CPU, in seconds."""
    log = directory / "agent.log"
    process = agent(node, directory, period)
    api = node.start("api", "sleep", "600")
    until(lambda: log.exists() and log.read_text().count("cycle number=") >= 3, 30, "three cycles", log)
    assert "MemoryLocked" in log.read_text()
    before = waiting(node)
    hog = node.start("be/hog", sys.executable, "-c", HOG, str(rate))
    until(lambda: used(node) > LIMIT - RISK or hog.poll() is not None, 60, "memory to run short", log)
    short = time.monotonic()
    until(lambda: hog.poll() is not None, 60, "the hog to be gone", log)
    sys.stdout.write(f"\n{rate} MB/s, period {period}: {1000 * (time.monotonic() - short):.0f} ms from the threshold to the process gone\n")
    stalled = waiting(node) - before
    if kernel_kills(node) == 0:
        # The agent asks it to end (SIGTERM, or SIGKILL of its own).
        assert "MemoryEvict" in log.read_text()
        assert process.poll() is None, "the agent lives"
        assert api.poll() is None, "the service lives"
        audit = directory / "audit.log"
        until(lambda: audit.exists() and "job-hog" in audit.read_text(), 20, "the audit line", log)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20 * PATIENCE) == 0, log.read_text()[-2000:]
    return kernel_kills(node), stalled


def waiting(node) -> float:
    """Seconds for which the agent has waited for CPU; 0 where the kernel does not tell."""
    try:
        return CgroupReaders(node.kernel).open(node.path("agent")).cpu_stall().total
    except (OSError, ValueError):
        return 0.0


def kernel_kills(groups) -> int:
    """How often the kernel has killed in the node's group or below it."""
    version = groups.kernel.version("memory")
    total = 0
    for name in ("", "agent", "api", "be", "be/hog"):
        text = groups.text(groups.path(name), "memory.oom_control" if version == 1 else "memory.events.local")
        counts = dict(line.split() for line in text.splitlines())
        total += int(counts.get("oom_kill", 0))
    return total


def test_no_file_outside_the_groups_is_read_to_end_a_pod(node, tmp_path):
    """From the decision to the last signal: cgroup files and signals alone, no list of all processes."""
    from qosmanager.linux.evictions import LocalEvictions  # noqa: PLC0415 - only here
    from qosmanager.linux.systemd import Systemd  # noqa: PLC0415
    from qosmanager.model.actions import Evict  # noqa: PLC0415
    from qosmanager.model.qos import Plugin, QoS  # noqa: PLC0415
    from qosmanager.model.workload import Workload  # noqa: PLC0415

    hog = node.start("be/hog", "sleep", "600")
    opened: list[str] = []
    watching = [True]

    def audit(event: str, arguments: tuple) -> None:
        if watching and event in ("open", "os.scandir", "os.listdir", "subprocess.Popen"):
            opened.append(os.fsdecode(arguments[0]) if isinstance(arguments[0], (str, bytes)) else str(arguments[0]))

    sys.addaudithook(audit)
    evictions = LocalEvictions(node.kernel, Systemd(tmp_path / "no-systemd"))
    action = Evict(plugin=Plugin.MEMORY_EVICT, reason="test", pod="default/hog", grace=0.0)
    begun = evictions.begin(action, Workload(name="hog", qos=QoS.BE, cgroup=node.path("be/hog")), time.monotonic())
    progress = {}
    while not (progress.get("default/hog") and progress["default/hog"].done):
        hog.poll()
        progress = evictions.poll(time.monotonic())
    watching.clear()
    assert begun == ""
    assert opened
    assert [path for path in opened if not path.startswith("/sys/fs/cgroup/")] == []
