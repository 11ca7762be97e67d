"""The settings of one agent, frozen (specification, section 6).

Each field carries its unit, bounds and meaning in `Meta`; the parser, `config schema` and the reference are made from them. Field
names are snake_case here and camelCase in files (`rename="camel"`).
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from qosmanager.model.qos import Level, Mode, Plugin


def _meta(unit: str, doc: str, low: float | None = None, high: float | None = None, *, above: float | None = None) -> Meta:
    """Describe a field: unit (percent, ratio, cores, bytes, duration, MB/min, number), bounds inclusive, an exclusive one, meaning."""
    extra: dict[str, str | float] = {"unit": unit}
    if low is not None:
        extra["low"] = low
    if high is not None:
        extra["high"] = high
    if above is not None:
        extra["above"] = above
    return Meta(description=doc, extra=extra)


Percent = Annotated[float, _meta("percent", "a score threshold, 0 to 100", 0, 100)]
Ratio = Annotated[float, _meta("ratio", "share of the room that LS leaves", 0, 1)]
EvictThreshold = Annotated[float, _meta("percent", "the plugin acts above this score", 0, 100)]


class Strategy(Enum):
    """How CPUSuppress computes its limit: from LS requests and the level, from a node utilisation, or from how the LS pods fare."""

    PRESSURE = "pressure"
    USAGE = "usage"
    SLO = "slo"


class Policy(Enum):
    """What holds BE at its limit: a CFS quota, or a set of CPUs."""

    CFS_QUOTA = "cfsQuota"
    CPUSET = "cpuset"


class Trigger(Enum):
    """Whether CPUEvict needs score and SLO violation, or one of them."""

    BOTH = "both"
    EITHER = "either"


class VictimOrder(Enum):
    """First sort key among MemoryEvict's victims that do not leak."""

    RSS = "rss"
    PRIORITY = "priority"


class CpuIsolation(Enum):
    """How the kernel puts BE behind all others for CPU: `auto` is what was measured to serve best, today the smallest weight."""

    AUTO = "auto"
    IDLE = "idle"
    WEIGHT = "weight"
    OFF = "off"


class Switch(Enum):
    """Whether the agent uses a knob of the kernel where there is one."""

    AUTO = "auto"
    OFF = "off"


class Thresholds(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Lower bounds (inclusive) of MEDIUM, HIGH, CRITICAL and EMERGENCY; rising."""

    low: Percent = 40.0
    medium: Percent = 60.0
    high: Percent = 75.0
    critical: Percent = 90.0

    def level(self, score: float) -> Level:
        """Return the level of a score; compared after rounding to 9 digits."""
        score = round(score, 9)
        if score < self.low:
            return Level.LOW
        if score < self.medium:
            return Level.MEDIUM
        if score < self.high:
            return Level.HIGH
        return Level.CRITICAL if score < self.critical else Level.EMERGENCY


class Smoothing(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Mean of the scores over a window; 0 switches it off."""

    window: Annotated[float, _meta("duration", "window of the mean score; 0s is off, the usual value is 5m", 0, 3600)] = 0.0


class Hysteresis(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """When the effective level may fall."""

    margin: Annotated[float, _meta("percent", "points by which the score must be inside the lower level", 0, 20)] = 3.0
    hold: Annotated[float, _meta("duration", "how long a fall must have been possible", 0, 300)] = 3.0


class SystemReserved(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What the system keeps for itself at least."""

    cpu: Annotated[float, _meta("cores", "reserved CPU", 0)] = 0.0
    memory: Annotated[int, _meta("bytes", "reserved memory: taken off what is reported as BE's; no decision uses it", 0)] = 0


class SuppressRatio(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Share of the available CPU that BE gets at each effective level; not rising."""

    low: Ratio = 1.0
    medium: Ratio = 0.8
    high: Ratio = 0.5
    critical: Ratio = 0.3
    emergency: Ratio = 0.1

    def of(self, level: Level) -> float:
        """Return the ratio at a level."""
        return (self.low, self.medium, self.high, self.critical, self.emergency)[level.rank]


class IsolationSettings(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What NodeQOSResource keeps in the kernel, whatever a cycle decides."""

    cpu: Annotated[CpuIsolation, _meta("", "BE behind all others: auto and weight: the smallest weight; idle: cpu.idle; off: neither")] = (
        CpuIsolation.AUTO
    )
    services: Annotated[Switch, _meta("", "LS groups of workload files: a weight by request, and a kernel burst of one limit")] = Switch.OFF
    memory: Annotated[Switch, _meta("", "v2: memory.low for LS by request; memory.high for BE while memory is short")] = Switch.OFF
    io: Annotated[Switch, _meta("", "the smallest I/O weight for BE; a limit in bytes/s while services wait for I/O")] = Switch.OFF


class NodeQosResourceSettings(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """NodeQOSResource."""

    mode: Annotated[Mode, _meta("", "off, observe or enforce")] = Mode.ENFORCE


class SystemQosResourceSettings(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """SystemQOSResource."""

    mode: Annotated[Mode, _meta("", "off, observe or enforce")] = Mode.ENFORCE


class CpuBurstSettings(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """CPUBurst."""

    mode: Annotated[Mode, _meta("", "off, observe or enforce")] = Mode.ENFORCE
    burst_ratio: Annotated[float, _meta("number", "raised limit as a multiple of the pod's own", 1, 4)] = 1.5
    burst_duration: Annotated[float, _meta("duration", "longest burst", 1, 600)] = 10.0
    burst_cooldown: Annotated[float, _meta("duration", "pause of a pod after its burst", 0, 3600)] = 30.0
    min_node_cpu_idle: Annotated[float, _meta("ratio", "no burst when less of the node is idle", 0, 0.5)] = field(
        default=0.2, name="minNodeCPUIdle"
    )


class CpuSuppressSettings(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """CPUSuppress."""

    mode: Annotated[Mode, _meta("", "off, observe or enforce")] = Mode.ENFORCE
    suppress_ratio: SuppressRatio = SuppressRatio()
    strategy: Annotated[
        Strategy,
        _meta("", "pressure: from LS requests and the level; usage: towards targetUtilization; slo: all that LS pods do not suffer from"),
    ] = Strategy.PRESSURE
    target_utilization: Annotated[float, _meta("ratio", "node utilisation aimed at by strategy usage", 0.1, 1)] = 0.65
    policy: Annotated[Policy, _meta("", "cfsQuota: a quota; cpuset: whole CPUs")] = Policy.CFS_QUOTA
    min_cores: Annotated[float, _meta("cores", "BE never gets less", 0.01, 8)] = 0.1
    relax_step: Annotated[float, _meta("ratio", "rise per second, as a share of the node's CPUs", 0.01, 1)] = 0.1


class CpuEvictSettings(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """CPUEvict."""

    mode: Annotated[Mode, _meta("", "off, observe or enforce")] = Mode.ENFORCE
    evict_threshold: EvictThreshold = 90.0
    evict_cooldown: Annotated[float, _meta("duration", "pause after an eviction that happened", 1, 3600)] = 60.0
    trigger: Annotated[Trigger, _meta("", "both: score and SLO violation; either: one of them")] = Trigger.BOTH


class MemoryEvictSettings(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """MemoryEvict."""

    mode: Annotated[Mode, _meta("", "off, observe or enforce")] = Mode.ENFORCE
    evict_threshold: EvictThreshold = 85.0
    min_available: Annotated[float, _meta("ratio", "acts when less of the node's memory is available", 0, 0.5)] = 0.1
    memory_growth_threshold: Annotated[float, _meta("MB/min", "a pod that grows faster is leaking", above=0)] = 5.0
    oom_score_adjust: Annotated[int, _meta("number", "oom_score_adj of BE processes", -1000, 1000)] = 1000
    target_utilization: Annotated[float, _meta("ratio", "memory use that evictions aim at", 0.5, 0.95)] = 0.8
    termination_timeout: Annotated[float, _meta("duration", "a victim that takes longer no longer holds back the next", 1, 600)] = 30.0
    order: Annotated[VictimOrder, _meta("", "rss: largest first; priority: lowest priority first")] = VictimOrder.RSS


class FastPathSettings(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Cycles before their turn, when the stall of a service jumps."""

    enabled: Annotated[bool, _meta("", "read the services' stalls between cycles, and run one at once when one jumps")] = True
    interval: Annotated[float, _meta("duration", "time between two reads", 0.02, 1)] = 0.1
    max_per_second: Annotated[int, _meta("number", "cycles before their turn, at most", 1, 10)] = 5


class ForecastSettings(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What services want by time of day. It only ever tightens."""

    mode: Annotated[Mode, _meta("", "off: nothing is learned; observe: learned and shown; enforce: BE leaves what is foretold free")] = (
        Mode.OBSERVE
    )


class Settings(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """All of `qosManager:`."""

    sync_period: Annotated[float, _meta("duration", "length of a cycle", 0.1, 60)] = 1.0
    cpu_pressure: Thresholds = Thresholds()
    memory_pressure: Thresholds = Thresholds(low=50.0, medium=70.0, high=80.0, critical=90.0)
    io_pressure: Thresholds = Thresholds()
    smoothing: Smoothing = Smoothing()
    hysteresis: Hysteresis = Hysteresis()
    ls_request_floor: Annotated[
        float, _meta("ratio", "the LS request counts as at least this share of the CPUs; 0: the literal ratio", 0, 1)
    ] = 0.25
    evict_unlabelled: Annotated[bool, _meta("", "evict BestEffort pods without a QoS label too")] = False
    eviction_budget: Annotated[int, _meta("number", "on Kubernetes, at most so many evictions of this node's pods in an hour", 1, 1000)] = (
        10
    )
    system_reserved: SystemReserved = SystemReserved()
    fast_path: FastPathSettings = FastPathSettings()
    forecast: ForecastSettings = ForecastSettings()
    cpu_burst: CpuBurstSettings = CpuBurstSettings()
    cpu_suppress: CpuSuppressSettings = CpuSuppressSettings()
    cpu_evict: CpuEvictSettings = CpuEvictSettings()
    memory_evict: MemoryEvictSettings = MemoryEvictSettings()
    node_qos_resource: NodeQosResourceSettings = field(default=NodeQosResourceSettings(), name="nodeQOSResource")
    system_qos_resource: SystemQosResourceSettings = field(default=SystemQosResourceSettings(), name="systemQOSResource")
    isolation: IsolationSettings = IsolationSettings()
    plugins: Annotated[tuple[Plugin, ...], _meta("", "plugins that run; the order is always that of the specification")] = tuple(Plugin)

    def mode(self, plugin: Plugin) -> Mode:
        """Return what a plugin may do: its own mode, and off when `plugins` leaves it out."""
        return _MODE_OF[plugin](self) if plugin in self.plugins else Mode.OFF

    def observing(self) -> Settings:
        """Return the same with every plugin that acts only observing: a dry run decides on what is in force, which is nothing of its own
        (section 9). The two that only count resources go on as they are; nothing waits for what their knobs would bring."""
        acting = ("cpu_burst", "cpu_suppress", "cpu_evict", "memory_evict")
        parts = {name: getattr(self, name) for name in acting}
        observed = {name: replace(part, mode=Mode.OBSERVE) for name, part in parts.items() if part.mode is Mode.ENFORCE}
        return replace(self, isolation=replace(self.isolation, memory=Switch.OFF, io=Switch.OFF), **observed)

    @property
    def leaves_be_out(self) -> bool:
        """Whether what BE uses is no pressure: it makes way by its limit, which follows the LS pods themselves (sections 4 and 13)."""
        return self.cpu_suppress.strategy is not Strategy.PRESSURE and self.mode(Plugin.CPU_SUPPRESS) is not Mode.OFF

    @property
    def stale_after(self) -> float:
        """Age in seconds above which a node sample is not used (section 2)."""
        return max(3.0, 3 * self.sync_period)


_MODE_OF = {
    Plugin.NODE_QOS_RESOURCE: lambda s: s.node_qos_resource.mode,
    Plugin.SYSTEM_QOS_RESOURCE: lambda s: s.system_qos_resource.mode,
    Plugin.CPU_BURST: lambda s: s.cpu_burst.mode,
    Plugin.CPU_SUPPRESS: lambda s: s.cpu_suppress.mode,
    Plugin.CPU_EVICT: lambda s: s.cpu_evict.mode,
    Plugin.MEMORY_EVICT: lambda s: s.memory_evict.mode,
}
