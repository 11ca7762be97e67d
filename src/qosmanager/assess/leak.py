"""When a leaking pod has used up what there is (specification, sections 3 and 13).

In: the pods' growth over three 10-minute windows. Out: for each that leaks, how long it lasts, between when and when, and how sure that is.
"""

from __future__ import annotations

import math

from msgspec.structs import replace

from qosmanager.config.settings import Settings
from qosmanager.model.assessment import Leak
from qosmanager.model.snapshot import Pod, Snapshot

MB = 1_000_000
_WARM_UP = 0.5  # a pod of which the second half grows by less than this share of the first is warming up


def leaks(snapshot: Snapshot, settings: Settings) -> tuple[Leak, ...]:
    """Return the leaking pods, the first to run out first; of equals by key."""
    growing = [pod for pod in snapshot.pods if _grows(pod, settings)]
    if not growing:
        return ()
    together = sum(pod.memory.growth or 0.0 for pod in growing if not _warms_up(pod))
    found = [_leak(pod, snapshot.node.memory_available, together) for pod in growing]
    return tuple(sorted(found, key=lambda leak: (math.inf if leak.seconds is None else leak.seconds, leak.pod)))


def _grows(pod: Pod, settings: Settings) -> bool:
    growth = pod.memory.growth
    return growth is not None and growth > settings.memory_evict.memory_growth_threshold * MB


def _leak(pod: Pod, available: int | None, together: float) -> Leak:
    """`together`: bytes/min by which all leaking pods grow; they share what is available."""
    memory = pod.memory
    growth = memory.growth or 0.0
    if _warms_up(pod):
        return Leak(pod=pod.key, growth=growth, warming_up=True)
    room = None if memory.limit is None or memory.rss is None else max(0, memory.limit - memory.rss)
    of_limit = math.inf if room is None else room / growth
    of_node = math.inf if available is None else available / together
    minutes = min(of_limit, of_node)
    if math.isinf(minutes):
        return Leak(pod=pod.key, growth=growth)
    leak = Leak(pod=pod.key, growth=growth, seconds=minutes * 60, own_limit=of_limit <= of_node)
    if memory.growth_before <= 0:
        return leak  # how steady it is was not told
    slow, fast = sorted((memory.growth_before, 2 * growth - memory.growth_before))
    return replace(leak, earliest=minutes * 60 * growth / fast, latest=minutes * 60 * growth / slow, confidence=slow / fast)


def _warms_up(pod: Pod) -> bool:
    before, growth = pod.memory.growth_before, pod.memory.growth
    return growth is not None and 2 * growth - before < _WARM_UP * before
