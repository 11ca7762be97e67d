"""One pod's counters made into a `Pod` (specification, section 3): cheap readings each cycle, dear ones every 5 or 10 s."""

from __future__ import annotations

from msgspec.structs import replace

from qosmanager.collect.conditions import Conditions, Missing, Pace
from qosmanager.collect.cpu_tracker import CpuTracker
from qosmanager.collect.latency_tracker import LatencyTracker
from qosmanager.collect.memory_tracker import MemoryTracker, ObservedTracker
from qosmanager.collect.metric_cache import PodHistory
from qosmanager.collect.readings import GroupReaders
from qosmanager.model.qos import QoS
from qosmanager.model.snapshot import Pod
from qosmanager.model.workload import Workload

MEMORY = 5.0  # seconds between two looks at memory
LIMITS = 10.0  # seconds between two looks at limits
OBSERVED = 10.0  # seconds between two looks at I/O and stall averages


class PodTracker:
    """Keeps a pod's files open and its counters between cycles."""

    def __init__(self, workload: Workload, readers: GroupReaders, history: PodHistory, missing: Missing, phase: float) -> None:
        """`missing`: where to say what is None; `phase` (above 0, up to 1) spreads the dear readings of many pods over their seconds."""
        self.workload = workload
        self._declared = _declared(workload)
        self._missing = missing
        self._reader = readers.open(workload.cgroup)
        self._cpu = CpuTracker(workload, self._reader, readers, history, self._missing)
        self._memory = MemoryTracker(self._reader, history, self._missing)
        self._observed = ObservedTracker(self._reader, self._missing)
        self._latency = LatencyTracker(history, self._missing)
        self._own_cpus: tuple[int, ...] = ()
        self._memory_pace = Pace(MEMORY, phase)
        self._limits_pace = Pace(LIMITS, phase)
        self._observed_pace = Pace(OBSERVED, phase)

    @property
    def lost_container(self) -> bool:
        """Whether a container has ended since the workload was looked at."""
        return self._cpu.lost_container

    def adopt(self, workload: Workload) -> None:
        """Take a changed declaration of the same group."""
        self.workload = workload
        self._declared = _declared(workload)
        self._cpu.adopt(workload)
        self._limits_pace.hasten()

    def close(self) -> None:
        """Let all descriptors go, and with them what was said of the pod."""
        self._missing.forget()
        self._cpu.close()
        self._reader.close()

    def sample(self, conditions: Conditions, throttled: dict[str, float]) -> Pod:
        """Measure now; container groups' throttled ratios go into `throttled`. Raises GroupGoneError when the pod has ended."""
        now = conditions.monotonic()
        thrift = conditions.thrift
        limits = now >= self._limits_pace.next and self._limits_pace.due(now, 2.0 if thrift >= 3 else 1.0)
        workload = self.workload
        cpu = self._cpu.sample(conditions, throttled, now=now, dear=limits)
        due = now >= self._memory_pace.next and self._memory_pace.due(now, 2.0 if thrift >= 3 else 1.0)
        if due or (conditions.memory_low and thrift < 3 and workload.qos is QoS.BE):
            self._memory.sample(workload, now, conditions)
        if now >= self._observed_pace.next and self._observed_pace.due(now, 2.0 if thrift >= 1 else 1.0):
            if thrift >= 2:
                self._observed.spare()
            else:
                # Read half as often, two reads are still no gap.
                self._observed.sample(now, conditions.gap * (1 + thrift), self._cpu.stall_average)
        if limits and workload.qos is QoS.LSE:
            own = self._missing.attempt(("exclusive_cpus",), self._reader.cpuset) or ()
            # A group with all CPUs of the node was given none of its own.
            self._own_cpus = own if len(own) < conditions.cpus else ()
        return replace(
            self._declared,
            exclusive_cpus=workload.exclusive_cpus or self._own_cpus,
            cpu=cpu,
            memory=self._memory.memory,
            latency=self._latency.sample(workload, now, conditions.latencies),
            observed=self._observed.observed,
        )


def _declared(workload: Workload) -> Pod:
    """Return what stays the same from cycle to cycle."""
    return Pod(
        name=workload.name,
        qos=workload.qos,
        namespace=workload.namespace,
        uid=workload.uid,
        priority=workload.priority,
        created=workload.created,
        critical=workload.critical,
        terminating=workload.terminating,
        owner=workload.owner,
        labelled=workload.labelled,
    )
