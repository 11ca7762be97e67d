"""One whole cycle as data: what views, logs, metrics and recordings are made from (specification, section 2)."""

from __future__ import annotations

from msgspec import Struct

from qosmanager.model.actions import Outcome, Plan, Receipt
from qosmanager.model.assessment import Assessment
from qosmanager.model.own_use import OwnUse
from qosmanager.model.pause import Pause
from qosmanager.model.snapshot import Snapshot
from qosmanager.model.state import State


class CycleRecord(Struct, frozen=True, kw_only=True):
    """What was measured, judged, decided, done and seen in one cycle. `wall` is epoch seconds; `durations` maps each stage
    ("collect", "assess", "decide", "act", "verify", "total") to milliseconds."""

    number: int
    wall: float
    snapshot: Snapshot
    assessment: Assessment
    plan: Plan
    state: State
    receipts: tuple[Receipt, ...] = ()
    outcomes: tuple[Outcome, ...] = ()  # verdicts on earlier cycles' actions
    durations: dict[str, float] = {}
    pause: Pause | None = None  # in force in this cycle
    own: OwnUse | None = None  # what the agent itself used
    cause: str = ""  # why it came before its turn; "": it did not
