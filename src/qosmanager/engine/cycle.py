"""One pass: measure -> assess -> decide -> act -> verify (specification, section 2).

In: the engine's state and settings. Out: a `CycleRecord`, whose state is the next cycle's. All effects happen behind the ports.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from qosmanager.config.settings import Settings
from qosmanager.engine.step import conclude, judge
from qosmanager.engine.thrift import Thrift
from qosmanager.model.actions import Evict, Plan, Receipt
from qosmanager.model.own_use import OwnUse
from qosmanager.model.qos import Mode
from qosmanager.model.record import CycleRecord
from qosmanager.model.snapshot import Snapshot
from qosmanager.model.state import State
from qosmanager.model.workload import Placement
from qosmanager.ports import Clock, Pauses, Readings
from qosmanager.verify import observe, settle


class Hands(Protocol):
    """What acts on a plan: the executor and the evictor, or a recorder that only notes what it would do."""

    def apply(self, plan: Plan, placement: Placement, snapshot: Snapshot, now: float) -> tuple[Receipt, ...]: ...

    def unsettled(self) -> frozenset[str]:
        """Keys of pods being evicted that would perhaps not go if this process ended now."""


class Edge(Struct, frozen=True):
    """The ports that one cycle uses. `pauses` None: nobody can pause it; `thrift` None: what the agent itself uses is not looked at.
    `witness` is told of a cycle that evicts before it does, without receipts: whoever is killed meanwhile has said whom."""

    readings: Readings
    hands: Hands
    clock: Clock
    pauses: Pauses | None = None
    thrift: Thrift | None = None
    witness: Callable[[CycleRecord], None] | None = None


class Turn(Struct, frozen=True, kw_only=True):
    """Which cycle it is. `lag`: by how many seconds it begins late; `cause`: why it comes before its turn, "" when it does not."""

    number: int
    lag: float = 0.0
    cause: str = ""


def run_cycle(edge: Edge, turn: Turn, state: State, settings: Settings) -> CycleRecord:
    """Run one cycle. Raises what a port raises; the runner catches it, and limits that are set stay."""
    clock = edge.clock
    began = clock.monotonic()
    own = _own_use(edge.thrift, turn, began, settings) if edge.thrift else None
    snapshot, placement = edge.readings.sample()
    pause = edge.pauses.current() if edge.pauses else None
    if pause is not None:
        snapshot = replace(snapshot, paused=True)
    collected = clock.monotonic()
    seen, outcomes = observe(state, snapshot)
    verified = clock.monotonic()
    judged = judge(seen, snapshot, settings)
    assessed = clock.monotonic()
    planned, assessment, plan = conclude(judged, settings)
    decided = clock.monotonic()
    intended = CycleRecord(
        number=turn.number,
        wall=clock.wall(),
        snapshot=snapshot,
        assessment=assessment,
        plan=plan,
        state=planned,
        pause=pause,
        own=own,
        cause=turn.cause,
    )
    if edge.witness is not None and any(isinstance(action, Evict) and action.mode is Mode.ENFORCE for action in plan.actions):
        edge.witness(intended)
    receipts = edge.hands.apply(plan, placement, snapshot, decided)
    acted = clock.monotonic()
    settled, overwritten = settle(seen, planned, plan, receipts, snapshot)
    marks = (began, collected, verified, assessed, decided, acted)
    stages = ("collect", "verify", "assess", "decide", "act")
    durations = {stage: (after - before) * 1000 for stage, before, after in zip(stages, marks, marks[1:], strict=False)}
    return replace(
        intended,
        state=settled,
        receipts=receipts,
        outcomes=outcomes + overwritten,
        durations=durations | {"total": (acted - began) * 1000},
    )


def _own_use(thrift: Thrift, turn: Turn, now: float, settings: Settings) -> OwnUse:
    """What comes before its turn is never late, and too soon after the last look to say what the agent uses."""
    return thrift.look(now, turn.lag, settings.sync_period) if not turn.cause else thrift.last
