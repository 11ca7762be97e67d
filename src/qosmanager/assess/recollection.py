"""What the engine remembers of its readings: the last seconds one by one, the smoothing window in slices (specification, section 4)."""

from __future__ import annotations

from msgspec.structs import replace

from qosmanager.model.census import Census, demand
from qosmanager.model.snapshot import Snapshot
from qosmanager.model.state import Bucket, Moment, State

_KEPT = 5.0  # seconds; the longest look back of a rule
_SLICES = 60
# Seconds by which the node's sample may be older than the pods': what the node used at one moment less what the pods use at another is
# nobody's usage. A sample held over a cycle is a period old, one of a slow cycle some hundredths.
_SAME_MOMENT = 0.5


def remember(state: State, snapshot: Snapshot, census: Census, cpu_score: float) -> State:
    """Return the state with this cycle's readings added and those older than any rule looks back dropped."""
    node = snapshot.node
    granted = {burst.pod: burst.limit for burst in state.bursts if not burst.observed}
    demands = ((pod.key, demand(pod, granted.get(pod.key))) for pod in census.ls)
    moment = Moment(
        time=snapshot.time or 0.0,
        cpu_score=cpu_score,
        cpu_percent=None if node.cpu_usage is None else node.cpu_usage / node.cpus * 100,
        system_usage=census.system_usage(node.cpu_usage) if snapshot.node_age <= _SAME_MOMENT else None,
        demand={key: cores for key, cores in demands if cores is not None},
    )
    # Without a time there is no past: every moment would look like now.
    past = () if snapshot.time is None else tuple(old for old in state.recent if 0 <= snapshot.time - old.time < _KEPT)
    recent = (*past, moment)
    measured = [old.system_usage for old in recent if old.system_usage is not None]
    # While some pod or the node is not measured, what the system used last is kept; only a full measurement replaces it.
    system_usage = sum(measured) / len(measured) if measured and moment.system_usage is not None else state.system_usage
    return replace(state, recent=recent, system_usage=system_usage)


def smooth(state: State, window: float, now: float | None, cpu: float, memory: float) -> State:
    """Return the state with this cycle's scores in the smoothing window (`window` in seconds; 0 forgets it)."""
    if window <= 0 or now is None:
        return replace(state, smoothing=())
    kept = [bucket for bucket in state.smoothing if 0 <= now - bucket.start < window]
    if kept and now - kept[-1].start < window / _SLICES:
        last = kept.pop()
        kept.append(Bucket(start=last.start, count=last.count + 1, cpu=last.cpu + cpu, memory=last.memory + memory))
    else:
        kept.append(Bucket(start=now, count=1, cpu=cpu, memory=memory))
    return replace(state, smoothing=tuple(kept))


def means(state: State) -> tuple[float, float] | None:
    """Return the mean CPU and memory score over the smoothing window; None when smoothing is off."""
    count = sum(bucket.count for bucket in state.smoothing)
    if not count:
        return None
    return sum(bucket.cpu for bucket in state.smoothing) / count, sum(bucket.memory for bucket in state.smoothing) / count
