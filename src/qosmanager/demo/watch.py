"""The demo's eye on the agent: what it says of itself over HTTP while it runs, and how it ends."""

from __future__ import annotations

from qosmanager.demo.processes import Agent
from qosmanager.demo.recording import Frame
from qosmanager.demo.story import Stage
from qosmanager.http.client import AgentClient, NoAnswerError
from qosmanager.linux.clock import LinuxClock
from qosmanager.views.decisions import Entry
from qosmanager.views.status import Status

_LAST = 100  # decisions; more than happen between two looks


class Watch:
    """Asks the agent again and again; keeps its last status and decisions, and each cycle's readings."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self._client = AgentClient(f"http://127.0.0.1:{agent.port}", LinuxClock())
        self.status: Status | None = None
        self.decisions: tuple[Entry, ...] = ()
        self.frames: list[Frame] = []
        self._evicted: set[int] = set()

    def answers(self) -> bool:
        """Tell whether the agent has finished a cycle. Raises ProcessError when it has ended."""
        self.agent.check()
        try:
            self._client.status()
        except NoAnswerError:
            return False
        return True

    def look(self, stage: Stage) -> None:
        """Take in what the agent says now; what it does not answer stays as it was. Raises ProcessError when it has ended."""
        self.agent.check()
        try:
            self.status = self._client.status()
            self.decisions = self._client.decisions(_LAST)
            reading = self._client.reading()
        except NoAnswerError:
            return
        if not self.frames or self.frames[-1].cycle != reading.cycle:
            self.frames.append(Frame(stage=stage, cycle=reading.cycle, wall=reading.wall, snapshot=reading.snapshot))

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
