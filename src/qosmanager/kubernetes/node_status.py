"""The node's annotation `qosmanager.io/status`: how this agent sees its node, in a few words, for people and for controllers.

In: a cycle's record, what the agent remembers. Out: small JSON, and whether it is time to write it: when one of its words (not its numbers)
has changed, or its numbers are ten minutes old, and never twice in a minute. The owners of pods evicted as leaking are in it. A person
clears them by taking them, or the whole annotation, away.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

import qosmanager
from qosmanager.documents.quantities import LAST_TIME, shown_time
from qosmanager.documents.quantities import time as moment
from qosmanager.kubernetes.memory import AgentMemory, Leak
from qosmanager.model.record import CycleRecord
from qosmanager.views.figures import topic
from qosmanager.views.status import be_usage

STATUS = "qosmanager.io/status"
BETWEEN_WRITES = 60.0  # seconds
_NUMBERS_OVER = 600.0  # seconds
_LARGEST = 1 << 16  # bytes of an annotation that is read


class LeakNote(Struct, frozen=True, kw_only=True, rename="camel"):
    """An owner whose pod was evicted as leaking; `growth` in bytes a minute."""

    owner: str
    uid: str
    pod: str
    time: str
    growth: float


class NodeStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The annotation. Cores, scores of 0 to 100. `agent`: running, or stopped."""

    agent: str
    version: str = qosmanager.__version__
    time: str
    level: str = ""
    slo: str = ""
    cpu_pressure: float = 0.0
    memory_pressure: float = 0.0
    io_pressure: float = 0.0
    be_limit: float | None = None
    be_usage: float | None = None
    degraded: tuple[str, ...] = ()
    paused_until: str = ""
    evicted_last_hour: int = 0
    leaking: tuple[LeakNote, ...] = ()

    def words(self) -> tuple[object, ...]:
        """What is news when it changes."""
        return (self.agent, self.version, self.level, self.slo, self.degraded, self.paused_until, self.evicted_last_hour, self.leaking)


class _Shown(Struct, rename="camel"):
    leaking: list[LeakNote] = []


class StatusNote:
    """What is to be written, and when."""

    def __init__(self, memory: AgentMemory) -> None:
        self._memory = memory
        self._written: tuple[object, ...] | None = None
        self._at = -_NUMBERS_OVER

    def due(self, record: CycleRecord, now: float) -> str | None:
        """Return what to write now (monotonic seconds); None: nothing. `written` has to be told that it was."""
        since = now - self._at
        if since < BETWEEN_WRITES:
            return None
        status = self._status(record)
        return _text(status) if since >= _NUMBERS_OVER or status.words() != self._written else None

    def written(self, record: CycleRecord, now: float) -> None:
        """Note that the annotation holds what `due` returned for this record."""
        self._written, self._at = self._status(record).words(), now

    def missed(self) -> None:
        """The node has no annotation: it was made anew under its name."""
        self._written = None

    def last_words(self, wall: float) -> str:
        """Return what stays when the agent ends: whom it remembers."""
        return _text(NodeStatus(agent="stopped", time=shown_time(int(wall)), leaking=self._leaking()))

    def _status(self, record: CycleRecord) -> NodeStatus:
        assessment, state = record.assessment, record.state
        return NodeStatus(
            agent="running",
            time=shown_time(int(record.wall)),
            level=assessment.effective_level.value,
            slo=assessment.slo.value,
            cpu_pressure=round(assessment.cpu.score, 1),
            memory_pressure=round(assessment.memory.score, 1),
            io_pressure=round(assessment.io.score, 1),
            be_limit=None if state.be_limit is None or state.be_observed else round(state.be_limit, 2),
            be_usage=_rounded(be_usage(record.snapshot.pods)),
            degraded=tuple(sorted({topic(reason) for reason in record.plan.degraded})),
            paused_until="" if record.pause is None else shown_time(int(record.pause.until)),
            evicted_last_hour=self._memory.evicted_lately(),
            leaking=self._leaking(),
        )

    def _leaking(self) -> tuple[LeakNote, ...]:
        return tuple(
            LeakNote(owner=leak.name, uid=leak.owner, pod=leak.pod, time=shown_time(int(leak.at)), growth=round(leak.growth))
            for leak in self._memory.leaks
        )


def shown_leaks(text: str | None) -> dict[str, Leak] | None:
    """Return the leaks that an annotation shows, by the owner's uid; None: it is there and not understood."""
    if text is None:
        return {}
    try:
        shown = msgspec.json.decode(text[:_LARGEST], type=_Shown).leaking
        return {each.uid: Leak(owner=each.uid, name=each.owner, pod=each.pod, at=_at(each.time), growth=each.growth) for each in shown}
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def _at(text: str) -> float:
    """Return a time that can be written again. Raises ValueError for any other: whoever may change the node writes this."""
    at = moment(text)
    if not 0 <= at <= LAST_TIME:
        raise ValueError(text)
    return at


def _rounded(cores: float | None) -> float | None:
    return None if cores is None else round(cores, 2)


def _text(status: NodeStatus) -> str:
    return msgspec.json.encode(status).decode()
