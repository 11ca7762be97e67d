"""How soon the agent answers a surge: from the first request of the surge until the kernel has the lower quota for BE.

    python benchmarks/reaction.py --surges 20 --rounds 2
    python benchmarks/reaction.py --fast-path on

A real `qosmanager run` over one group as its node, isolation off: batch has the same weight as the service and takes what it may. The
service gets an open loop of requests (Poisson, 2 ms of work each) for 40 percent of the node, in surges for 70. Surges begin at moments
spread evenly over the cycle; runs with the fast path and without take turns. The quota's file is read every 2 ms, for 3 s. Prints a
Markdown table: to the first lower quota, to half of the way down to the lowest one of these seconds, and to four fifths of it; from which
quota to which it went; and what the cycles before their turn have cost. A surge in which no quota fell by a twentieth of the CPUs counts as
unanswered (inf), unless BE had no more than what is left beside the surge already: those are told apart. `--surges 1 --rounds N` begins
each surge with a fresh agent, for which no fall is recent. Needs root and cgroup v1.
"""

from __future__ import annotations

import argparse
import json
import math
import mmap
import os
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "tests"), str(Path(__file__).with_name("slo"))]

from aside import Aside  # noqa: E402

from real_groups import RealGroups, obstacle  # noqa: E402 - found by the path above

# One worker: the share of a CPU that it is asked for stands first in the shared file; at its place it writes when the first request after
# a change was due (CLOCK_MONOTONIC).
WORKER = """
import mmap, random, struct, sys, time
file = open(sys.argv[1], "r+b")
shared = mmap.mmap(file.fileno(), 0)
place, chance, known, due = int(sys.argv[2]), random.Random(int(sys.argv[2])), 0.0, time.monotonic()
def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
while True:
    share = struct.unpack_from("<d", shared)[0]
    if share < 0:
        break
    now = time.monotonic()
    if share != known:
        known, due = share, max(due, now) + chance.expovariate(share / 0.002) if known else now
        struct.pack_into("<d", shared, 8 * place, due)
    if due > now:
        time.sleep(min(due - now, 0.002))
        continue
    work(0.002)
    due += chance.expovariate(share / 0.002)
"""
LOOK = 0.002
SETTLES = 6.0  # seconds between two surges
LASTS = 3.0  # seconds of a surge
LEAST = 0.05  # of the CPUs: a smaller fall is no answer to a surge


class Node:
    """The group that is the agent's node, with a service and batch in it."""

    def __init__(self, directory: str, calm: float, surge: float) -> None:
        """`calm` and `surge`: what the service is asked for, as shares of the node."""
        self.calm, self.surge = calm, surge
        self.groups = RealGroups()
        self.aside = Aside(self.groups)
        for name in ("api", "be", "be/job"):
            self.groups.add(name)
        self.cpus = len(os.sched_getaffinity(0))
        path = Path(directory, "load")
        path.write_bytes(bytes(8 * (self.cpus + 1)))
        with path.open("r+b") as file:
            self.shared = mmap.mmap(file.fileno(), 0)
        self.ask(calm)
        for worker in range(1, self.cpus + 1):
            self.groups.start("api", sys.executable, "-c", WORKER, str(path), str(worker))
        self.groups.busy("be/job", self.cpus)

    def ask(self, share: float) -> None:
        struct.pack_into("<d", self.shared, 0, share)

    def first_request(self, since: float) -> float | None:
        """When the first request after a change was due."""
        due = [moment for moment in struct.unpack_from(f"<{self.cpus}d", self.shared, 8) if moment >= since]
        return min(due, default=None)

    def limit(self) -> float:
        """The cores that the kernel lets BE use."""
        word = self.groups.quota(self.groups.path("be")).split()[0]
        return math.inf if word in ("-1", "max") else int(word) / 100_000

    def remove(self) -> None:
        self.groups.remove()
        self.aside.close()


@dataclass(frozen=True)
class Answer:
    """Seconds from the first request of a surge to the first lower quota, to half of the whole fall and to four fifths of it; cores before
    and at the lowest."""

    first: float
    half: float
    most: float
    before: float
    lowest: float


def surge(node: Node, phase: float) -> Answer:
    """One surge, begun at a phase of the cycle, and what the kernel was told in it."""
    time.sleep(SETTLES + phase)
    before, since = node.limit(), time.monotonic()
    node.ask(node.surge)
    seen: list[tuple[float, float]] = []
    while (seconds := time.monotonic() - since) < LASTS:
        seen.append((seconds, node.limit()))
        time.sleep(LOOK)
    late = (node.first_request(since) or since) - since
    node.ask(node.calm)
    lowest = min(cores for _, cores in seen)

    def until(part: float) -> float:
        """What arrives in a tenth of a second varies by a tenth: the last part of the fall is chance."""
        if before - lowest < LEAST * node.cpus:
            return math.inf
        return next(seconds for seconds, cores in seen if cores <= before - part * (before - lowest)) - late

    return Answer(until(1e-6), until(0.5), until(0.8), before, lowest)


@contextmanager
def agent(node: Node, directory: str, fast: bool, strategy: str) -> Iterator[str]:
    """Run the agent; give where it answers."""
    top = node.groups.top
    workloads, config, log = (Path(directory, name) for name in ("workloads.yaml", "config.yaml", "agent.log"))
    workloads.write_text(
        "workloads:\n"
        f'- {{name: api, qos: LS, cgroup: "{top}/api", requests: {{cpu: 100m}}}}\n'
        f'- {{name: batch, qos: BE, cgroup: "{top}/be/*"}}\n'
    )
    config.write_text(
        "qosManager:\n"
        f"  fastPath: {{enabled: {str(fast).lower()}}}\n"
        f"  cpuSuppress: {{strategy: {strategy}{', targetUtilization: 1' if strategy == 'usage' else ''}}}\n"
        '  isolation: {cpu: "off"}\n'
        "  cpuBurst: {enabled: false}\n"
    )
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "qosmanager", "run", "--workloads", str(workloads), "--config", str(config)),
                *("--node-cgroup", top, "--state-dir", f"{directory}/state", "--listen", "127.0.0.1:0"),
            ],
            stdout=output,
            stderr=output,
        )
    try:
        deadline = time.monotonic() + 30
        while "http=" not in log.read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the agent did not start:\n{log.read_text()[-2000:]}")
            time.sleep(0.1)
        yield log.read_text().split("http=")[1].split()[0]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def fast_path(url: str) -> dict[str, float]:
    with urllib.request.urlopen(f"{url}/status", timeout=10) as answer:
        found: dict[str, float] = json.load(answer)["fast_path"]
    return found


class Found:
    """What one way of running has come to."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.needless = 0  # surges for which BE had little enough before
        self.early = self.reads = 0
        self.spent = 0.0

    def take(self, answer: Answer, left: float) -> None:
        """Count a surge that leaves BE so many cores."""
        if math.isinf(answer.first) and answer.before <= left:
            self.needless += 1
        else:
            self.answers.append(answer)

    def rows(self, way: str) -> Iterator[str]:
        for name, seconds in (
            ("the first lower quota in the kernel", [each.first for each in self.answers]),
            ("half of the fall", [each.half for each in self.answers]),
            ("four fifths of it", [each.most for each in self.answers]),
        ):
            ordered = sorted(seconds)  # what was not answered is infinite
            p99 = ordered[math.ceil(0.99 * len(ordered)) - 1]
            figures = (ordered[0], statistics.median(ordered), p99, ordered[-1])
            yield f"| {name}, {way} | {len(ordered)} | {' | '.join(f'{each:.3f}' for each in figures)} |"

    def levels(self) -> str:
        before, lowest = ([getattr(each, name) for each in self.answers] for name in ("before", "lowest"))
        apart = f"; before {self.needless} more it was low enough" if self.needless else ""
        return f"BE's quota went from {statistics.median(before):.2f} cores to {statistics.median(lowest):.2f} (medians){apart}"


def measure(arguments: argparse.Namespace, directory: str) -> dict[bool, Found]:
    ways = {"on": (True,), "off": (False,), "both": (True, False)}[arguments.fast_path]
    found = {fast: Found() for fast in ways}
    node = Node(directory, arguments.calm, arguments.surge)
    try:
        for turn in range(arguments.rounds):
            for fast in ways if turn % 2 == 0 else ways[::-1]:
                with agent(node, directory, fast, arguments.strategy) as url:
                    time.sleep(SETTLES)
                    for number in range(arguments.surges):
                        answer = surge(node, (number + turn / arguments.rounds) / arguments.surges)
                        found[fast].take(answer, node.cpus * (1 - arguments.surge))
                    use = fast_path(url)
                    found[fast].early += int(use["cycles"])
                    found[fast].reads += int(use["reads"])
                    found[fast].spent += use["cycle_seconds"] + use["read_seconds"]
    finally:
        node.remove()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--surges", type=int, default=20, help="in each run of the agent")
    parser.add_argument("--rounds", type=int, default=1, help="runs of the agent in each way")
    parser.add_argument("--calm", type=float, default=0.4, help="share of the node that the service is asked for between surges")
    parser.add_argument("--surge", type=float, default=0.7, help="and in them")
    parser.add_argument("--fast-path", choices=("on", "off", "both"), default="both")
    parser.add_argument("--strategy", choices=("pressure", "usage", "slo"), default="usage")
    arguments = parser.parse_args()
    if (reason := obstacle()) is not None:
        raise SystemExit(reason)
    with tempfile.TemporaryDirectory() as directory:
        measured = measure(arguments, directory)
    print("| from the first request of a surge to | surges | min s | p50 s | p99 s | max s |")
    print("| --- | --- | --- | --- | --- | --- |")
    for fast, found in measured.items():
        way = "with the fast path" if fast else "without"
        print("\n".join(found.rows(way)))
    for fast, found in measured.items():
        print(f"\n{'with the fast path' if fast else 'without'}: {found.levels()}")
        if fast:
            print(f"\n{found.early} cycles before their turn, {found.reads} reads of stall files, {found.spent:.2f} s of CPU for both")


if __name__ == "__main__":
    main()
