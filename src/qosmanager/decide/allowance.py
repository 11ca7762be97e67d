"""What BE may have: the target of CPUSuppress before it is approached (specification, section 5.4)."""

from __future__ import annotations

from msgspec import Struct

from qosmanager.assess.recollection import weights
from qosmanager.config.settings import Strategy
from qosmanager.decide.facts import Draft, Facts
from qosmanager.model.census import is_above
from qosmanager.model.qos import Level, Mode

_SURGE = 0.1  # of the CPUs: LS usage that much above its mean is no noise


def room_beside_demand(facts: Facts, draft: Draft) -> float:
    """Return node_available less what the LS pods want or were granted, in cores: more than this never fits the node."""
    return draft.resources.node_available - sum(_taken(facts, draft).values()) - forecast_claim(facts, draft)


def forecast_claim(facts: Facts, draft: Draft) -> float:
    """Return what services will soon want beyond what they want or were granted now, in cores, where the forecast is enforced."""
    if facts.settings.forecast.mode is not Mode.ENFORCE:
        return 0.0
    taken = _taken(facts, draft)
    soon = ((each.cores, sum(taken.get(key, 0.0) for key in each.pods)) for each in facts.snapshot.forecasts)
    return sum(max(0.0, cores - now) for cores, now in soon if cores is not None)


def _taken(facts: Facts, draft: Draft) -> dict[str, float]:
    return {key: max(cores, draft.granted.get(key, 0.0)) for key, cores in facts.ls_wanted}


class Allowance(Struct, frozen=True):
    """Cores for all BE: the clamped `target`, and the `room` beside the LS pods' demand, now and as foretold, that it may not exceed."""

    target: float
    room: float


def allowance(facts: Facts, draft: Draft, level: Level) -> Allowance:
    """Return what BE may have at a level, at least minCores."""
    room = room_beside_demand(facts, draft)
    return Allowance(max(facts.settings.cpu_suppress.min_cores, min(settings_target(facts, draft, level), room)), room)


def settings_target(facts: Facts, draft: Draft, level: Level) -> float:
    """Return the strategy's own target before the clamps, in cores."""
    settings = facts.settings.cpu_suppress
    if settings.strategy is Strategy.USAGE:
        return facts.cpus * settings.target_utilization - counted_ls_usage(facts) - draft.resources.system_reserved
    return (draft.resources.node_available - ls_claim(facts, draft)) * settings.suppress_ratio.of(level)


def counted_ls_usage(facts: Facts) -> float:
    """Return the LS usage that strategy `usage` goes by, in cores: the mean of the last 5 s, for that of one second is mostly noise; the
    present one where it has surged above that (section 13)."""
    present, recent = facts.census.ls_usage, facts.before.recent
    counts = weights(recent, facts.settings.sync_period)
    known = [(count, moment.ls_usage) for count, moment in zip(counts, recent, strict=True) if moment.ls_usage is not None]
    if not known:
        return present
    mean = sum(count * usage for count, usage in known) / sum(count for count, _ in known)
    return present if is_above(present - mean, _SURGE * facts.cpus) else mean


def ls_claim(facts: Facts, draft: Draft) -> float:
    """Return the sum over LS pods of max(request, granted burst limit), in cores."""
    return sum(max(pod.cpu.request or 0.0, draft.granted.get(pod.key, 0.0)) for pod in facts.census.ls)
