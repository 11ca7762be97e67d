"""The pure core: one snapshot in, one plan out (specification, section 2).

The live agent, the simulator, replay and `qosmanager plan` all call this same code: no clock, no I/O, no randomness.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from qosmanager.assess import assess
from qosmanager.config.settings import Settings
from qosmanager.decide import decide
from qosmanager.decide.decide import degradation
from qosmanager.model.actions import Plan
from qosmanager.model.assessment import Assessment
from qosmanager.model.census import Census
from qosmanager.model.snapshot import Snapshot
from qosmanager.model.state import State

RULES = 3  # one more with every release after whose changes the same readings may be decided otherwise


class Judged(Struct, frozen=True):
    """A snapshot, what it means, and the state that remembers it."""

    snapshot: Snapshot
    census: Census
    assessment: Assessment
    state: State


def step(state: State, snapshot: Snapshot, settings: Settings) -> tuple[State, Assessment, Plan]:
    """Return the next state, the assessment of the snapshot and the plan that follows from it."""
    return conclude(judge(state, snapshot, settings), settings)


def judge(state: State, snapshot: Snapshot, settings: Settings) -> Judged:
    """First half of a step: score the snapshot."""
    census = Census.of(snapshot)
    remembered, assessment = assess(state, snapshot, census, settings)
    # What cannot be decided on is not remembered either: the past stays what was really measured.
    return Judged(snapshot, census, assessment, state if degradation(snapshot, settings) else remembered)


def conclude(judged: Judged, settings: Settings) -> tuple[State, Assessment, Plan]:
    """Second half of a step: decide."""
    state, plan = decide(judged.state, judged.snapshot, judged.census, judged.assessment, settings)
    return state, replace(judged.assessment, effective_level=plan.level), plan
