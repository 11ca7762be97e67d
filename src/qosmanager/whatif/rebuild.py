"""A recording's demand as a scenario of the simulator. In: `Observed` and which bound. Out: a `Loaded` scenario."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from enum import Enum

from qosmanager.model.qos import QoS, is_latency_sensitive
from qosmanager.model.snapshot import Pod
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
_OLDEST = 366 * 86400.0  # seconds: the age of a pod of which nobody knows it
_PLENTY = 1 << 50  # bytes: of a node whose memory was not measured nothing is told
_CHANGE = 0.01  # cores by which a step differs from the one before it, to be one


# What Kubernetes makes random names of: no vowels, no digits that look like letters.
_RANDOM = re.compile(r"(-[bcdfghjklmnpqrstvwxz2456789]{6,10})?-[bcdfghjklmnpqrstvwxz2456789]{5}$")
_RANDOM_NAMES = ("Deployment", "ReplicaSet", "ReplicationController", "Job")


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
    replaced = _replaced(observed.pods)
    series: dict[str, Points] = {}
    workloads: list[WorkloadSpec] = []
    events: list[Event] = []
    for number, (each, name) in enumerate(zip(observed.pods, names, strict=True)):
        file = f"{number}"
        series[file] = _points(each, observed.step, bound)
        workloads.append(_workload(each, name, file, observed.begun))
        left = each.last + 2 * observed.step < observed.seconds
        # One that was evicted would have stayed, and no other would have come in its place; where one came, the demand went on in that one.
        if left and (each.evicted is None or number in replaced):
            events.append(Event(at=each.last, do=Does.STOP, workload=name))
    scenario = Scenario(
        about=f"demand of the recording, {bound.value} bound",
        duration=observed.seconds,
        node=Machine(
            cpus=observed.cpus,
            memory=observed.memory or _PLENTY,
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


def _replaced(pods: Sequence[PodSeries]) -> set[int]:
    """Return the places of evicted pods in whose place another came: of the same kind, after the eviction, and of no other victim."""
    found: set[int] = set()
    heirs: set[int] = set()
    order = sorted(range(len(pods)), key=lambda place: pods[place].first)
    for place in sorted(order, key=lambda place: pods[place].evicted or 0.0):
        victim = pods[place]
        if victim.evicted is None:
            continue
        for other in order:
            if other not in heirs and pods[other].first > victim.evicted and _kind(pods[other].pod) == _kind(victim.pod):
                found.add(place)
                heirs.add(other)
                break
    return found


def _kind(pod: Pod) -> tuple[str, str, QoS]:
    """Return what a pod and the one that its controller makes in its place have in common. Controllers of Kubernetes put five random
    characters behind the name, a Deployment a hash of its template before them; where no controller is known, the name stays as it is."""
    name = pod.name
    if pod.owner in _RANDOM_NAMES:
        name = _RANDOM.sub("", name)
    return pod.namespace, name, pod.qos


def _names(observed: Observed) -> list[str]:
    """Return a name for each pod that no other has: events go by it, and a successor may bear its predecessor's."""
    own = {each.pod.name for each in observed.pods}
    names: dict[str, None] = {}
    for each in observed.pods:
        name, number = each.pod.name, 1
        while name in names or (number > 1 and name in own):
            number += 1
            name = f"{each.pod.name}-{number}"
        names[name] = None
    return list(names)


def _points(each: PodSeries, step: float, bound: Bound) -> Points:
    values = each.high if bound.is_high(each.pod.qos) else each.low
    points: list[tuple[float, float]] = []
    for number, value in enumerate(values):
        if not points or abs(value - points[-1][1]) >= _CHANGE:
            points.append(((each.begin + number) * step if number else 0.0, round(value, 3)))
    return tuple(points)


def _workload(each: PodSeries, name: str, file: str, begun: float) -> WorkloadSpec:
    pod = each.pod
    age = 0.0
    if not each.first:
        age = _OLDEST if pod.created is None else max(0.0, begun - pod.created)
    memory, age = _memory(each, age)
    limit = pod.cpu.limit
    request = pod.cpu.request if pod.cpu.request is None or limit is None else min(pod.cpu.request, limit)
    return WorkloadSpec(
        name=name,
        namespace=pod.namespace,
        qos=pod.qos,
        priority=pod.priority,
        critical=pod.critical,
        owner=pod.owner,
        labelled=pod.labelled,
        requests=Claims(cpu=request, memory=pod.memory.request),
        limits=Claims(cpu=limit or None),
        slo=Objective(p99=pod.latency.slo),
        cpus=len(pod.exclusive_cpus) if pod.qos is QoS.LSE else 0,
        cpu=CpuDemand(csv=file),
        memory=memory,
        service=_service(each) if is_latency_sensitive(pod.qos) else None,
        starts=each.first,
        age=age,
    )


def _memory(each: PodSeries, age: float) -> tuple[MemoryDemand, float]:
    """Return a straight line from what it held first to what it held last (a leak is one, and what goes up and down is its mean), and the
    pod's age at the beginning: the model's line begins at a pod's birth, and not below 0."""
    if each.memory is None:
        return MemoryDemand(start=0), age
    (begin, first), (end, last) = each.memory.first, each.memory.last
    if last <= first or end <= begin:
        return MemoryDemand(start=round(each.memory.total / each.memory.count)), age
    pace = (last - first) / (end - begin)  # bytes a second
    age = min(age, first / pace)
    return MemoryDemand(start=round(first - pace * age), growth=round(pace * 3600)), age


def _service(each: PodSeries) -> Service | None:
    """Return the queue whose p99, with nobody in its way, is the pod's own on a calm node."""
    p99 = each.own_p99()
    return None if p99 is None else Service(time=min(_LONGEST, max(_SHORTEST, p99 / _TAIL)))
