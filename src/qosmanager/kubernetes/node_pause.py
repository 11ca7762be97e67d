"""A pause that the node's annotation asks for (specification, section 2): `qosmanager.io/pause`, a duration or a time.

In: the annotation's text. Out: the `Pauses` port. A duration counts from when an agent first saw it, which outlives the agent: to pause
again for as long, the annotation is removed first, or says it in other words (60m, 1h).
"""

from __future__ import annotations

import re

from qosmanager.documents.problem import printable
from qosmanager.documents.quantities import Rule, number
from qosmanager.kubernetes.memory import AgentMemory
from qosmanager.model.pause import Pause
from qosmanager.ports import Clock, Pauses

PAUSE = "qosmanager.io/pause"
_LONGEST = 7 * 24 * 3600.0  # seconds, as for `qosmanager pause`
_DURATION, _TIME = Rule(unit="duration", low=1, high=_LONGEST), Rule(unit="time")
_NUMBER = re.compile(r"[-+.0-9eE]+")
_ALLOWED = "a duration from 1s to 168h (30m) or a time not further away (2026-11-11T20:00:00Z)"


class NodePause:
    """What was last taken is in force until its time is over."""

    def __init__(self, memory: AgentMemory, boot_id: str, clock: Clock) -> None:
        self.problem = ""  # why the annotation pauses nothing, for people
        self._memory = memory
        self._boot_id = boot_id
        self._clock = clock
        self._pause: Pause | None = None

    def take(self, text: str | None) -> None:
        """Take what the annotation says; None: it is not there."""
        try:
            self._pause, self.problem = self._read(text), ""
        except ValueError:
            self._pause = None
            self.problem = f"annotation {PAUSE}: {printable(text or '')!r} pauses nothing; {_ALLOWED} is allowed"

    def current(self) -> Pause | None:
        """Return the pause in force now."""
        pause = self._pause
        return pause if pause is not None and self._clock.monotonic() < pause.ends else None

    def _read(self, text: str | None) -> Pause | None:
        asked = self._memory.asked_since(text)
        if asked is None:
            return None
        length = _length(asked.text, asked.since)
        until = asked.since + length
        by = f"annotation {PAUSE} of the node"
        return Pause(boot_id=self._boot_id, ends=asked.at + length, since=asked.since, until=until, by=by)


class LongerPause:
    """Of two that pause, the one that ends later."""

    def __init__(self, first: Pauses, second: Pauses) -> None:
        self._both = (first, second)

    def current(self) -> Pause | None:
        """Return the pause in force now."""
        found = [pause for pause in (each.current() for each in self._both) if pause is not None]
        return max(found, key=lambda pause: pause.ends, default=None)


def _length(text: str, since: float) -> float:
    """Return for how many seconds a text pauses from `since` (epoch seconds) on; 0: its time was over. ValueError: it says nothing."""
    if _NUMBER.fullmatch(text):
        raise ValueError(text)  # elsewhere this is a moment in epoch seconds, here somebody has left out the unit
    try:
        length = number(text, _DURATION)
    except ValueError:
        return _until(text, since)
    if not _DURATION.allows(length):
        raise ValueError(text)
    return length


def _until(text: str, since: float) -> float:
    length = max(0.0, number(text, _TIME) - since)
    if length > _LONGEST:
        raise ValueError(text)
    return length
