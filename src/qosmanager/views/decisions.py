"""The last decisions and events with their reasons, results and later outcomes, for /decisions and `explain` (specification, section 10).

In: each cycle's record, and events that no record holds (a refused reload). Out: `Entry` values, oldest first. One writer, many readers.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from threading import Lock

from msgspec import Struct
from msgspec.structs import replace

from qosmanager.model.actions import Outcome, Receipt
from qosmanager.model.assessment import Assessment
from qosmanager.model.qos import Level
from qosmanager.model.record import CycleRecord
from qosmanager.views.effects import Effect, amount, effects, foreign, is_conflict, standing, subject
from qosmanager.views.figures import iso
from qosmanager.views.judgement import AssessmentView, assessment_view
from qosmanager.views.reports import PAUSED, degradations, paused_text, starving_text, thrift_of, thrift_text
from qosmanager.views.status import starved_tens

CAPACITY = 500


class ReceiptView(Struct, frozen=True, kw_only=True):
    """One write or eviction: the file or pod, what came of it, the texts before and after."""

    target: str
    result: str
    before: str | None
    after: str | None
    detail: str


class OutcomeView(Struct, frozen=True, kw_only=True):
    """The latest verdict on the action, and the numbers behind it."""

    time: str
    verdict: str
    detail: str


class Entry(Struct, frozen=True, kw_only=True):
    """A decision (`type` "action") or something that happened ("event"); `kind` is the action's kind or the event's name.

    `subject` is a pod's key, a file, "BE" or "node". `since` is the cycle's time on the agent's clock, by which outcomes find it.
    `terms` is the judgement that it was decided from, only where asked for.
    """

    number: int
    cycle: int | None
    time: str
    type: str
    kind: str
    subject: str
    reason: str
    plugin: str | None = None
    amount: str = ""
    mode: str | None = None
    result: str | None = None
    receipts: tuple[ReceiptView, ...] = ()
    outcome: OutcomeView | None = None
    since: float | None = None
    terms: AssessmentView | None = None


class _Kept(Struct, frozen=True):
    """An entry and the judgement of its cycle: kept as it is, made into data only when somebody asks."""

    entry: Entry
    assessment: Assessment | None = None

    def with_terms(self) -> Entry:
        return self.entry if self.assessment is None else replace(self.entry, terms=assessment_view(self.assessment, None))


class Decisions:
    """A bounded memory of what was decided and of what happened."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._entries: deque[_Kept] = deque(maxlen=capacity)
        self._lock = Lock()
        self._number = 0
        self._level: Level | None = None
        self._degraded: frozenset[str] = frozenset()
        self._starved = 0
        self._thrift = 0

    def observe(self, record: CycleRecord) -> None:
        """Take in one cycle: its actions, its events, its verdicts on earlier actions."""
        with self._lock:
            for outcome in record.outcomes:
                self._settle(outcome, record.wall)
            self._changes(record)
            for receipt in foreign(record):
                kind = "conflict" if is_conflict(receipt) else "drift"
                self._happened(record, kind, receipt.target, _change(receipt))
            for receipt in standing(record):
                self._happened(record, "standing", receipt.target, _change(receipt))
            for failure in record.plan.failures:
                self._happened(record, "plugin_failed", failure.plugin.value, failure.error)
            for effect in effects(record):
                self._decided(record, effect)

    def event(self, wall: float, kind: str, about: str, reason: str) -> None:
        """Add something that no cycle's record holds, for example a refused reload; said again at once it is not added again."""
        with self._lock:
            last = self._entries[-1].entry if self._entries else None
            if last is not None and (last.kind, last.subject, last.reason) == (kind, about, reason):
                return
            entry = Entry(number=self._next(), cycle=None, time=iso(wall), type="event", kind=kind, subject=about, reason=reason)
            self._entries.append(_Kept(entry))

    def last(self, count: int, pod: str | None = None) -> tuple[Entry, ...]:
        """Return the last `count` entries, oldest first; with `pod` only those about that pod (its key, namespace/name)."""
        return tuple(kept.entry for kept in self._last(count, pod))

    def last_with_terms(self, count: int, pod: str | None = None) -> tuple[Entry, ...]:
        """Return the same, each action with the judgement it was decided from."""
        return tuple(kept.with_terms() for kept in self._last(count, pod))

    def _last(self, count: int, pod: str | None) -> list[_Kept]:
        with self._lock:
            found = [kept for kept in self._entries if pod is None or kept.entry.subject == pod]
        return found[-count:] if count else []

    def _changes(self, record: CycleRecord) -> None:
        level = record.assessment.effective_level
        if level is not self._level and record.snapshot.node.cpu_usage is not None:
            cpu = record.assessment.deciding
            terms = ", ".join(f"{factor.name} {factor.points:.1f}" for factor in cpu.factors if factor.points is not None)
            before = f"from {self._level.value} " if self._level else ""
            self._happened(record, "level", "node", f"{before}to {level.value}: CPU score {cpu.score:.1f} ({terms})")
            self._level = level
        degraded = degradations(record)
        for name in sorted(degraded.keys() - self._degraded):
            kind, reason = ("paused", paused_text(record)) if name == PAUSED else ("degraded", degraded[name])
            self._happened(record, kind, "node", reason)
        for name in sorted(self._degraded - degraded.keys()):
            kind, reason = ("resumed", "the pause is over") if name == PAUSED else ("recovered", name)
            self._happened(record, kind, "node", reason)
        self._degraded = frozenset(degraded)
        starved = starved_tens(record.state)
        if starved > self._starved:
            self._happened(record, "be_starving", "BE", starving_text(record))
        elif self._starved and not starved:
            self._happened(record, "be_starving_over", "BE", "BE is no longer held at its floor")
        self._starved = starved
        thrift = thrift_of(record)
        if record.own is not None and thrift != self._thrift:
            self._happened(record, *(("reads_less", "agent", thrift_text(record.own)) if thrift else ("reads_all", "agent", "as before")))
        self._thrift = thrift

    def _decided(self, record: CycleRecord, effect: Effect) -> None:
        action = effect.action
        entry = Entry(
            number=self._next(),
            cycle=record.number,
            time=iso(record.wall),
            type="action",
            kind=effect.kind,
            subject=subject(action),
            reason=action.reason,
            plugin=action.plugin.value,
            amount=amount(action),
            mode=action.mode.value,
            result=effect.result.value if effect.result else None,
            receipts=tuple(
                ReceiptView(target=r.target, result=r.result.value, before=r.before, after=r.after, detail=r.detail)
                for r in effect.receipts
            ),
            since=record.snapshot.time,
        )
        self._entries.append(_Kept(entry, record.assessment))

    def _settle(self, outcome: Outcome, wall: float) -> None:
        for index in range(len(self._entries) - 1, -1, -1):
            kept = self._entries[index]
            if _is_about(kept.entry, outcome):
                view = OutcomeView(time=iso(wall), verdict=outcome.verdict.value, detail=outcome.detail)
                self._entries[index] = replace(kept, entry=replace(kept.entry, outcome=view))
                return

    def _happened(self, record: CycleRecord, kind: str, about: str, reason: str) -> None:
        entry = Entry(
            number=self._next(),
            cycle=record.number,
            time=iso(record.wall),
            type="event",
            kind=kind,
            subject=about,
            reason=reason,
            since=record.snapshot.time,
        )
        self._entries.append(_Kept(entry))

    def _next(self) -> int:
        self._number += 1
        return self._number


def amounts(run: Sequence[Entry]) -> str:
    """Write what a run came to: its amount, or the first and the last of its steps."""
    first, last = run[0].amount, run[-1].amount
    if len(run) == 1 or not first:
        return last
    return (
        f"{last}, {len(run)} times" if all(entry.amount == last for entry in run) else f"{first.split()[0]} .. {last} in {len(run)} steps"
    )


def runs(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Put a decision that is taken again and again, like the steps of a slow rise, together; what is about different pods stays apart."""
    found: list[list[Entry]] = []
    for entry in entries:
        if found and (entry.plugin, entry.kind, entry.subject) == (found[-1][-1].plugin, found[-1][-1].kind, found[-1][-1].subject):
            found[-1].append(entry)
        else:
            found.append([entry])
    return found


def _is_about(entry: Entry, outcome: Outcome) -> bool:
    if entry.type != "action" or entry.plugin != outcome.plugin.value or entry.kind != outcome.kind:
        return False
    if entry.subject not in ("BE", outcome.target):
        return False
    if outcome.since is None or entry.since is None:
        return True
    return math.isclose(entry.since, outcome.since, abs_tol=1e-6)


def _change(receipt: Receipt) -> str:
    change = f"{receipt.before} -> {receipt.after}" if receipt.before is not None or receipt.after is not None else ""
    return " ".join(part for part in (receipt.detail, change) if part)
