"""The demo's eye on the agent: what it says of itself over HTTP while it runs, and how it ends."""

from __future__ import annotations

import contextlib
import http.client

import msgspec
from msgspec import Struct

from qosmanager.demo.processes import Agent
from qosmanager.demo.recording import Frame
from qosmanager.demo.story import Stage
from qosmanager.views.decisions import Entry
from qosmanager.views.status import Status


class _Decisions(Struct, frozen=True):
    """The answer of /decisions."""

    decisions: tuple[Entry, ...]


class _Reading(Struct, frozen=True, kw_only=True):
    """The answer of /snapshot."""

    cycle: int
    wall: float
    snapshot: msgspec.Raw


class Watch:
    """Asks the agent again and again; keeps its last status and decisions, and each cycle's readings."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.status: Status | None = None
        self.decisions: tuple[Entry, ...] = ()
        self.frames: list[Frame] = []
        self._evicted: set[int] = set()

    def answers(self) -> bool:
        """Tell whether the agent has finished a cycle. Raises ProcessError when it has ended."""
        return self._ask("/status") is not None

    def look(self, stage: Stage) -> None:
        """Take in what the agent says now. Raises ProcessError when it has ended."""
        answer = self._ask("/status")
        if answer is not None:
            self.status = msgspec.json.decode(answer, type=Status)
        answer = self._ask("/decisions?last=100")
        if answer is not None:
            self.decisions = msgspec.json.decode(answer, type=_Decisions).decisions
        answer = self._ask("/snapshot")
        if answer is not None:
            reading = msgspec.json.decode(answer, type=_Reading)
            if not self.frames or self.frames[-1].cycle != reading.cycle:
                self.frames.append(Frame.of(stage, reading.cycle, reading.wall, bytes(reading.snapshot)))

    def new_evictions(self) -> tuple[str, ...]:
        """Return the evictions, with their reasons, that were done since the last call."""
        new = [e for e in self.decisions if e.kind == "evict" and e.result == "applied" and e.number not in self._evicted]
        self._evicted.update(entry.number for entry in new)
        return tuple(f"{entry.plugin} {entry.subject}: {entry.reason}" for entry in new)

    def stop(self) -> list[str]:
        """Have the agent put all back and end; return what went wrong with that."""
        code = self.agent.stop()
        if code is None:
            return ["the agent did not end in time and was killed"]
        return [f"the agent ended with exit code {code}: not everything was put back"] if code else []

    def _ask(self, path: str) -> bytes | None:
        self.agent.check()
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.agent.port, timeout=2.0)) as connection:
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                body = answer.read()
            except (OSError, http.client.HTTPException):
                return None
            return body if answer.status == 200 else None
