"""What a recording costs: bytes of a day, milliseconds of a cycle, cycles read back in a second.

    python benchmarks/record.py --pods 10 --pods 100 --pods 500 --cycles 1800

Prints a Markdown table. The readings are made: every pod's CPU moves by some 4 percent of its mean from cycle to cycle (a node whose
pods are busier than they are steady), memory of a fifth of them by a few hundred pages, latencies every 5 s, I/O and stall averages every
10 s, as the agent reads them. They are decided on by the engine, recorded as by an agent that runs, read back and decided again; both
must be the same. CPU time of this process, the smallest of three runs; files in the temporary directory.
"""

from __future__ import annotations

import argparse
import gc
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from qosmanager.config.settings import Settings
from qosmanager.engine.step import conclude, judge
from qosmanager.model.actions import Receipt, Result
from qosmanager.model.own_use import OwnUse
from qosmanager.model.qos import QoS
from qosmanager.model.record import CycleRecord
from qosmanager.model.snapshot import NO_LATENCY, Node, Pod, PodCpu, PodLatency, PodMemory, PodObserved, Snapshot
from qosmanager.model.state import State
from qosmanager.model.workload import Placement, Workload
from qosmanager.record.directory import Directory
from qosmanager.record.encoder import Taken
from qosmanager.record.grid import Quantiser
from qosmanager.record.reader import Recording
from qosmanager.record.replay import replay
from qosmanager.record.writer import Bounds, Writer
from qosmanager.verify import observe, settle

GIB = 1 << 30
PAGE = 4096
RUNS = 3


class Load:
    """One pod and what it does; every third is batch."""

    def __init__(self, number: int, chance: random.Random) -> None:
        self.number = number
        self.chance = chance
        self.batch = number % 3 == 2
        self.base = chance.uniform(0.1, 1.5) if self.batch else chance.uniform(0.02, 0.9)
        self.usage = self.mean = self.base
        self.wait = 0.0
        self.rss = chance.randrange(50, 4000) * 256 * PAGE
        self.memory = self.observed = None
        self.latency = NO_LATENCY

    def pod(self, cycle: int) -> Pod:
        gauss, batch, number = self.chance.gauss, self.batch, self.number
        self.usage = max(0.0, self.usage + 0.2 * (self.base - self.usage) + gauss(0, 0.04 * self.base))
        rarely = cycle % 10 == number % 10 or not cycle
        if rarely:
            self.mean = self.base * (1 + gauss(0, 0.005))
            moved = number % 4 == 0
            self.observed = PodObserved(
                io_read=abs(gauss(1e4, 5e3)) if moved else 0.0,
                io_write=abs(gauss(1e5, 3e4)) if moved else 0.0,
                cpu_psi_some=round(abs(gauss(0, 1)), 2),
                memory_psi_full=0.0,
                io_psi_some=round(abs(gauss(0, 0.3)), 2),
            )
        if not batch or rarely:
            self.wait = self.usage * min(1.0, max(0.0, gauss(0.02, 0.01)))
        if cycle % 5 == number % 5 or not cycle:
            self.rss = max(0, self.rss + int(gauss(0, 200)) * PAGE)
            self.memory = PodMemory(request=2 * GIB, limit=4 * GIB, rss=self.rss, growth=0.0)
        if number % 3 == 0 and not cycle % 5:
            self.latency = PodLatency(p99=abs(gauss(0.03, 0.005)), slo=0.1, trend=gauss(0, 2), median=0.03 + gauss(0, 0.001))
        return Pod(
            name=f"app-{number}-7d9f8b6c5d-x{number:03d}",
            namespace="batch" if batch else "shop",
            qos=QoS.BE if batch else QoS.LS,
            uid=f"{number:08x}-0000-4000-8000-000000000000",
            priority=3000 if batch else 9000,
            created=1.7e9 + number,
            owner="Deployment",
            cpu=PodCpu(
                request=None if batch else 0.5,
                limit=None if batch else 2.0,
                usage=self.usage,
                usage_mean=self.mean,
                wait=self.wait,
                throttled=0.0 if batch else max(0.0, gauss(-0.2, 0.1)),
            ),
            memory=self.memory,
            latency=self.latency,
            observed=self.observed,
        )


def readings(pods: int, cycles: int) -> Iterator[Snapshot]:
    chance = random.Random(1)
    loads = [Load(number, chance) for number in range(pods)]
    gauss, now = chance.gauss, 1000.0
    missing = {f"pods.batch/app-{number}.latency.p99": "no source declared" for number in range(pods // 2)}
    for cycle in range(cycles):
        here = tuple(load.pod(cycle) for load in loads)
        busy = sum(load.usage for load in loads)
        node = Node(
            cpus=64.0,
            cpu_usage=busy + abs(gauss(1.5, 0.2)),
            load1=round(abs(busy + gauss(0, 1)), 2),
            memory_total=512 * GIB,
            memory_available=int(200 * GIB + gauss(0, 1) * 2e8) // PAGE * PAGE,
            memory_available_trend=gauss(0, 1e6),
            swap_total=0,
            swap_used=0,
            pgscan_direct=0.0,
            pgscan_kswapd=0.0,
            memory_psi_full=0.0,
            io_psi_some=round(abs(gauss(0.5, 0.3)), 2),
            iowait=abs(gauss(0.5, 0.2)),
            disk_util=abs(gauss(5, 2)),
            net_util=abs(gauss(2, 0.5)),
            ls_memory_growth=0.0,
            cpu_psi_some=round(abs(gauss(3, 1)), 2),
            context_switches=gauss(80_000, 3000),
            softirq=abs(gauss(1, 0.2)),
            steal=0.0,
            cpu_peak_24h=50.0,
        )
        yield Snapshot(node=node, pods=here, time=now, node_age=abs(gauss(0.001, 0.0003)), missing=missing)
        now += 1.0 + gauss(0, 0.001)


def decided(measured: list[Snapshot]) -> list[Taken]:
    """Run the cycles over the readings as they are; what was done always succeeds."""
    settings, state, found, chance = Settings(), State(), [], random.Random(2)
    places = Placement(workloads={pod.key: Workload(name=pod.name, qos=pod.qos, cgroup=f"pods/{pod.uid}") for pod in measured[0].pods})
    for number, snapshot in enumerate(measured, 1):
        seen, outcomes = observe(state, snapshot)
        planned, assessment, plan = conclude(judge(seen, snapshot, settings), settings)
        receipts = tuple(Receipt(target="cpu:/be/cpu.max", result=Result.APPLIED, action=place) for place, _ in enumerate(plan.actions))
        after, more = settle(seen, planned, plan, receipts, snapshot)
        record = CycleRecord(
            number=number,
            wall=1.8e9 + (snapshot.time or 0.0),
            snapshot=snapshot,
            assessment=assessment,
            plan=plan,
            state=after,
            receipts=receipts,
            outcomes=outcomes + more,
            durations={stage: chance.uniform(0.1, 8) for stage in ("collect", "verify", "assess", "decide", "act", "total")},
            own=OwnUse(cpu=chance.uniform(0.010, 0.012), rss=45 << 20, lag=0.0),
        )
        found.append(Taken(before=state, record=record, settings=settings, placement=places))
        state = after
    return found


def quantised(measured: list[Snapshot]) -> tuple[list[Snapshot], float]:
    quantiser, began = Quantiser(), time.process_time()
    taken = [quantiser.take(snapshot) for snapshot in measured]
    return taken, time.process_time() - began


def written(cycles: list[Taken], directory: Path) -> float:
    """Write them as an agent does that runs a cycle a second: one flush for every five."""
    shutil.rmtree(directory, ignore_errors=True)
    writer, began = Writer(Directory(directory), Bounds(flush=3600.0)), time.process_time()
    for number, cycle in enumerate(cycles, 1):
        writer.add(cycle)
        if not number % 5:
            writer.flush()
    writer.close()
    return time.process_time() - began


def read_back(directory: Path) -> float:
    began = time.process_time()
    for _ in Recording(directory).cycles():
        pass
    return time.process_time() - began


def again(directory: Path, cycles: list[Taken]) -> float:
    began = time.process_time()
    for each, cycle in zip(replay(Recording(directory).cycles()), cycles, strict=True):
        if each.difference is not None or each.record.snapshot != cycle.record.snapshot:
            raise SystemExit(f"cycle {each.record.number} does not come out as it was: {each.difference}")
    return time.process_time() - began


def measure(pods: int, count: int) -> str:
    measured = list(readings(pods, count))
    gc.collect()
    gc.freeze()  # as the agent does: what is only there for this benchmark is not to be walked
    quantising = min(quantised(measured)[1] for _ in range(RUNS))
    cycles = decided(quantised(measured)[0])
    gc.collect()
    gc.freeze()
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place, "record")
        writing = min(written(cycles, directory) for _ in range(RUNS))
        size = sum(path.stat().st_size for path in directory.iterdir())
        reading = min(read_back(directory) for _ in range(RUNS))
        deciding = min(again(directory, cycles) for _ in range(RUNS))
    day = size / count * 86_400 / 1e6
    costs = f"{quantising / count * 1e3:.3f} | {writing / count * 1e3:.3f} | {(quantising + writing) / count * 1e3:.3f}"
    return f"| {pods} | {count} | {day:.1f} | {costs} | {count / reading:,.0f} | {count / deciding:,.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, action="append", help="may be given more than once [default: 10, 100, 500]")
    parser.add_argument("--cycles", type=int, default=1800, help="of one second each [default: 1800]")
    options = parser.parse_args()
    costs = "grid, ms a cycle | write, ms a cycle | both, ms a cycle"
    print(f"| pods | cycles | MB a day | {costs} | read back, cycles/s | decided again, cycles/s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for pods in options.pods or [10, 100, 500]:
        print(measure(pods, options.cycles), flush=True)


if __name__ == "__main__":
    main()
