"""What the trackers share: the conditions of a cycle, the pace of what is not done in each, and notes on what was not measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeVar

from msgspec import Struct

from qosmanager.ports import Earlier, Latencies

T = TypeVar("T")

OwnLimit = Callable[[str], float | None]
"""The limit in cores that a group had before a burst of ours raised it (infinity: none); None: we have not touched it."""


class Conditions(Struct, frozen=True, kw_only=True):
    """`growth_threshold` in bytes/min; `gap`: seconds over which no rate is taken; `wall`: epoch seconds; `cpus`: the node's; `thrift`:
    how many of `own_use.STEPS` are in force; `early`: this cycle comes before its turn; `hurried`: the pods (keys) for whose sake, as they
    were before `hurried_at` (monotonic); `memory_low`: so little of the node's memory is available that what BE holds is read in each
    cycle."""

    wall: float
    cpus: float
    gap: float
    growth_threshold: float
    monotonic: Callable[[], float]
    own_limit: OwnLimit
    latencies: Latencies
    thrift: int = 0
    hurried: Mapping[str, Earlier] = {}
    hurried_at: float = 0.0
    early: bool = False
    memory_low: bool = False


class Pace:
    """Says when something is due that is not done in each cycle: at once, then after period x phase, then each period (seconds).

    The moments lie on a grid: what is spread over the cycles stays spread, however late a cycle begins.
    """

    __slots__ = ("_period", "_phase", "next")

    def __init__(self, period: float, phase: float) -> None:
        self._period = period
        self._phase = phase
        self.next = -math.inf  # before this moment it is not due

    def due(self, now: float, stretch: float = 1.0) -> bool:
        """Tell whether it is due now, and count it as done; the next time is `stretch` times as far away as usual."""
        if now < self.next:
            return False
        if self.next == -math.inf:
            self.next = now + self._period * self._phase
            return True
        step = self._period * stretch
        # Also after a long stop: what is late together must not stay together.
        self.next += step * (math.floor((now - self.next) / step) + 1)
        return True

    def hasten(self) -> None:
        """Have it due at once."""
        self.next = -math.inf


class Missing:
    """Why readings of one pod are None: field ("cpu.wait") to reason, kept between cycles."""

    __slots__ = ("_prefix", "_reasons", "_told")

    def __init__(self, key: str, reasons: dict[str, str]) -> None:
        """`reasons`: those of all pods, by the snapshot's names; one dictionary, for joining a hundred each cycle costs."""
        self._prefix = f"pods.{key}."
        self._told: dict[str, str] = {}  # by field: most is told again unchanged, each cycle
        self._reasons = reasons

    def note(self, field: str, reason: str) -> None:
        """Say why a field is None; "": it is measured."""
        if self._told.get(field, "") == reason:
            return
        self._told[field] = reason
        if reason:
            self._reasons[self._prefix + field] = reason
        else:
            self._reasons.pop(self._prefix + field, None)

    def forget(self) -> None:
        """Say no more of this pod."""
        for field in self._told:
            self._reasons.pop(self._prefix + field, None)
        self._told.clear()

    def attempt(self, fields: tuple[str, ...], reading: Callable[[], T]) -> T | None:
        """Return what `reading` returns, or None with the reason under each field. GroupGoneError goes through."""
        reason = ""
        value = None
        try:
            value = reading()
        except (OSError, ValueError) as error:
            reason = why(error)
        for field in fields:
            self.note(field, reason)
        return value


def why(error: OSError | ValueError) -> str:
    """Return the reason that people are shown for a reading that failed."""
    if isinstance(error, OSError) and error.filename:
        return f"{error.strerror}: {error.filename}"
    return str(error)
