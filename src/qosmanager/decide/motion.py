"""The moves of the BE limit: which way it went last, and how often it turned (specification, section 10)."""

from __future__ import annotations

from qosmanager.decide.facts import Draft, Facts
from qosmanager.model.state import State

MINUTE = 60.0
DEAD_BAND = 0.01  # of the limit in force for falls, of the CPUs for rises
_TOO_MANY_REVERSALS = 4  # a minute


def moved(facts: Facts, draft: Draft, direction: int) -> Draft:
    """Return the draft with a move remembered: +1 a rise, -1 a fall."""
    state = draft.state
    if state.last_move == -direction and facts.now is not None:
        draft = draft.remember(reversals=(*last_minute(facts, state), facts.now))
    return draft.remember(last_move=direction)


def last_minute(facts: Facts, state: State) -> tuple[float, ...]:
    """Return when the limit turned in the last minute."""
    return tuple(moment for moment in state.reversals if facts.elapsed(moment) < MINUTE)


def oscillating(facts: Facts, state: State) -> bool:
    """More than 4 reversals in a minute begin an oscillation; a minute without one ends it (section 10)."""
    reversals = len(last_minute(facts, state))
    return reversals > _TOO_MANY_REVERSALS or (state.oscillating and reversals > 0)
