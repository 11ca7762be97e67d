"""What the engine remembers of its readings: the last seconds one by one, the smoothing window in slices (specification, section 4)."""

from __future__ import annotations

from itertools import pairwise

from msgspec.structs import replace

from qosmanager.assess.pressure import counted_use
from qosmanager.config.settings import Settings, Strategy
from qosmanager.model.census import Census, demand
from qosmanager.model.snapshot import Snapshot
from qosmanager.model.state import Bucket, Moment, State

_KEPT = 5.0  # seconds; the longest look back of a rule
_SLICES = 60
# Seconds by which the node's sample may be older than the pods': what the node used at one moment less what the pods use at another is
# nobody's usage. A sample held over a cycle is a period old, one of a slow cycle some hundredths.
_SAME_MOMENT = 0.5
_LEAST_WEIGHT = 0.01


def weights(recent: tuple[Moment, ...], period: float) -> list[float]:
    """Return how much each moment counts in a mean or a median over time: 1 where cycles follow at their period (seconds), less after a
    cycle that came early, so that a second counts as a second however many cycles fell into it."""
    counts = [1.0] * min(1, len(recent))
    for before, moment in pairwise(recent):
        span = moment.time - before.time
        counts.append(1.0 if span >= period / 2 else max(_LEAST_WEIGHT, span / period))
    return counts


def remember(state: State, snapshot: Snapshot, census: Census, cpu_score: float, settings: Settings) -> State:
    """Return the state with this cycle's readings added and those older than any rule looks back dropped."""
    node = snapshot.node
    use = counted_use(node, census, settings)
    granted = {burst.pod: burst.limit for burst in state.bursts if not burst.observed}
    demands = ((pod.key, demand(pod, granted.get(pod.key))) for pod in census.ls)
    wanted = {key: cores for key, cores in demands if cores is not None}
    follows = settings.cpu_suppress.strategy is Strategy.USAGE and len(wanted) == len(census.ls)
    moment = Moment(
        time=snapshot.time or 0.0,
        cpu_score=cpu_score,
        cpu_percent=None if use is None else use / node.cpus * 100,
        system_usage=census.system_usage(node.cpu_usage) if snapshot.node_age <= _SAME_MOMENT else None,
        demand=wanted,
        memory_available=node.memory_available if snapshot.node_age <= _SAME_MOMENT else None,
        ls_usage=census.ls_usage if follows else None,
    )
    # Without a time there is no past: every moment would look like now.
    past = () if snapshot.time is None else tuple(old for old in state.recent if 0 <= snapshot.time - old.time < _KEPT)
    recent = (*past, moment)
    counts = weights(recent, settings.sync_period)
    measured = [(count, old.system_usage) for count, old in zip(counts, recent, strict=True) if old.system_usage is not None]
    # While some pod or the node is not measured, what the system used last is kept; only a full measurement replaces it.
    system_usage = state.system_usage if moment.system_usage is None else _mean(measured)
    return replace(state, recent=recent, system_usage=system_usage)


def _mean(weighed: list[tuple[float, float]]) -> float:
    return sum(weight * value for weight, value in weighed) / sum(weight for weight, _ in weighed)


def median(weighed: list[tuple[float, float]]) -> float:
    """Return the value that half of the weight lies below; the mean of two where one half ends just between them. There is at least one."""
    ordered = sorted((value, weight) for weight, value in weighed)
    half = sum(weight for _, weight in ordered) / 2
    below = 0.0
    for place, (value, weight) in enumerate(ordered):
        below += weight
        if round(below - half, 9) == 0 and place + 1 < len(ordered):
            return (value + ordered[place + 1][0]) / 2
        if below > half:
            return value
    return ordered[-1][0]


def smooth(state: State, settings: Settings, now: float | None, cpu: float, memory: float) -> State:
    """Return the state with this cycle's scores in the smoothing window (of 0 seconds: forgotten); it is the last of `state.recent`."""
    window = settings.smoothing.window
    if window <= 0 or now is None:
        return replace(state, smoothing=())
    weight = weights(state.recent[-2:], settings.sync_period)[-1]
    cpu, memory = weight * cpu, weight * memory
    kept = [bucket for bucket in state.smoothing if 0 <= now - bucket.start < window]
    if kept and now - kept[-1].start < window / _SLICES:
        last = kept.pop()
        kept.append(Bucket(start=last.start, count=last.count + weight, cpu=last.cpu + cpu, memory=last.memory + memory))
    else:
        kept.append(Bucket(start=now, count=weight, cpu=cpu, memory=memory))
    return replace(state, smoothing=tuple(kept))


def means(state: State) -> tuple[float, float] | None:
    """Return the mean CPU and memory score over the smoothing window; None when smoothing is off."""
    count = sum(bucket.count for bucket in state.smoothing)
    if not count:
        return None
    return sum(bucket.cpu for bucket in state.smoothing) / count, sum(bucket.memory for bucket in state.smoothing) / count
