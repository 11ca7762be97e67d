"""Settings by name, to be merged under a user's own keys (specification, section 6)."""

from __future__ import annotations

from enum import Enum

from qosmanager.config.settings import (
    CpuBurstSettings,
    CpuEvictSettings,
    CpuSuppressSettings,
    IsolationSettings,
    Settings,
    Strategy,
    SuppressRatio,
    Switch,
    Thresholds,
)
from qosmanager.model.qos import Mode


class Preset(Enum):
    """What a node is tuned for."""

    LATENCY_FIRST = "latency-first"
    THROUGHPUT_FIRST = "throughput-first"
    BALANCED = "balanced"
    SLO_FIRST = "slo-first"


PRESETS: dict[Preset, Settings] = {
    Preset.LATENCY_FIRST: Settings(
        cpu_pressure=Thresholds(medium=50.0, high=65.0, critical=80.0),
        cpu_suppress=CpuSuppressSettings(suppress_ratio=SuppressRatio(medium=0.7, high=0.4, critical=0.2)),
        cpu_burst=CpuBurstSettings(burst_ratio=2.0, min_node_cpu_idle=0.15),
    ),
    Preset.THROUGHPUT_FIRST: Settings(
        cpu_pressure=Thresholds(medium=70.0, high=85.0, critical=95.0),
        cpu_suppress=CpuSuppressSettings(suppress_ratio=SuppressRatio(medium=0.9, high=0.7, critical=0.5)),
        cpu_evict=CpuEvictSettings(mode=Mode.OFF),
    ),
    Preset.BALANCED: Settings(),
    # What won where it was measured: docs/benchmarks.md, "Does it hold the objective".
    Preset.SLO_FIRST: Settings(
        cpu_suppress=CpuSuppressSettings(strategy=Strategy.SLO),
        isolation=IsolationSettings(services=Switch.AUTO, memory=Switch.AUTO, io=Switch.AUTO),
    ),
}
