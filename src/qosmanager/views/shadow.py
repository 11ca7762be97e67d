"""What another configuration would do on the same readings, for /status and /metrics: told, never done (docs/record.md)."""

from __future__ import annotations

from msgspec import Struct


class Victim(Struct, frozen=True, kw_only=True):
    """A pod that it would have evicted: when (ISO 8601), by which plugin, why."""

    time: str
    pod: str
    plugin: str
    reason: str


class ShadowView(Struct, frozen=True, kw_only=True):
    """Another configuration beside the one in force, from cycle to cycle with a state of its own that takes for done whatever it decides.

    `level` and `be_limit` (cores; null: none) are those it has come to, `differences` what it decides otherwise in the last cycle, in
    words; `differing` counts the cycles with any. `evicted` are the last pods that it would have evicted, `evictions` counts them by
    plugin, `limits` how often it would have set the BE limit, `bursts` how often raised an LS limit. `failure`: why it is not decided any
    more.
    """

    config: str
    cycles: int
    differing: int
    level: str
    be_limit: float | None
    differences: tuple[str, ...]
    evictions: dict[str, int]
    evicted: tuple[Victim, ...]
    limits: int
    bursts: int
    failure: str = ""
