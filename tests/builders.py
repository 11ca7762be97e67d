"""Short ways to say pods, snapshots and settings for tests of what is judged and decided."""

from __future__ import annotations

from msgspec.structs import replace

from qosmanager.config.settings import Settings
from qosmanager.engine.step import step
from qosmanager.model.actions import Action, Plan
from qosmanager.model.assessment import Assessment
from qosmanager.model.qos import QoS
from qosmanager.model.snapshot import Node, Pod, PodCpu, PodLatency, PodMemory, Snapshot
from qosmanager.model.state import State

GIB = 1 << 30
MB = 1_000_000
NOW = 10_000.0

_CPU = {"request", "limit", "usage", "usage_mean", "wait", "throttled"}
_LATENCY = {"p99", "slo", "trend", "median"}
_MEMORY = {"memory_request": "request", "rss": "rss", "growth": "growth"}


def pod(name: str, qos: QoS, namespace: str = "shop", **figures) -> Pod:
    """Build a pod; figures of CPU, memory and latency go where they belong, the rest is the pod's own."""
    cpu = {key: figures.pop(key) for key in _CPU & set(figures)}
    latency = {key: figures.pop(key) for key in _LATENCY & set(figures)}
    memory = {_MEMORY[key]: figures.pop(key) for key in set(_MEMORY) & set(figures)}
    readings = {"cpu": PodCpu(**cpu), "memory": PodMemory(**memory), "latency": PodLatency(**latency)}
    return Pod(name=name, qos=qos, namespace=namespace, **readings, **figures)


def ls(name: str = "api", qos: QoS = QoS.LS, **figures) -> Pod:
    return pod(name, qos, **figures)


def be(name: str = "etl", **figures) -> Pod:
    return pod(name, QoS.BE, "batch", **figures)


def slow(name: str = "api", **figures) -> Pod:
    """Build an LS pod that is above its SLO and waits for CPU for a tenth of its usage."""
    return ls(name, **{"p99": 0.3, "slo": 0.1, "wait": 0.1 * figures.get("usage", 0.0), **figures})


def failing_node_qos_resource() -> Pod:
    """Build a pod over which NodeQOSResource stumbles (CPUs without a length), as a plugin with a fault would."""
    return ls("odd", QoS.LSE, usage=0.0, exclusive_cpus=iter(()))


def failing_cpu_burst() -> Pod:
    """Build a pod over which CPUBurst stumbles (no priority to sort by)."""
    return ls("odd", usage=1.0, limit=1.0, priority=None)


def snapshot(*pods: Pod, time: float | None = NOW, node_age: float = 0.0, paused: bool = False, **node) -> Snapshot:
    return Snapshot(node=Node(**{"cpus": 16.0, **node}), pods=pods, time=time, node_age=node_age, paused=paused)


def decided(reading: Snapshot, state: State | None = None, settings: Settings | None = None) -> Plan:
    return step(state or State(), reading, settings or Settings())[2]


def judged(reading: Snapshot, state: State | None = None, settings: Settings | None = None) -> Assessment:
    return step(state or State(), reading, settings or Settings())[1]


def remembered(reading: Snapshot, state: State | None = None, settings: Settings | None = None) -> State:
    return step(state or State(), reading, settings or Settings())[0]


def of_kind(plan: Plan, kind: type) -> list[Action]:
    return [action for action in plan.actions if isinstance(action, kind)]


def rules(plan: Plan) -> set[str]:
    return {refusal.rule for refusal in plan.refusals}


def run(readings, state: State | None = None, settings: Settings | None = None) -> list[tuple[State, Assessment, Plan]]:
    """Step through readings that are one second apart; each may be a function of the state before it."""
    before, results = state or State(), []
    for number, reading in enumerate(readings):
        taken = reading(before) if callable(reading) else reading
        result = step(before, replace(taken, time=NOW + number), settings or Settings())
        results.append(result)
        before = result[0]
    return results
