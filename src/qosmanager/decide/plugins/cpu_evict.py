"""CPUEvict: the last resort when suppression holds and a service still waits for CPU (specification, section 5.5)."""

from __future__ import annotations

import math

from msgspec import Struct

from qosmanager.config.settings import Strategy, Trigger
from qosmanager.decide.facts import Draft, Facts, cpu_held, is_terminating, ls_demand, may_be_evicted
from qosmanager.model.actions import Evict
from qosmanager.model.census import is_above, is_at_least
from qosmanager.model.count import counted
from qosmanager.model.qos import Level, MatrixAction, Mode, Plugin, Slo
from qosmanager.model.snapshot import Pod
from qosmanager.model.state import Pending, State

_TRIED_FOR = 5.0  # seconds of suppression before eviction
_HELD_WITHIN = 1.1  # BE usage over the limit in force
_WAITS_FROM = 0.02  # of its own usage
_THROTTLED_FROM = 0.1  # of its periods, and
_FULL_FROM = 0.9  # of its own limit: then that limit, and not the node, is what a service waits for
_SIGNAL_AFTER = 3.0  # seconds of score above the threshold that stand in for an unknown SLO signal
_MOST_AT_ONCE = 0.3  # of all BE pods
_MOST_ROUNDS = 2
_PLUGIN = Plugin.CPU_EVICT


class Shortage(Struct, frozen=True):
    """In cores: what LS lacks, what has to be freed for it, and what is on its way already."""

    shortage: float
    need: float
    terminating: float


def cpu_evict(facts: Facts, draft: Draft) -> Draft:
    """Evict BE pods when the trigger holds and what suppression could do has been tried in earlier cycles."""
    mode = facts.settings.mode(_PLUGIN)
    draft = _remember_signals(facts, draft)
    if mode is Mode.OFF:
        return draft
    shortage = _shortage(facts, draft)
    immediate = facts.assessment.matrix.action is MatrixAction.EVICT_BE_IMMEDIATELY
    triggered = immediate or _triggered(facts, draft, shortage)
    if not triggered:
        return draft
    why_not = _why_not(facts, draft, immediate)
    if why_not is not None:
        return draft.refuse(_PLUGIN, *why_not)
    if not is_above(shortage.need, facts.settings.cpu_suppress.min_cores):
        return draft.refuse(_PLUGIN, "no-need", _no_need(facts, shortage))
    return _evict(facts, draft, shortage, immediate)


def _no_need(facts: Facts, shortage: Shortage) -> str:
    lacks = f"LS lacks {shortage.shortage:.4g} cores, {shortage.terminating:.4g} are being freed already"
    least = facts.settings.cpu_suppress.min_cores
    if not is_above(shortage.need, 0):
        return f"{lacks}: nothing more to free"
    return f"{lacks}: another {shortage.need:.4g} would be no more than the {least:g} that BE may always have"


def _remember_signals(facts: Facts, draft: Draft) -> Draft:
    above = is_above(_score(facts), facts.settings.cpu_evict.evict_threshold)
    since = draft.state.score_above_since
    draft = draft.remember(score_above_since=(facts.now if since is None else since) if above else None)
    # Where no LS pod has an objective the signal never is ok: the calm after the score's excess stands in for it.
    without_slo = all(pod.latency.slo is None for pod in facts.census.ls)
    calm = facts.assessment.slo is Slo.OK or (without_slo and not above)
    return draft.remember(evict_rounds=0) if calm else draft


def _score(facts: Facts) -> float:
    """Return the score that eviction looks at: with smoothing, both must be above the threshold."""
    cpu = facts.assessment.deciding
    return cpu.score if cpu.mean is None else min(cpu.score, cpu.mean)


def _shortage(facts: Facts, draft: Draft) -> Shortage:
    be_usage = facts.census.be_usage
    demand = sum(ls_demand(facts, draft).values())
    shortage = max(0.0, demand - (facts.cpus - draft.resources.system_reserved - be_usage))
    need = shortage * 1.2
    if draft.level is Level.EMERGENCY:
        need = max(need, be_usage)
    terminating = sum(cpu_held(pod) for pod in facts.census.be if is_terminating(pod, draft.state))
    return Shortage(shortage, min(need, be_usage) - terminating, terminating)


def _triggered(facts: Facts, draft: Draft, shortage: Shortage) -> bool:
    settings = facts.settings.cpu_evict
    above = is_above(_score(facts), settings.evict_threshold)
    signal = facts.assessment.slo
    since = draft.state.score_above_since
    stands_in = above and since is not None and facts.has_held(since, _SIGNAL_AFTER) and is_above(shortage.shortage, 0)
    violated = signal is Slo.VIOLATED or (signal is Slo.UNKNOWN and stands_in)
    return (above and violated) if settings.trigger is Trigger.BOTH else (above or violated)


def _why_not(facts: Facts, draft: Draft, immediate: bool) -> tuple[str, str] | None:
    """Return the rule that forbids an eviction although the trigger holds, and its numbers."""
    until = draft.state.cooldown_until.get(_PLUGIN.value)
    if not facts.is_over(until):
        return "cooldown", f"cooling down for another {facts.remaining(until):.0f} s"
    if facts.no_evictions is not None:
        return "barred", facts.no_evictions
    if draft.failures:
        return "plugin-failed", "a plugin failed in this cycle: nobody is evicted"
    if draft.state.evict_rounds >= _MOST_ROUNDS and facts.assessment.slo is not Slo.OK:
        return "no-effect", f"{counted(draft.state.evict_rounds, 'round')} left the SLO violated: standing down until it has been ok once"
    if immediate:
        return None
    if facts.settings.mode(Plugin.CPU_SUPPRESS) is not Mode.OFF and (untried := _untried(facts)) is not None:
        return "suppress-first", untried
    if facts.settings.cpu_evict.trigger is Trigger.BOTH and not _some_service_waits(facts, draft):
        return "slow-elsewhere", f"no LS pod above its SLO waits for CPU that others have more than {_WAITS_FROM:.0%} of its usage"
    return None


def _untried(facts: Facts) -> str | None:
    """Return why suppression does not yet count as tried; None: it was."""
    before = facts.before
    if facts.settings.cpu_suppress.strategy is Strategy.SLO:
        return _not_at_floor(facts)
    if before.suppress_level is None or before.suppress_level < Level.CRITICAL or before.be_observed:
        return "suppression at CRITICAL has not been tried yet"
    if not facts.has_held(before.suppress_since, _TRIED_FOR):
        return f"suppression at {before.suppress_level.value} has held for {facts.elapsed(before.suppress_since):.1f} s of {_TRIED_FOR:g}"
    return _not_held(facts)


def _not_at_floor(facts: Facts) -> str | None:
    """Return why BE is not at its floor for long enough: strategy `slo` goes that far for LS pods that suffer, at whatever level."""
    before, floor = facts.before, facts.settings.cpu_suppress.min_cores
    if before.floor_since is None or before.be_observed:
        return f"BE is not held at its floor of {floor:g} cores"
    if not facts.has_held(before.floor_since, _TRIED_FOR):
        return f"BE has been at its floor of {floor:g} cores for {facts.elapsed(before.floor_since):.1f} s of {_TRIED_FOR:g}"
    return _not_held(facts)


def _not_held(facts: Facts) -> str | None:
    before = facts.before
    limit = before.be_limit
    if limit is None:
        return "no BE limit is in force yet"
    if before.be_cpus is not None and is_at_least(limit, 1):
        limit = float(math.ceil(round(limit, 9)))
    if is_above(facts.census.be_usage, _HELD_WITHIN * limit):
        return f"BE still uses {facts.census.be_usage:.4g} cores, more than {_HELD_WITHIN:g} x its limit {limit:.4g}"
    return None


def _some_service_waits(facts: Facts, draft: Draft) -> bool:
    above = set(facts.assessment.slo_violated_by)
    concerned = (pod for pod in facts.census.ls if facts.assessment.slo is Slo.UNKNOWN or pod.key in above)
    return any(_waits_for_others(pod, draft.granted.get(pod.key)) for pod in concerned)


def _waits_for_others(pod: Pod, granted: float | None) -> bool:
    """Tell whether a service waits for CPU, and not for its own limit: that is nobody else's to give (sections 3 and 13)."""
    usage, wait = pod.cpu.usage, pod.cpu.wait
    if usage is None or wait is None or not is_above(wait, _WAITS_FROM * usage):
        return False
    limit = pod.cpu.limit if granted is None else granted
    is_full = limit is not None and is_at_least(usage, _FULL_FROM * limit)
    return not (is_full and is_at_least(pod.cpu.throttled or 0.0, _THROTTLED_FROM))


def _evict(facts: Facts, draft: Draft, shortage: Shortage, immediate: bool) -> Draft:
    mode = facts.settings.mode(_PLUGIN)
    victims = []
    for pod in facts.census.be:
        unfit = _unfit(facts, draft.state, pod)
        if unfit is None:
            victims.append(pod)
        else:
            draft = draft.refuse(_PLUGIN, "no-victim", unfit, pod.key)
    chosen: list[Pod] = []
    freed = 0.0
    suspected = _suspected(facts)
    for pod in sorted(victims, key=lambda pod: _turn(pod, suspected.get(pod.key)))[
        : math.ceil(round(_MOST_AT_ONCE * len(facts.census.be), 9))
    ]:
        if is_at_least(freed, shortage.need):
            break
        chosen.append(pod)
        freed += cpu_held(pod)
    cause = "EVICT_BE_IMMEDIATELY" if immediate else f"score {facts.assessment.deciding.score:.1f}, SLO {facts.assessment.slo.value}"
    for place, pod in enumerate(chosen, 1):
        reason = (
            f"{cause}; LS lacks {shortage.shortage:.4g} cores, need {shortage.need:.4g}; victim {place} of {len(chosen)}: "
            f"priority {pod.priority}, {cpu_held(pod):.4g} cores{_suspicion(suspected.get(pod.key))}"
        )
        rss = pod.memory.rss
        draft = draft.act(Evict(plugin=_PLUGIN, reason=reason, mode=mode, pod=pod.key, uid=pod.uid, cpu=cpu_held(pod), memory=rss))
    if not chosen:
        return draft.refuse(_PLUGIN, "no-victim", f"need {shortage.need:.4g} cores, but no BE pod may be evicted")
    return _after_round(facts, draft, chosen, mode)


def _unfit(facts: Facts, state: State, pod: Pod) -> str | None:
    if not pod.cpu.usage:
        return "its CPU usage is not measured" if pod.cpu.usage is None else "it uses no CPU"
    return may_be_evicted(facts, state, pod)


def _suspicion(suspected: _Suspected | None) -> str:
    return f", likely what {suspected.service} waits for (confidence {suspected.confidence:.2f})" if suspected else ""


class _Suspected(Struct, frozen=True):
    """A BE pod that is likely to be what a service waits for: how likely, and for which."""

    confidence: float
    service: str


def _suspected(facts: Facts) -> dict[str, _Suspected]:
    """Return whom the services that are to be helped suspect of taking their CPU, each at its highest confidence."""
    above = set(facts.assessment.slo_violated_by)
    found: dict[str, _Suspected] = {}
    for each in facts.snapshot.attributions:
        for suspect in each.suspects if not above or each.pod in above else ():
            if suspect.by == "cpu" and suspect.confidence > (found[suspect.pod].confidence if suspect.pod in found else 0.0):
                found[suspect.pod] = _Suspected(suspect.confidence, each.pod)
    return found


def _turn(pod: Pod, suspected: _Suspected | None) -> tuple[int, float, float, float, float, str]:
    """Lowest priority first, then most CPU; among those that differ by less than a tenth of a core the likeliest cause; then newest."""
    held = cpu_held(pod)
    confidence = suspected.confidence if suspected else 0.0
    return (pod.priority, -round(held, 1), -confidence, -held, -(pod.created or -math.inf), pod.key)


def _after_round(facts: Facts, draft: Draft, chosen: list[Pod], mode: Mode) -> Draft:
    until = None if facts.now is None else facts.now + facts.settings.cpu_evict.evict_cooldown
    draft = draft.remember(cooldown_until={**draft.state.cooldown_until, _PLUGIN.value: until})
    if mode is not Mode.ENFORCE:
        return draft
    pending = tuple(Pending(pod=pod.key, since=facts.now, uid=pod.uid, cpu=cpu_held(pod), memory=pod.memory.rss or 0) for pod in chosen)
    return draft.remember(pending=draft.state.pending + pending, evict_rounds=draft.state.evict_rounds + 1)
