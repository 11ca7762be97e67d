"""One durable line per eviction: who, why in numbers, what it was to free and what became of it (specification, sections 5 and 10).

In: each cycle's record. Out: the evictions that are over, as `AuditLine`, and those under way, so that a successor can finish their lines.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from qosmanager.model.actions import Evict, Outcome, Receipt, Result, Verdict
from qosmanager.model.qos import Mode, Plugin
from qosmanager.model.record import CycleRecord
from qosmanager.model.snapshot import Pod
from qosmanager.views.effects import Effect, effects
from qosmanager.views.figures import iso, rounded
from qosmanager.views.status import be_usage

UNKNOWN = "unknown"  # outcome of an eviction that was not seen to its end
_NOT_JUDGED = "it was seen gone; what that was good for has not been judged"
_TO_NOTHING = (Result.FAILED.value, Result.REFUSED.value)
_ALIKE_WITHIN = 3600.0  # seconds in which evictions of one pod that come to nothing for one reason share a line


class AuditLine(Struct, frozen=True, kw_only=True):
    """One eviction. CPU in cores, memory in bytes, `took` in seconds from `begun` to `gone`; not measured is null.

    `cpu` and `memory` are what the victim held when it was chosen; `memory_available` and `be_usage` are the node's before and after.
    `outcome`: effective, ineffective or gone (section 10), failed or refused when it could not be begun or ended, or unknown. `alike`: how
    many of the same pod came to nothing for the same reason in the hour up to this one, and have no line.
    """

    node: str
    begun: str
    gone: str | None = None
    took: float | None = None
    pod: str
    uid: str = ""
    priority: int | None = None
    owner: str | None = None
    plugin: str
    reason: str
    score: float
    level: str
    slo: str
    slo_violated_by: tuple[str, ...] = ()
    leaking: bool = False
    grace: float | None = None
    cpu: float | None = None
    memory: int | None = None
    memory_available_before: int | None = None
    memory_available_after: int | None = None
    be_usage_before: float | None = None
    be_usage_after: float | None = None
    outcome: str = ""
    detail: str = ""
    alike: int = 0
    cycle: int
    pid: int


class UnderWay(Struct, frozen=True, kw_only=True):
    """An eviction whose end is awaited; `since` is its cycle's time on the agent's clock, which nobody sets and by which its verdict
    finds it."""

    line: AuditLine
    since: float | None


class _Spell(NamedTuple):
    """Evictions of one pod that come to nothing for one reason: when a line of them was told last, and the one to be told next, if any."""

    told: float
    held: AuditLine | None = None


class Trail:
    """Follows every eviction from its beginning to its verdict."""

    def __init__(self, node: str, pid: int) -> None:
        self._node = node
        self._pid = pid
        self._under_way: dict[str, UnderWay] = {}
        self._spells: dict[tuple[str, ...], _Spell] = {}

    @property
    def under_way(self) -> tuple[AuditLine, ...]:
        """The lines of those that are not over, as far as they are known."""
        return tuple(each.line for each in self._under_way.values())

    def observe(self, record: CycleRecord) -> tuple[AuditLine, ...]:
        """Take in a cycle; return the lines of the evictions that are over with it."""
        over = (*self._ended(record), *self._judged(record), *self._begun(record))
        return tuple(self._folded(over, record.snapshot.time or 0.0))

    def intended(self, record: CycleRecord) -> tuple[AuditLine, ...]:
        """Return the lines of the evictions that a cycle is about to begin."""
        begun = {(line.pod, line.uid) for line in self.under_way}
        chosen = (action for action in record.plan.actions if isinstance(action, Evict) and action.mode is Mode.ENFORCE)
        return tuple(self._line(action, record) for action in chosen if (action.pod, action.uid) not in begun)

    def end(self, why: str) -> tuple[AuditLine, ...]:
        """Return the lines of those under way, which nobody will see end, and of those that have none yet."""
        lines = tuple(unseen(line, why) for line in self.under_way)
        self._under_way.clear()
        return tuple(self._folded(lines, math.inf))

    def _folded(self, lines: tuple[AuditLine, ...], now: float) -> Iterator[AuditLine]:
        """Hold back what comes to nothing as it did within the hour: of one pod and one reason there is a line at once, and one an hour."""
        for key, (told, held) in list(self._spells.items()):
            if now - told >= _ALIKE_WITHIN:
                del self._spells[key]
                if held is not None:
                    self._spells[key] = _Spell(now)
                    yield held
        for line in lines:
            # Numbers change from one to the next: how long until it may be asked for again, how many processes are left.
            reason = "".join(character for character in line.detail if not character.isdigit())
            key = (line.pod, line.uid, line.outcome, reason)
            spell = self._spells.get(key)
            if spell is not None:
                alike = 0 if spell.held is None else spell.held.alike + 1
                self._spells[key] = spell._replace(held=replace(line, alike=alike))
                continue
            if line.outcome in _TO_NOTHING:
                self._spells[key] = _Spell(now)
            yield line

    def _begun(self, record: CycleRecord) -> Iterator[AuditLine]:
        for effect in effects(record):
            action = effect.action
            if not isinstance(action, Evict) or effect.result in (None, Result.RECORDED, Result.UNCHANGED):
                continue
            line = self._line(action, record)
            if effect.result is not Result.APPLIED:
                assert effect.result is not None
                yield replace(line, outcome=effect.result.value, detail=_details(effect))
                continue
            earlier = self._under_way.pop(action.pod, None)
            if earlier is not None:
                yield unseen(earlier.line, "a pod of the same name was evicted before its end was judged")
            self._under_way[action.pod] = UnderWay(line=line, since=record.snapshot.time)

    def _ended(self, record: CycleRecord) -> Iterator[AuditLine]:
        """Take in what the evictor said of evictions begun earlier: no process is left, or it cannot be ended."""
        for receipt in record.receipts:
            each = self._under_way.get(receipt.target)
            if each is None or receipt.action is not None:
                continue
            if receipt.result is Result.GONE:
                self._under_way[receipt.target] = replace(each, line=_gone(each, record))
            elif receipt.result in (Result.FAILED, Result.REFUSED):
                del self._under_way[receipt.target]
                yield _after(replace(each.line, outcome=receipt.result.value, detail=receipt.detail), record)

    def _judged(self, record: CycleRecord) -> Iterator[AuditLine]:
        for outcome in record.outcomes:
            each = self._under_way.get(outcome.target)
            if each is None or not _is_verdict_on(outcome, each):
                continue
            del self._under_way[outcome.target]
            is_gone = outcome.verdict is Verdict.EFFECTIVE or not _is_here(each.line, record)
            line = _gone(each, record) if is_gone else each.line
            yield _after(replace(line, outcome=outcome.verdict.value, detail=outcome.detail), record)

    def _line(self, action: Evict, record: CycleRecord) -> AuditLine:
        assessment = record.assessment
        pressure = assessment.memory if action.plugin is Plugin.MEMORY_EVICT else assessment.deciding
        pod = next((pod for pod in record.snapshot.pods if pod.key == action.pod), None)
        return AuditLine(
            node=self._node,
            begun=iso(record.wall),
            pod=action.pod,
            uid=action.uid,
            priority=None if pod is None else pod.priority,
            owner=None if pod is None else pod.owner,
            plugin=action.plugin.value,
            reason=action.reason,
            score=round(pressure.score, 4),
            level=assessment.effective_level.value,
            slo=assessment.slo.value,
            slo_violated_by=assessment.slo_violated_by,
            leaking=action.leaking,
            grace=rounded(action.grace),
            cpu=rounded(action.cpu),
            memory=action.memory,
            memory_available_before=record.snapshot.node.memory_available,
            be_usage_before=_be_usage(record.snapshot.pods),
            cycle=record.number,
            pid=self._pid,
        )


def unseen(line: AuditLine, why: str) -> AuditLine:
    """Return the line of an eviction whose end, or what that was good for, nobody saw."""
    return replace(line, outcome=UNKNOWN, detail=why if line.gone is None else _NOT_JUDGED)


def _is_verdict_on(outcome: Outcome, each: UnderWay) -> bool:
    return outcome.kind == "evict" and outcome.since == each.since and outcome.verdict is not Verdict.PENDING


def _is_here(line: AuditLine, record: CycleRecord) -> bool:
    return any((pod.key, pod.uid) == (line.pod, line.uid) for pod in record.snapshot.pods)


def _gone(each: UnderWay, record: CycleRecord) -> AuditLine:
    if each.line.gone is not None:
        return each.line
    now = record.snapshot.time
    took = None if now is None or each.since is None else round(now - each.since, 3)
    return replace(each.line, gone=iso(record.wall), took=took)


def _after(line: AuditLine, record: CycleRecord) -> AuditLine:
    after, usage = record.snapshot.node.memory_available, _be_usage(record.snapshot.pods)
    return replace(line, memory_available_after=after, be_usage_after=usage)


def _be_usage(pods: tuple[Pod, ...]) -> float | None:
    return rounded(be_usage(pods))


def _details(effect: Effect) -> str:
    receipts: tuple[Receipt, ...] = effect.receipts
    return "; ".join(receipt.detail for receipt in receipts if receipt.detail)
