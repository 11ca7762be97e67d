"""Decides a recording again: the same step over the same readings, and whether it comes to the same plans (docs/record.md).

In: recorded cycles with their snapshots. Out: each as a `CycleRecord`, as the agent had it, with the first thing that is different.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from qosmanager.config.settings import Settings
from qosmanager.engine.step import conclude, judge
from qosmanager.model.record import CycleRecord
from qosmanager.model.snapshot import Snapshot
from qosmanager.model.state import State
from qosmanager.record.decoder import Recorded
from qosmanager.record.differences import Difference, first_difference
from qosmanager.record.messages import as_bytes, canonical
from qosmanager.verify import observe, settle


class CannotDecideError(Exception):
    """The recorded readings cannot be decided on, which those of an agent always can; the text says in which cycle and why."""


class Replayed(Struct, frozen=True, kw_only=True):
    """One cycle decided again. `difference`: the first thing that does not come out as recorded, None: nothing; `before`: the state that it
    was decided with."""

    record: CycleRecord
    recorded: Recorded
    settings: Settings
    before: State
    difference: Difference | None


def replay(cycles: Iterable[tuple[Recorded, Snapshot]]) -> Iterator[Replayed]:
    """Decide each cycle again. Where the recording holds the state it is taken from there; else it follows from the cycle before. Raises
    CannotDecideError."""
    state = State()
    last: int | None = None
    for recorded, snapshot in cycles:
        difference = None
        if recorded.before is not None:
            if last is not None and recorded.number == last + 1:
                difference = _difference("state", recorded.before, state)
            state = recorded.before
        try:
            replayed = _again(state, recorded, snapshot, difference)
        except Exception as error:
            raise CannotDecideError(f"cycle {recorded.number}: {type(error).__name__}: {error}") from error
        state, last = replayed.record.state, recorded.number
        yield replayed


def _again(before: State, recorded: Recorded, snapshot: Snapshot, difference: Difference | None) -> Replayed:
    settings = recorded.settings
    seen, outcomes = observe(before, snapshot)
    planned, assessment, plan = conclude(judge(seen, snapshot, settings), settings)
    after, overwritten = settle(seen, planned, plan, recorded.receipts, snapshot)
    outcomes += overwritten
    difference = difference or _difference("plan", recorded.plan, plan)
    if difference is None and outcomes != recorded.outcomes:
        difference = first_difference("outcomes", recorded.outcomes, outcomes)
    record = CycleRecord(
        number=recorded.number,
        wall=recorded.wall,
        snapshot=snapshot,
        assessment=assessment,
        plan=plan,
        state=after,
        receipts=recorded.receipts,
        outcomes=outcomes,
        durations=recorded.durations,
        pause=recorded.pause,
        own=recorded.own,
        cause=recorded.cause,
    )
    return Replayed(record=record, recorded=recorded, settings=settings, before=before, difference=difference)


def _difference(name: str, recorded: Struct, now: Struct) -> Difference | None:
    now = canonical(now)
    if as_bytes(now) == as_bytes(recorded):
        return None
    return first_difference(name, recorded, now) or Difference(name, "the same in another order", "the same in another order")
