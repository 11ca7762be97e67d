"""How soon the agent answers a surge: from the moment an LS group begins to burn CPU until the kernel has a lower quota for BE.

    python benchmarks/reaction.py --surges 20

A real `qosmanager run` with its defaults (a cycle each second) over one group as its node: a service that sleeps, batch that takes what it
may. Surges begin at moments spread evenly over the cycle. The quota's file is read every 2 ms. Prints a Markdown table: to the first
lower quota, and to the first one that leaves the service room for all that it uses. Needs root and writable cgroups.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from real_groups import RealGroups, obstacle

# Burns CPU on as many threads of work as there are lines "go", until a line "stop"; forked, for one Python process takes one CPU.
SERVICE = """
import os, signal, sys
burning = []
for line in sys.stdin:
    if line == "go\\n":
        child = os.fork()
        if child == 0:
            while True: pass
        burning.append(child)
    else:
        for child in burning:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        burning = []
"""
LOOK = 0.002


class Node:
    """The group that is the agent's node, with a service and batch in it."""

    def __init__(self) -> None:
        self.groups = RealGroups()
        for name in ("api", "be", "be/job"):
            self.groups.add(name)
        self.cpus = len(os.sched_getaffinity(0))
        self.groups.busy("be/job", self.cpus)
        self.service = subprocess.Popen([sys.executable, "-c", SERVICE], stdin=subprocess.PIPE, text=True, bufsize=1)
        for controller in ("cpu", "cpuacct", "memory", "unified"):
            if self.groups.kernel.version(controller) is not None:
                Path(self.groups.kernel.directory(controller, self.groups.path("api")), "cgroup.procs").write_text(str(self.service.pid))

    def surge(self, lines: str) -> None:
        assert self.service.stdin is not None
        self.service.stdin.write(lines)
        self.service.stdin.flush()

    def limit(self) -> float:
        """The cores that the kernel lets BE use."""
        word = self.groups.quota(self.groups.path("be")).split()[0]
        return math.inf if word in ("-1", "max") else int(word) / 100_000

    def remove(self) -> None:
        self.surge("stop\n")
        self.service.kill()
        self.service.wait()
        self.groups.remove()


def calm(node: Node) -> float:
    """Wait until BE has most of the node again and the limit has stood for 1.5 s; return it."""
    since, held = time.monotonic(), node.limit()
    deadline = since + 120
    while time.monotonic() - since < 1.5 or held < 0.7 * node.cpus:
        if time.monotonic() > deadline:
            raise SystemExit(f"BE does not get its CPUs back: {node.limit():.2f} cores")
        if math.isinf(now := node.limit()) or now != held:
            since, held = time.monotonic(), now
        time.sleep(0.02)
    return held


def surge(node: Node, phase: float) -> tuple[float, float]:
    """One surge, begun at a phase of the cycle; return the seconds to the first lower quota, and to one that leaves the service room."""
    before = calm(node)
    time.sleep(phase)
    wanted = max(1, node.cpus - 1)
    began = time.monotonic()
    node.surge("go\n" * wanted)
    first = room = math.inf
    while math.isinf(room):
        now, seconds = node.limit(), time.monotonic() - began
        if now < before * 0.99:
            first = min(first, seconds)
        if now <= node.cpus - wanted:
            room = seconds
        if seconds > 30:
            raise SystemExit(f"no answer after 30 s: the limit is {now:.2f} cores, it was {before:.2f}")
        time.sleep(LOOK)
    node.surge("stop\n")
    return first, room


def measure(surges: int, directory: str) -> list[tuple[float, float]]:
    node = Node()
    try:
        top = node.groups.top
        workloads = Path(directory, "workloads.yaml")
        workloads.write_text(
            "workloads:\n"
            f'- {{name: api, qos: LS, cgroup: "{top}/api", requests: {{cpu: 100m}}}}\n'
            f'- {{name: batch, qos: BE, cgroup: "{top}/be/*"}}\n'
        )
        with Path(directory, "agent.log").open("wb") as log:
            agent = subprocess.Popen(
                [
                    *(sys.executable, "-m", "qosmanager", "run", "--workloads", str(workloads), "--node-cgroup", top),
                    *("--state-dir", f"{directory}/state", "--listen", "off"),
                ],
                stdout=log,
                stderr=log,
            )
        try:
            return [surge(node, number / surges) for number in range(surges)]
        finally:
            agent.send_signal(signal.SIGTERM)
            agent.wait(30)
    finally:
        node.remove()


def row(name: str, seconds: list[float]) -> str:
    # With twenty values the 99th percentile is as good as the largest.
    p99 = statistics.quantiles(seconds, n=100, method="inclusive")[98]
    return f"| {name} | {len(seconds)} | {min(seconds):.2f} | {statistics.median(seconds):.2f} | {p99:.2f} | {max(seconds):.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--surges", type=int, default=20)
    arguments = parser.parse_args()
    if (reason := obstacle()) is not None:
        raise SystemExit(reason)
    with tempfile.TemporaryDirectory() as directory:
        measured = measure(arguments.surges, directory)
    print("| from the beginning of a surge to | surges | min s | p50 s | p99 s | max s |")
    print("| --- | --- | --- | --- | --- | --- |")
    print(row("the first lower quota in the kernel", [first for first, _ in measured]))
    print(row("the quota that leaves the service what it uses", [room for _, room in measured]))


if __name__ == "__main__":
    main()
