"""The level BE is held at: up at once, down one by one, and only where BE could stay (specification, section 4)."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from qosmanager.assess.matrix import decision_matrix
from qosmanager.decide.allowance import allowance
from qosmanager.decide.facts import Draft, Facts
from qosmanager.model.census import is_above
from qosmanager.model.qos import Level


class HeldLevel(Struct, frozen=True):
    """The effective level, and the two moments that go with it into the state."""

    level: Level
    since: float | None
    below_since: float | None


def hold_level(facts: Facts, draft: Draft) -> HeldLevel:
    """Return the effective level that follows from the one held so far."""
    state, now = draft.state, facts.now
    held = state.suppress_level
    if held is None:
        return HeldLevel(facts.assessment.raw_level, now, None)
    if facts.assessment.steady_level > held:
        return HeldLevel(facts.assessment.steady_level, now, None)
    if held is Level.LOW or not _could_stay_lower(facts, draft, held):
        return HeldLevel(held, state.suppress_since, None)
    below_since = now if state.below_since is None else state.below_since
    # Without a time, a fall that has begun counts as held long enough, one that begins now has not.
    waited = facts.has_held(state.below_since, facts.settings.hysteresis.hold) if state.below_since is not None else False
    if waited or facts.settings.hysteresis.hold == 0:
        return HeldLevel(held.lower(), state.suppress_since, None)
    return HeldLevel(held, state.suppress_since, below_since)


def _could_stay_lower(facts: Facts, draft: Draft, held: Level) -> bool:
    """Tell whether score and matrix are lower with a margin, and would not come back with BE at the lower level's limit."""
    margin = facts.settings.hysteresis.margin
    if _level_at(facts, margin, margin) >= held:
        return False
    lower = held.lower()
    extra = _extra(facts, draft, lower) / facts.cpus
    return _level_at(facts, margin + 50 * extra, margin + 100 * extra) <= lower


def _level_at(facts: Facts, more_score: float, more_percent: float) -> Level:
    """Return the higher of score level and matrix priority if both readings were that much higher."""
    cpu, inputs = facts.assessment.deciding, facts.assessment.matrix.inputs
    score = (cpu.score if cpu.mean is None else max(cpu.score, cpu.mean)) + more_score
    priority = decision_matrix(replace(inputs, cpu_percent=inputs.cpu_percent + more_percent)).priority
    return max(facts.settings.cpu_pressure.level(score), priority)


def _extra(facts: Facts, draft: Draft, lower: Level) -> float:
    """Return how many cores more BE would use at the lower level, as far as that counts; 0 when it is measured not to use what it has."""
    if facts.settings.leaves_be_out:
        return 0.0
    limit = draft.state.be_limit
    measured = all(pod.cpu.usage is not None for pod in facts.census.be)
    if limit is None or (measured and is_above(0.9 * limit, facts.census.be_usage)):
        return 0.0
    return max(0.0, allowance(facts, draft, lower).target - limit)
