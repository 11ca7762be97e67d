"""A cycle's record for tests of what people and machines are shown: one LS pod with a burst, two BE pods, all figures by hand."""

from __future__ import annotations

from msgspec.structs import replace

from qosmanager.model.actions import Evict, Outcome, Plan, Receipt, Refusal, Result, SetBeCpuLimit, Verdict
from qosmanager.model.assessment import Assessment, Factor, Matrix, MatrixInputs, OomRisk, Pressure
from qosmanager.model.qos import Level, MatrixAction, Mode, Plugin, QoS, Slo
from qosmanager.model.record import CycleRecord
from qosmanager.model.snapshot import Node, Pod, PodCpu, PodLatency, PodMemory, Snapshot
from qosmanager.model.state import Burst, State

MIB = 1024 * 1024
WALL = 1_800_000_000.0  # 2027-01-15T08:00:00Z

API = Pod(
    name="api",
    namespace="shop",
    qos=QoS.LS,
    priority=9000,
    cpu=PodCpu(request=1.0, limit=2.0, usage=0.75, wait=0.05, throttled=0.0),
    memory=PodMemory(rss=100 * MIB),
    latency=PodLatency(p99=0.04, slo=0.05),
)
CRUNCH = Pod(name="crunch", namespace="batch", qos=QoS.BE, cpu=PodCpu(usage=0.5), memory=PodMemory(rss=300 * MIB))
SILENT = Pod(name="silent", namespace="batch", qos=QoS.BE)

LIMIT = SetBeCpuLimit(plugin=Plugin.CPU_SUPPRESS, reason="target 0.6 = 1.2 x 0.5", cores=0.6)
EVICT_CPU = Evict(plugin=Plugin.CPU_EVICT, reason="short of 0.4 cores", pod="batch/crunch", cpu=0.5, memory=300 * MIB)
EVICT_MEMORY = Evict(plugin=Plugin.MEMORY_EVICT, reason="12 s left", pod="batch/crunch", cpu=0.5, memory=300 * MIB)


def observed(action):
    return replace(action, mode=Mode.OBSERVE)


def pressure(score: float, level: Level) -> Pressure:
    usage = Factor(name="usage", points=score, cap=40.0, inputs={"cpu_percent": 2.5 * score})
    return Pressure(
        score=score, level=level, factors=(usage, Factor(name="load", points=None, cap=20.0, inputs={"load1": None}, note="absent"))
    )


ASSESSMENT = Assessment(
    cpu=pressure(30.0, Level.HIGH),
    memory=pressure(10.0, Level.LOW),
    io=Pressure(score=0.0, level=Level.LOW, factors=()),
    matrix=Matrix(
        priority=Level.LOW,
        action=MatrixAction.RELAX_BE_LIMIT,
        inputs=MatrixInputs(cpu_percent=75.0, memory_percent=10.0, cpu_trend=0.0, latency_rising=False),
    ),
    raw_level=Level.HIGH,
    steady_level=Level.HIGH,
    effective_level=Level.HIGH,
    slo=Slo.OK,
    oom=OomRisk(present=False),
)


def record(number: int = 1, actions: tuple = (), **changes) -> CycleRecord:
    time = 100.0 + number
    base = CycleRecord(
        number=number,
        wall=WALL + number,
        snapshot=Snapshot(
            node=Node(cpus=2.0, cpu_usage=1.5),
            pods=(API, CRUNCH, SILENT),
            time=time,
            node_age=0.01,
            missing={"pods.batch/silent.cpu.usage": "no second sample yet"},
        ),
        assessment=ASSESSMENT,
        plan=Plan(actions=actions, refusals=(Refusal(Plugin.CPU_BURST, "shop/api", "not_needed", "usage 0.75 under 1.8"),)),
        state=State(
            time=time,
            be_limit=0.6,
            suppress_level=Level.HIGH,
            suppress_since=time - 4.0,
            bursts=(Burst(pod="shop/api", base_limit=2.0, limit=3.0),),
        ),
        durations={"decide": 0.7, "total": 7.5},
    )
    return replace(base, **changes)


def receipt(action: int | None, result: Result, target: str = "cpu:/batch/cpu.cfs_quota_us", **fields) -> Receipt:
    return Receipt(target=target, result=result, action=action, **fields)


def outcome(since: float, verdict: Verdict = Verdict.EFFECTIVE) -> Outcome:
    return Outcome(plugin=Plugin.CPU_SUPPRESS, kind="set_be_cpu_limit", target="BE", verdict=verdict, since=since, detail="0.61 of 0.60")
