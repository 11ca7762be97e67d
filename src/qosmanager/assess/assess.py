"""One snapshot judged: the public function of this package (specification, section 4)."""

from __future__ import annotations

from msgspec.structs import replace

from qosmanager.assess.latency import above_slo, rising, slo_signal
from qosmanager.assess.leak import leaks
from qosmanager.assess.matrix import decision_matrix
from qosmanager.assess.oom_risk import oom_risk
from qosmanager.assess.pressure import counted_use, cpu_pressure, guard_pressure, io_pressure, memory_percent, memory_pressure
from qosmanager.assess.recollection import means, median, remember, smooth, weights
from qosmanager.assess.suffering import look_after
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
    guard = guard_pressure(node, census, settings) if settings.leaves_be_out else cpu
    memory = memory_pressure(node, settings.memory_pressure)
    state = remember(state, snapshot, census, guard.score, settings)
    state = smooth(state, settings, snapshot.time, guard.score, memory.score)
    if (mean := means(state)) is not None:
        guard, memory = replace(guard, mean=mean[0]), replace(memory, mean=mean[1])
    climbing = tuple(pod.key for pod in census.ls if rising(pod))
    inputs = MatrixInputs(
        cpu_percent=(counted_use(node, census, settings) or 0.0) / node.cpus * 100,
        memory_percent=memory_percent(node) or 0.0,
        cpu_trend=node.cpu_trend or 0.0,
        latency_rising=bool(climbing),
        without_be=settings.leaves_be_out,
    )
    matrix = decision_matrix(inputs)
    present, steady = _raw_levels(state, snapshot.time, settings, inputs, guard.mean)
    state, wellbeing = look_after(state, snapshot, census, settings)
    ended = None if state.victim_ended is None or snapshot.time is None else snapshot.time - state.victim_ended
    return state, Assessment(
        cpu=cpu if settings.leaves_be_out else guard,
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
        guard=guard if settings.leaves_be_out else None,
        leaks=leaks(snapshot, settings),
        wellbeing=wellbeing,
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
    weighed = zip(weights(state.recent, settings.sync_period), state.recent, strict=True)
    recent = [(weight, moment) for weight, moment in weighed if now is None or now - moment.time < _MEDIAN_OVER]
    percents = [(weight, moment.cpu_percent) for weight, moment in recent if moment.cpu_percent is not None]
    steady = level(median([(weight, moment.cpu_score) for weight, moment in recent]), median(percents) if percents else 0.0)
    # A median that is still CRITICAL while this moment no longer is raises nothing further.
    return present, min(steady, Level.HIGH)
