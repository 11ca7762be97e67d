"""How the LS pods fare, for strategy `slo` (specification, section 13).

In: the readings, and what each pod's calm was so far. Out: who suffers and by how much, how much slack the others have, and the calm
learned. A pod's stall is the share of its running time in which it waits for CPU that its own limit does not withhold.
"""

from __future__ import annotations

from math import exp

from msgspec.structs import replace

from qosmanager.config.settings import Settings, Strategy
from qosmanager.model.assessment import Suffering, Wellbeing
from qosmanager.model.census import Census, is_above
from qosmanager.model.qos import Mode, Plugin
from qosmanager.model.snapshot import Pod, Snapshot
from qosmanager.model.state import Objective, State

P99, STALL = "p99", "stall"
_FIRST_CALM = 0.05  # of a pod of which nothing is known yet
_MOST_CALM = 0.25  # what is above it is nobody's calm
_LEAST_USE = 0.02  # cores: of less, the share that waits is a matter of rounding
_TIMES_CALM, _MORE_THAN_CALM = 1.5, 0.1  # a stall is borne up to so many times the calm, and that much more
_SIGN_TIMES, _SIGN_MORE = 1.5, 0.02  # above it a pod waits for CPU that others have
_ROOM_TO_RISE = 0.9  # of the bound: from there on nothing is slack
_WELL = 0.8  # of its SLO
_LITTLE_BE = 0.02  # of the node's CPUs: so little BE keeps nobody waiting
_CALMS_IN, _STIRS_IN = 10.0, 60.0  # seconds in which two thirds of a difference are learned, downwards and upwards


def look_after(state: State, snapshot: Snapshot, census: Census, settings: Settings) -> tuple[State, Wellbeing | None]:
    """Judge each LS pod. None, and nothing remembered, where CPUSuppress has another strategy."""
    if settings.cpu_suppress.strategy is not Strategy.SLO or settings.mode(Plugin.CPU_SUPPRESS) is Mode.OFF:
        return replace(state, objective=Objective()), None
    known = state.objective.calm
    little = census.be_usage <= max(_LITTLE_BE * snapshot.node.cpus, settings.cpu_suppress.min_cores) and not census.unmeasured
    elapsed = _elapsed(state, snapshot, settings)
    down, up = (1 - exp(-elapsed / seconds) for seconds in (_CALMS_IN, _STIRS_IN))
    # Of a pod that cannot be judged now, what is known stays.
    calms = {pod.key: known[pod.key] for pod in census.ls if pod.key in known}
    suffering, unjudged, slack = [], [], 1.0
    for pod in census.ls:
        stalled = stall(pod)
        calm = known.get(pod.key, _FIRST_CALM)
        p99, slo = pod.latency.p99, pod.latency.slo
        if p99 is not None and slo is not None:
            measure, value, bound = P99, p99, slo
        elif stalled is not None:
            measure, value, bound = STALL, stalled, bearable(calm)
        else:
            if pod.cpu.usage is None or pod.cpu.usage >= _LEAST_USE:
                unjudged.append(pod.key)
            continue
        if is_above(value, bound):
            where = _elsewhere(pod, stalled, calm)
            suffering.append(Suffering(pod=pod.key, measure=measure, value=value, bound=bound, elsewhere=where))
        else:
            slack = min(slack, 1 - value / (_ROOM_TO_RISE * bound))
        if stalled is not None:
            # Whatever a pod waits that is well inside its SLO is its calm.
            free = little or (measure == P99 and value <= _WELL * bound)
            calms[pod.key] = calm if stalled > calm and not free else _learned(calm, stalled, down, up)
    wellbeing = Wellbeing(suffering=tuple(suffering), slack=max(0.0, slack), unjudged=tuple(unjudged))
    return replace(state, objective=replace(state.objective, calm=calms)), wellbeing


def stall(pod: Pod) -> float | None:
    """Return the share of its running time (0 to 1) that a pod waits for CPU that others have; None: not measured, or it hardly runs."""
    usage, wait = pod.cpu.usage, pod.cpu.wait
    if usage is None or wait is None or usage < _LEAST_USE:
        return None
    # A period in which its own limit throttled it may have been one long wait: none of that is another's doing.
    return max(0.0, min(1.0, wait / usage) - (pod.cpu.throttled or 0.0))


def bearable(calm: float) -> float:
    """Return the stall up to which a pod without a known latency bears it, a share of its running time."""
    return _TIMES_CALM * calm + _MORE_THAN_CALM


def _elsewhere(pod: Pod, stalled: float | None, calm: float) -> str:
    """Return why what a pod suffers is not BE's doing; empty: it may be, also where nothing tells whether the pod waits for CPU."""
    if pod.exclusive_cpus:
        return "its CPUs are its own"
    if stalled is None:
        return "" if pod.cpu.wait is None or pod.cpu.usage is None else f"it hardly runs: {pod.cpu.usage:.4g} cores"
    sign = _SIGN_TIMES * calm + _SIGN_MORE
    if is_above(stalled, sign):
        return ""
    return f"it waits for CPU that others have {stalled:.1%} of the time, {sign:.1%} or less is its calm"


def _learned(calm: float, stalled: float, down: float, up: float) -> float:
    """Return the calm after a stall; `down` and `up`: the share of a difference that is learned of one look."""
    return min(_MOST_CALM, calm + (stalled - calm) * (down if stalled < calm else up))


def _elapsed(state: State, snapshot: Snapshot, settings: Settings) -> float:
    """Return the seconds since the last cycle; 0 where there was none, or no time: nothing is learned of it."""
    if state.time is None or snapshot.time is None:
        return 0.0
    return min(max(0.0, snapshot.time - state.time), settings.stale_after)
