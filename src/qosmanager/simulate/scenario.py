"""What a scenario file may hold, as types; `documents.reader` reads it by them (docs/simulate.md).

Amounts are of each pod: a workload with `count: 8` and `cpu: {constant: 2}` wants 16 cores in all.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from msgspec import Meta, Struct

from qosmanager.config.settings import Strategy
from qosmanager.model.qos import QoS


def _meta(doc: str, unit: str = "", low: float | None = None, high: float | None = None, *, above: float | None = None) -> Meta:
    """Describe a field: meaning, unit, bounds inclusive, an exclusive lower one."""
    bounds = {"low": low, "high": high, "above": above}
    given = {name: bound for name, bound in bounds.items() if bound is not None}
    return Meta(description=doc, extra={"unit": unit, **given} if unit else {})


_LONGEST = 366 * 86400.0

Moment = Annotated[float, _meta("from the beginning of the run", "duration", 0, _LONGEST)]
Span = Annotated[float, _meta("a length of time", "duration", above=0, high=_LONGEST)]
Cores = Annotated[float, _meta("CPU", "cores", 0, 8192)]
Bytes = Annotated[int, _meta("an amount", "bytes", 0)]


class Layout(Enum):
    """How the groups lie and what they weigh before any agent comes."""

    PLAIN = "plain"
    KUBERNETES = "kubernetes"


class Does(Enum):
    """What an event does to a workload."""

    SLOW = "slow"
    STOP = "stop"
    START = "start"


class Agent(Enum):
    """Which run is meant: the one with the agent, or the one without."""

    ON = "with"
    OFF = "without"


class Weights(Enum):
    """Whether the agent puts BE behind the services in the kernel, by the smallest weight or cpu.idle."""

    ON = "with"
    OFF = "without"


class Measure(Enum):
    """What an expectation looks at, over its time; see docs/simulate.md for each."""

    OVER_SLO = "over_slo"
    LONGEST_OVER_SLO = "longest_over_slo"
    WITHIN_SLO = "within_slo"
    WORST_P99 = "worst_p99"
    MEDIAN_P99 = "median_p99"
    P99_RATIO = "p99_ratio"
    LS_CORES = "ls_cores"
    BE_CORES = "be_cores"
    BE_LIMIT = "be_limit"
    LEAST_BE_LIMIT = "least_be_limit"
    NODE_USE = "node_use"
    IDLE_CORES = "idle_cores"
    EVICTIONS = "evictions"
    OOM_KILLS = "oom_kills"
    REVERSALS = "reversals"
    BURSTS = "bursts"
    BURST_LIMIT = "burst_limit"
    LONGEST_BURST = "longest_burst"
    LEAK_NAMED = "leak_named"


class Machine(Struct, frozen=True, kw_only=True):
    """The node."""

    cpus: Annotated[float, _meta("CPUs; not a whole number where a quota holds the node itself", "number", 0.1, 8192)]
    memory: Annotated[int, _meta("memory", "bytes", 1 << 20)] = 64 << 30
    swap: Annotated[int, _meta("swap space", "bytes", 0)] = 0
    system_memory: Annotated[int, _meta("memory that the system holds", "bytes", 0)] = 1 << 30
    system_cpu: Annotated[float, _meta("CPU that the system uses", "cores", 0, 8192)] = 0.1
    disk: Annotated[int, _meta("bytes a second that the disk takes", "bytes", 1)] = 500_000_000
    layout: Annotated[Layout, _meta("plain: services.slice and batch.slice of equal weight; kubernetes: kubelet's tree and weights")] = (
        Layout.PLAIN
    )
    start: Annotated[float, _meta("time of day at the beginning", "duration", 0, 86400)] = 0.0


class Step(Struct, frozen=True, kw_only=True):
    """From `at` on it is `value`, reached in a straight line that takes `over`."""

    at: Moment
    value: Cores
    over: Annotated[float, _meta("length of the way to it", "duration", 0, _LONGEST)] = 0.0


class Hour(Struct, frozen=True, kw_only=True):
    """From this hour of each day on."""

    hour: Annotated[float, _meta("hour of day", "number", 0, 24)]
    value: Cores


class Burst(Struct, frozen=True, kw_only=True):
    """For a short time it is `value` instead, once or again and again."""

    first: Moment
    length: Span
    value: Cores
    every: Annotated[float | None, _meta("time from one beginning to the next; without it there is one", "duration", above=0)] = None


class CpuDemand(Struct, frozen=True, kw_only=True):
    """What each pod would use if nobody kept it waiting, in cores: one of constant, steps, daily and csv, and bursts on top."""

    constant: Cores | None = None
    steps: tuple[Step, ...] = ()
    daily: tuple[Hour, ...] = ()
    csv: Annotated[str | None, _meta("file with the columns `seconds` and `cores`, beside the scenario")] = None
    bursts: tuple[Burst, ...] = ()
    noise: Annotated[float, _meta("standard deviation of each second's value, as a share of it", "ratio", 0, 1)] = 0.0


class MemoryDemand(Struct, frozen=True, kw_only=True):
    """What each pod holds: `start` bytes, growing; with `peak` and `every` a saw-tooth; `cache` is page cache, which can be taken away."""

    start: Bytes = 64 << 20
    growth: Annotated[int, _meta("bytes more each hour", "bytes", 0)] = 0
    peak: Annotated[int | None, _meta("a saw-tooth rises to this", "bytes", 0)] = None
    every: Annotated[float, _meta("length of one tooth", "duration", above=0)] = 600.0
    cache: Bytes = 0

    @property
    def moves(self) -> bool:
        """Whether it is not the same all the time."""
        return self.growth > 0 or self.peak is not None


class IoDemand(Struct, frozen=True, kw_only=True):
    """What each pod asks of the disk: `rate` bytes a second, from `begin` on, for `length` or for ever."""

    rate: Bytes = 0
    begin: Annotated[float, _meta("from when on", "duration", 0)] = 0.0
    length: Annotated[float | None, _meta("for how long", "duration", above=0)] = None


class Service(Struct, frozen=True, kw_only=True):
    """A queue of requests. Arrivals are random at the rate that makes `cpu`; each takes `time` of CPU on average (exponential)."""

    time: Annotated[float, _meta("CPU of one request", "duration", above=0, high=60)] = 0.01
    threads: Annotated[int, _meta("requests at work at the same time", "number", 1, 100000)] = 256
    timeout: Annotated[float, _meta("a request that waits longer is given up", "duration", above=0, high=3600)] = 5.0
    io: Annotated[bool, _meta("its requests wait for the disk")] = False


class Claims(Struct, frozen=True, kw_only=True):
    """Requests, or limits."""

    cpu: Annotated[float | None, _meta("CPU", "cores", 0)] = None
    memory: Annotated[int | None, _meta("memory", "bytes", 0)] = None


class Objective(Struct, frozen=True, kw_only=True):
    """What is aimed at."""

    p99: Annotated[float | None, _meta("99th percentile of latency", "duration", above=0)] = None


class WorkloadSpec(Struct, frozen=True, kw_only=True):
    """`count` pods of one kind."""

    name: str
    qos: QoS
    namespace: str = "default"
    count: Annotated[int, _meta("pods of this kind, named NAME-0, NAME-1 ...", "number", 1, 1000)] = 1
    priority: Annotated[int, _meta("of two pods the lower goes first", "number", -(2**31), 2**31 - 1)] = 0
    critical: bool = False
    owner: Annotated[str | None, _meta("kind of the controller; pods of a DaemonSet or Node are never evicted")] = None
    labelled: Annotated[bool, _meta("false: a BE pod without a QoS label of its own, evicted only with evictUnlabelled")] = True
    requests: Claims = Claims()
    limits: Claims = Claims()
    slo: Objective = Objective()
    weight: Annotated[int | None, _meta("cpu.shares of each pod; without it that of the layout", "number", 2, 262144)] = None
    cpus: Annotated[int, _meta("CPUs that each pod has for itself (LSE)", "number", 0, 8192)] = 0
    cpu: CpuDemand = CpuDemand()
    memory: MemoryDemand = MemoryDemand()
    io: IoDemand = IoDemand()
    service: Annotated[Service | None, _meta("a queue of requests; without it the pod computes all the time")] = None
    ending: Annotated[float, _meta("time a pod takes to end when asked to", "duration", 0, 3600)] = 2.0
    grace: Annotated[float, _meta("grace period", "duration", 0, 3600)] = 30.0
    comes_back: Annotated[float | None, _meta("an ended pod comes back after this time; without it, never", "duration", 0)] = None
    starts: Annotated[float, _meta("when its pods come", "duration", 0, _LONGEST)] = 0.0
    age: Annotated[float, _meta("age of its pods at the beginning", "duration", 0)] = 86400.0

    @property
    def pods(self) -> tuple[str, ...]:
        """The names of its pods."""
        return tuple(f"{self.name}-{number}" for number in range(self.count)) if self.count > 1 else (self.name,)


class Event(Struct, frozen=True, kw_only=True):
    """Something that happens to a workload: slow adds `by` to every request `during` a time; stop ends its pods; start brings them back."""

    at: Moment
    do: Does
    workload: str
    by: Annotated[float, _meta("latency added", "duration", 0, 3600)] = 0.0
    during: Annotated[float, _meta("for how long", "duration", above=0)] = 60.0


class Expectation(Struct, frozen=True, kw_only=True):
    """A measure, over the time between `after` and `before`, and its bounds."""

    measure: Measure
    at_least: float | None = None
    at_most: float | None = None
    workload: Annotated[str | None, _meta("of this workload alone")] = None
    after: Moment = 0.0
    before: Annotated[float | None, _meta("without it, the end", "duration", above=0)] = None
    agent: Annotated[Agent, _meta("of the run with the agent, or the one without")] = Agent.ON
    strategy: Annotated[Strategy | None, _meta("only where CPUSuppress has this strategy")] = None
    weights: Annotated[
        Weights | None, _meta("with: only where the agent puts BE behind the services (nodeQOSResource); without: only where it does not")
    ] = None
    claim: Annotated[bool, _meta("measured and shown, but not reached and not demanded")] = False
    why: str = ""


class Scenario(Struct, frozen=True, kw_only=True):
    """The whole file."""

    about: str
    duration: Annotated[float, _meta("length of the run", "duration", 0.1, _LONGEST)]
    node: Machine
    workloads: tuple[WorkloadSpec, ...]
    events: tuple[Event, ...] = ()
    expect: tuple[Expectation, ...] = ()
