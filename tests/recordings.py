"""Recordings for tests: cycles run by the very engine over readings made here, written by the very recorder."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from msgspec.structs import replace

from builders import GIB, NOW, be, ls, slow, snapshot
from qosmanager.config.settings import Settings
from qosmanager.engine.step import conclude, judge
from qosmanager.model.actions import Receipt, Result
from qosmanager.model.own_use import OwnUse
from qosmanager.model.qos import QoS
from qosmanager.model.record import CycleRecord
from qosmanager.model.snapshot import PodObserved
from qosmanager.model.state import State
from qosmanager.model.workload import Placement, Workload
from qosmanager.record.directory import Directory
from qosmanager.record.encoder import Taken
from qosmanager.record.grid import Quantiser
from qosmanager.record.writer import Bounds, Writer
from qosmanager.verify import observe, settle

WALL = 1_800_000_000.0
SETTINGS = Settings()
PLACEMENT = Placement(workloads={"shop/api": Workload(name="api", namespace="shop", qos=QoS.LS, cgroup="shop/api")}, be_parent="batch")


def readings(count: int):
    """A story: a service throttled by its own limit, from cycle 30 on a surge that batch work has to make room for, from 110 on memory that
    runs out; batch pods come and go, and half way a new service."""
    for number in range(count):
        wave = (number * 7919 % 100) / 100
        calm, short = number < 30, number >= 110
        api = {"usage": 3.0 + wave, "request": 2.0, "limit": 4.0, "throttled": 0.1 * wave}
        pods = [
            slow("api", **api, p99=0.02 if calm else 0.3, median=0.05, trend=3.3 * wave, rss=GIB + number),
            be("etl", usage=(2.0 if calm else 6.0) * wave, rss=2 * GIB + 4096 * number, observed=PodObserved(io_read=1e6 * wave)),
        ]
        if number % 5 != 3:
            pods.append(be("scan", usage=4.1 + wave / 3, usage_mean=4.0, rss=GIB, created=float(number // 5)))
        if number > count // 2:
            pods.insert(0, ls("web", qos=QoS.LSR, usage=None if number % 7 == 0 else 0.3 * wave, request=1.0))
        available = GIB if short else 20 * GIB - number * 12_345
        node = {"cpu_usage": (9.0 if calm else 14.0) + wave, "load1": 20 * wave, "memory_total": 64 * GIB, "memory_available": available}
        reading = snapshot(*pods, time=NOW + 1.0003 * number, node_age=0.0017 * wave, **node)
        yield replace(reading, missing={} if number % 3 else {"node.net_util": f"no link {number % 2}"})


def run(count: int, settings: Settings = SETTINGS) -> list[Taken]:
    """Run cycles as the agent does while it records."""
    state, quantiser, cycles = State(), Quantiser(), []
    for number, measured in enumerate(readings(count), 1):
        taken = decided(quantiser.take(measured), state, settings, number)
        cycles.append(taken)
        state = taken.record.state
    return cycles


def decided(reading, state: State, settings: Settings, number: int) -> Taken:
    """Run one cycle whose actions all succeed."""
    seen, outcomes = observe(state, reading)
    planned, assessment, plan = conclude(judge(seen, reading, settings), settings)
    receipts = tuple(
        Receipt(target="x", result=Result.APPLIED, action=place, pod=getattr(action, "pod", None))
        for place, action in enumerate(plan.actions)
    )
    after, more = settle(seen, planned, plan, receipts, reading)
    record = CycleRecord(
        number=number,
        wall=WALL + number,
        snapshot=reading,
        assessment=assessment,
        plan=plan,
        state=after,
        receipts=receipts,
        outcomes=outcomes + more,
        durations={"collect": 1.25, "total": 2.5},
        own=OwnUse(cpu=0.0078125, rss=4096 * 11_000, lag=0.25),
    )
    return Taken(before=state, record=record, settings=settings, placement=PLACEMENT)


def written(directory: Path, cycles: list[Taken], bounds: Bounds | None = None) -> Path:
    """Write cycles into a directory; return the last file."""
    writer = Writer(Directory(directory), bounds or Bounds())
    for cycle in cycles:
        writer.add(cycle)
    writer.close()
    return max(directory.iterdir())


def follow_each_other(cycles: list[Taken]) -> bool:
    return all(later.before is earlier.record.state for earlier, later in pairwise(cycles))
