"""What the agent itself uses, and how far it reads less when that is too much: it must not become the load it guards against."""

from __future__ import annotations

from msgspec import Struct

STEPS = (
    "I/O and stall averages of pods, which are only shown, are read half as often",
    "I/O and stall averages of pods are not read",
    "memory and limits of pods are read half as often",
)
"""What is read less, in this order, each step on top of those before it. CPU use, waiting and throttling, the node, who runs here and
latencies are never spared: every decision rests on them."""


class OwnUse(Struct, frozen=True, kw_only=True):
    """The agent in one cycle: `cpu` in cores since the cycle before, `rss` in bytes, `lag` in seconds by which the cycle began late.

    `thrift` is how many of STEPS are in force, `reason` why (the budget and what was used instead), "" when none is. None: not measured.
    """

    cpu: float | None = None
    rss: int | None = None
    lag: float | None = None
    thrift: int = 0
    reason: str = ""
