"""The pure core: one snapshot in, one plan out (specification, section 2).

The live agent, the simulator, replay and `qosmanager plan` all call this same function: no clock, no I/O, no randomness.
"""

from __future__ import annotations

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


def step(state: State, snapshot: Snapshot, settings: Settings) -> tuple[State, Assessment, Plan]:
    """Return the next state, the assessment of the snapshot and the plan that follows from it."""
    census = Census.of(snapshot)
    remembered, assessment = assess(state, snapshot, census, settings)
    # What cannot be decided on is not remembered either: the past stays what was really measured.
    state = state if degradation(snapshot, settings) else remembered
    state, plan = decide(state, snapshot, census, assessment, settings)
    return state, replace(assessment, effective_level=plan.level), plan
