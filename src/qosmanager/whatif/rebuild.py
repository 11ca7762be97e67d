"""A recording's demand as a scenario of the simulator. In: `Observed` and which bound. Out: a `Loaded` scenario."""

from __future__ import annotations

import math
from enum import Enum

from qosmanager.model.qos import QoS, is_latency_sensitive
from qosmanager.simulate.load import Loaded, Points
from qosmanager.simulate.scenario import (
    Claims,
    CpuDemand,
    Does,
    Event,
    Layout,
    Machine,
    MemoryDemand,
    Objective,
    Scenario,
    Service,
    WorkloadSpec,
)
from qosmanager.whatif.demand import Observed, PodSeries

_TAIL = math.log(100)  # p99 of a request that nobody delays, in mean service times: they are exponential in the model
_SHORTEST, _LONGEST = 0.0001, 60.0
_CHANGE = 0.01  # cores by which a step differs from the one before it, to be one


class Bound(Enum):
    """Which demand is assumed where pods were held back: the least of all, the least of services and the most of batch, the most of all."""

    LOW = "low"
    BATCH = "batch"
    HIGH = "high"

    def is_high(self, qos: QoS) -> bool:
        return self is Bound.HIGH or (self is Bound.BATCH and qos is QoS.BE)


def rebuild(observed: Observed, bound: Bound) -> Loaded:
    """Return the scenario; its workloads are the pods, under their own names."""
    names = _names(observed)
    series: dict[str, Points] = {}
    workloads: list[WorkloadSpec] = []
    events: list[Event] = []
    for number, (each, name) in enumerate(zip(observed.pods, names, strict=True)):
        file = f"{number}"
        series[file] = _points(each, observed.step, bound)
        workloads.append(_workload(each, name, file))
        left = each.last + 2 * observed.step < observed.seconds
        if left and not each.evicted and each.last > each.first:
            events.append(Event(at=each.last, do=Does.STOP, workload=name))
    scenario = Scenario(
        about=f"demand of the recording, {bound.value} bound",
        duration=observed.seconds,
        node=Machine(
            cpus=max(1, round(observed.cpus)),
            memory=max(observed.memory, 1 << 20),
            swap=observed.swap,
            system_memory=observed.system_memory,
            system_cpu=observed.system_cpu,
            layout=Layout.KUBERNETES if observed.kubernetes else Layout.PLAIN,
            start=observed.begun % 86400,
        ),
        workloads=tuple(workloads),
        events=tuple(events),
    )
    return Loaded(name="recording", scenario=scenario, series=series)


def _names(observed: Observed) -> list[str]:
    """Return a name for each pod that no other has: events go by it, and a successor may bear its predecessor's."""
    taken: dict[str, int] = {}
    names = []
    for each in observed.pods:
        name = each.pod.name
        count = taken[name] = taken.get(name, 0) + 1
        names.append(name if count == 1 else f"{name}-{count}")
    return names


def _points(each: PodSeries, step: float, bound: Bound) -> Points:
    values = each.high if bound.is_high(each.pod.qos) else each.low
    points: list[tuple[float, float]] = []
    for number, value in enumerate(values):
        if not points or abs(value - points[-1][1]) >= _CHANGE:
            points.append((each.first + number * step if number else 0.0, round(value, 3)))
    return tuple(points)


def _workload(each: PodSeries, name: str, file: str) -> WorkloadSpec:
    pod = each.pod
    limit = pod.cpu.limit
    request = pod.cpu.request if pod.cpu.request is None or limit is None else min(pod.cpu.request, limit)
    return WorkloadSpec(
        name=name,
        namespace=pod.namespace,
        qos=pod.qos,
        priority=pod.priority,
        critical=pod.critical,
        requests=Claims(cpu=request, memory=pod.memory.request),
        limits=Claims(cpu=limit or None),
        slo=Objective(p99=pod.latency.slo),
        cpus=len(pod.exclusive_cpus) if pod.qos is QoS.LSE else 0,
        cpu=CpuDemand(csv=file),
        memory=_memory(each),
        service=_service(each) if is_latency_sensitive(pod.qos) else None,
        starts=each.first,
    )


def _memory(each: PodSeries) -> MemoryDemand:
    """Return a straight line from what it held first to what it held last: a leak is one, and what goes up and down is its mean."""
    if not each.rss:
        return MemoryDemand(start=0)
    (begin, first), (end, last) = each.rss[0], each.rss[-1]
    if last <= first or end <= begin:
        return MemoryDemand(start=round(sum(held for _, held in each.rss) / len(each.rss)))
    return MemoryDemand(start=first, growth=round((last - first) / (end - begin) * 3600))


def _service(each: PodSeries) -> Service | None:
    """Return the queue whose p99, with nobody in its way, is the pod's own on a calm node."""
    calm = each.calm_p99()
    return None if calm is None else Service(time=min(_LONGEST, max(_SHORTEST, calm / _TAIL)))
