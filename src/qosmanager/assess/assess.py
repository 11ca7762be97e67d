"""One snapshot judged: the public function of this package (specification, section 4)."""

from __future__ import annotations

import statistics

from msgspec.structs import replace

from qosmanager.assess.latency import above_slo, rising, slo_signal
from qosmanager.assess.matrix import decision_matrix
from qosmanager.assess.oom_risk import oom_risk
from qosmanager.assess.pressure import cpu_pressure, io_pressure, memory_percent, memory_pressure
from qosmanager.assess.recollection import means, remember, smooth
from qosmanager.config.settings import Settings
from qosmanager.model.assessment import Assessment, MatrixInputs
from qosmanager.model.census import Census
from qosmanager.model.qos import Level
from qosmanager.model.snapshot import Snapshot
from qosmanager.model.state import State

_MEDIAN_OVER = 3.0  # seconds: one noisy sample does not count


def assess(state: State, snapshot: Snapshot, census: Census, settings: Settings) -> tuple[State, Assessment]:
    """Judge a snapshot. The effective level is the raw one here; decide() holds it back where it must."""
    node = snapshot.node
    cpu = cpu_pressure(node, census, settings)
    memory = memory_pressure(node, settings.memory_pressure)
    state = remember(state, snapshot, census, cpu.score)
    state = smooth(state, settings.smoothing.window, snapshot.time, cpu.score, memory.score)
    if (mean := means(state)) is not None:
        cpu, memory = replace(cpu, mean=mean[0]), replace(memory, mean=mean[1])
    climbing = tuple(pod.key for pod in census.ls if rising(pod))
    inputs = MatrixInputs(
        cpu_percent=(node.cpu_usage or 0.0) / node.cpus * 100,
        memory_percent=memory_percent(node) or 0.0,
        cpu_trend=node.cpu_trend or 0.0,
        latency_rising=bool(climbing),
    )
    matrix = decision_matrix(inputs)
    present, steady = _raw_levels(state, snapshot.time, settings, inputs, cpu.mean)
    ended = None if state.victim_ended is None or snapshot.time is None else snapshot.time - state.victim_ended
    return state, Assessment(
        cpu=cpu,
        memory=memory,
        io=io_pressure(node, settings.io_pressure),
        matrix=matrix,
        raw_level=present,
        steady_level=steady,
        effective_level=present,
        slo=slo_signal(census.ls),
        oom=oom_risk(node, settings.memory_evict.min_available, ended),
        latency_rising=climbing,
        slo_violated_by=tuple(pod.key for pod in census.ls if above_slo(pod)),
    )


def _raw_levels(state: State, now: float | None, settings: Settings, inputs: MatrixInputs, mean: float | None) -> tuple[Level, Level]:
    """Return the raw level (higher of score level and matrix priority) of this moment, and the one that a rise goes to.

    From CRITICAL on they are the same; below, the second is that of the medians of the last 3 s.
    """

    def level(score: float, percent: float) -> Level:
        priority = decision_matrix(replace(inputs, cpu_percent=percent)).priority
        return max(settings.cpu_pressure.level(score if mean is None else max(score, mean)), priority)

    present = level(state.recent[-1].cpu_score, inputs.cpu_percent)
    if present >= Level.CRITICAL:
        return present, present
    recent = [moment for moment in state.recent if now is None or now - moment.time < _MEDIAN_OVER]
    percents = [moment.cpu_percent for moment in recent if moment.cpu_percent is not None]
    median = level(statistics.median(moment.cpu_score for moment in recent), statistics.median(percents) if percents else 0.0)
    # A median that is still CRITICAL while this moment no longer is raises nothing further.
    return present, min(median, Level.HIGH)
