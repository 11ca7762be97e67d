"""What a recording holds, without deciding it again (docs/record.md).

In: a recording. Out: `Summary`, which encodes to JSON.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from qosmanager.config.settings import Settings
from qosmanager.model.actions import KINDS, Evict
from qosmanager.record.decoder import Recorded
from qosmanager.record.elapsed import Elapsed
from qosmanager.record.reader import Part, Recording

_DAY = 86_400.0


class Gap(Struct, frozen=True):
    """No cycle is recorded between these two times (epoch seconds; the clock may have been set between them); the numbers of the cycles
    around it tell whether the agent ran on."""

    after: float
    until: float
    from_cycle: int
    to_cycle: int


class Eviction(Struct, frozen=True):
    """A pod that was evicted, or would have been in a mode that only observes: when (epoch seconds), by whom, why, what came of it."""

    wall: float
    pod: str
    plugin: str
    mode: str
    result: str
    reason: str


class Summary(Struct, frozen=True, kw_only=True):
    """Times in epoch seconds, sizes in bytes. `bytes_per_day` is that of the cycles recorded, at the pace at which they were; `settings`
    counts the configurations in force; `gaps` are stretches without a cycle longer than data may be old."""

    path: str
    parts: tuple[Part, ...]
    cycles: int
    begin: float | None
    end: float | None
    bytes: int
    bytes_per_day: float | None
    pods_least: int
    pods_most: int
    versions: tuple[str, ...]
    settings: int
    actions: dict[str, int]
    evictions: tuple[Eviction, ...]
    gaps: tuple[Gap, ...]


def summary(recording: Recording) -> Summary:
    """Read a recording through."""
    counts: list[int] = []
    actions: Counter[str] = Counter()
    evictions: list[Eviction] = []
    gaps: list[Gap] = []
    configurations: list[Settings] = []
    before = first = None
    elapsed, recorded = Elapsed(), 0.0  # seconds in which cycles were recorded
    for cycle in recording.outlines():
        first = first or cycle
        counts = [min(*counts, cycle.pods), max(*counts, cycle.pods)] if counts else [cycle.pods, cycle.pods]
        actions.update(KINDS[type(action)] for action in cycle.plan.actions)
        evictions += _evictions(cycle)
        if not configurations or configurations[-1] != cycle.settings:
            configurations.append(cycle.settings)
        away = elapsed.add(cycle)
        if before is not None and elapsed.gaps > len(gaps):
            gaps.append(Gap(before.wall, cycle.wall, before.number, cycle.number))
        else:
            recorded += away
        before = cycle
    size = sum(part.size for part in recording.parts)
    return Summary(
        path=str(recording.path),
        parts=tuple(recording.parts),
        cycles=sum(part.cycles for part in recording.parts),
        begin=first.wall if first else None,
        end=before.wall if before else None,
        bytes=size,
        bytes_per_day=size / recorded * _DAY if recorded else None,
        pods_least=counts[0] if counts else 0,
        pods_most=counts[1] if counts else 0,
        versions=tuple(dict.fromkeys(part.version for part in recording.parts if part.version)),
        settings=len(configurations),
        actions=dict(sorted(actions.items())),
        evictions=tuple(evictions),
        gaps=tuple(gaps),
    )


def _evictions(cycle: Recorded) -> list[Eviction]:
    found = []
    for number, action in enumerate(cycle.plan.actions):
        if not isinstance(action, Evict):
            continue
        results = [receipt.result.value for receipt in cycle.receipts if receipt.action == number]
        found.append(
            Eviction(cycle.wall, action.pod, action.plugin.value, action.mode.value, results[-1] if results else "", action.reason)
        )
    return found
