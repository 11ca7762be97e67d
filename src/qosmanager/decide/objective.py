"""Strategy `slo`: what BE may have, from how the LS pods fare (specification, section 13; docs/adr).

BE may use everything that no LS pod suffers from. The limit falls by the severity of what they suffer, rises by the slack they have; it
is slower and lower after a relapse. Where nothing of the kernel puts BE behind all others it also leaves room for the LS pods' demand and
for how that was seen to surge; where the kernel does, a quota only costs work, and there is none until somebody suffers all the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from qosmanager.decide.allowance import forecast_claim
from qosmanager.decide.facts import Draft, Facts, ls_demand
from qosmanager.decide.motion import DEAD_BAND, last_minute, moved
from qosmanager.model.assessment import Suffering, Wellbeing
from qosmanager.model.census import is_above, is_at_least
from qosmanager.model.count import counted
from qosmanager.model.qos import Mode, Plugin
from qosmanager.model.state import Objective
from qosmanager.views.fare import suffering_words

_PLUGIN = Plugin.CPU_SUPPRESS
_DEEPEST, _SHALLOWEST = 0.3, 0.9  # what a fall leaves at least and at most of what BE had
_SETTLES_IN = 2.0  # seconds between two falls for a pod that suffers: so long the last one takes to show
_LASTS = 1.0  # seconds of suffering that are no chance
_PATIENCE = 10.0  # the same behind the kernel's shield, before a limit is tried at all
_SHOWS_IN = 5.0  # seconds after which a limit behind the shield must have helped
_FLOOR_SHOWS_IN = 10.0  # seconds at the floor after which the same holds without a shield
_NO_BETTER = 0.9  # of the severity before
_WORSE = 1.5  # times what was borne: then it is not borne any longer
_BORNE_FOR, _BORNE_MOST = 300.0, 3600.0  # seconds: doubled with each time that a fall was of no use
# Seconds without a break in which a turn upwards was worth it, before it is made: x 10 with each relapse.
_ROOMY, _LONGEST_ROOMY = 10.0, 300.0
_WORTH = 0.05  # of the CPUs: less room is not worth a turn
_MOST_RELAPSES = 5.0  # counted
_RELAPSE_WITHIN = 900.0  # seconds from one fall to the next that make it a relapse, and in which half of them are forgiven
_BELOW_CEILING = 0.9  # of what was too much
_REOPENS = 0.02  # of the CPUs in a minute: what was too much once may not be so for ever
# Of the CPUs. The first is for services that nobody has seen surge yet: it is forgotten like one that was seen.
_FIRST_MARGIN, _LEAST_MARGIN, _MOST_MARGIN = 0.25, 0.02, 0.4
_DEMAND_EASES_IN = 30.0  # seconds in which two thirds of a fall of demand are believed: doubled with each relapse
_MARGIN_EASES_IN = 900.0  # seconds in which half of a margin is forgotten
_NEAR = 0.8  # of the SLO: from there on all that a pod waits for is its demand


class Aim(Struct, frozen=True):
    """The limit to be in force (cores; None: no limit at all), and why."""

    limit: float | None
    reason: str


class Bound(Struct, frozen=True):
    """Cores: beyond `room`, what fits beside the LS pods' demand, the limit falls; to `target`, the same less the margin, it goes.
    `now`: the room beside what they want at this moment, which may be gone in the next."""

    room: float
    target: float
    now: float
    words: str


def aim(facts: Facts, draft: Draft) -> tuple[Aim, Draft]:
    """Return the limit, and the draft with what was learned and moved."""
    wellbeing = facts.assessment.wellbeing or Wellbeing()
    draft = _learn_demand(facts, draft)
    worst = max(wellbeing.caused, key=lambda each: (each.severity, each.pod), default=None)
    draft = _tell_elsewhere(wellbeing, draft)
    draft = _follow(facts, draft, wellbeing, worst)
    bound = None if facts.snapshot.be_shielded else _bound(facts, draft)
    if worst is not None and is_borne(facts, draft.state.objective, worst):
        worst = None  # BE is not held for it either
    draft = _look_for_room(facts, draft, worst, bound)
    if worst is not None and _may_fall(facts, draft):
        return _fall_for(facts, draft, worst, bound)
    if bound is not None:
        fall, draft = _fit(facts, draft, bound)
        if fall is not None:
            return fall, draft
    if worst is not None:
        return Aim(draft.state.be_limit, f"{suffering_words(worst)}; BE stays"), draft
    return _rise(facts, draft, wellbeing, bound)


# -- what is learned ---------------------------------------------------------------------------------------------------------------------


def _learn_demand(facts: Facts, draft: Draft) -> Draft:
    """Follow the LS pods' demand up at once and down slowly, and learn by how much it rises above that in a cycle."""
    known, cpus = draft.state.objective, facts.cpus
    present = sum(_wants(facts, facts.ls_held).values())
    if known.wanted is None or known.margin is None:
        return _recall(draft, wanted=present, margin=_FIRST_MARGIN * cpus)
    # Without a time nothing has passed.
    elapsed = 0.0 if facts.now is None else facts.dt
    least = _LEAST_MARGIN * cpus
    margin = least + (max(known.margin, least) - least) * 0.5 ** (elapsed / _MARGIN_EASES_IN)
    if is_above(present, known.wanted) and not facts.census.unmeasured:
        # What a pod asks for that is not measured yet, as each is at first, is no surge.
        margin = max(margin, present - known.wanted)
    wanted = max(present, present + (known.wanted - present) * math.exp(-elapsed / (_DEMAND_EASES_IN * 2**known.relapses)))
    return _recall(draft, wanted=wanted, margin=min(margin, _MOST_MARGIN * cpus))


def _wants(facts: Facts, demand: Mapping[str, float]) -> dict[str, float]:
    """Return what each LS pod of a demand wants, in cores, by its key. Of what it wants beyond what it uses, by waiting or a moment ago,
    only the share counts by which its p99 is near to its SLO: waiting that costs it nothing is no demand. All where that is not known."""
    wanted = dict(demand)
    for pod in facts.census.ls:
        usage, p99, slo = pod.cpu.usage, pod.latency.p99, pod.latency.slo
        if usage is not None and p99 is not None and slo and pod.key in wanted:
            used = min(usage, wanted[pod.key])
            wanted[pod.key] = used + (wanted[pod.key] - used) * min(1.0, p99 / (_NEAR * slo))
    return wanted


def _follow(facts: Facts, draft: Draft, wellbeing: Wellbeing, worst: Suffering | None) -> Draft:
    """Keep since when somebody suffers, forgive with time, and see whether a fall has helped."""
    known = draft.state.objective
    relapses = known.relapses * 0.5 ** (facts.dt / _RELAPSE_WITHIN) if known.relapses > 0.01 else 0.0
    since = None if worst is None else facts.now if known.suffering_since is None else known.suffering_since
    draft = _recall(draft, suffering_since=since, relapses=relapses)
    if known.severity is None:
        return draft
    severity = max((each.severity for each in wellbeing.suffering), default=0.0)
    if severity < _NO_BETTER * known.severity:
        return draft if worst is not None else _recall(draft, severity=None, futile=max(0, known.futile - 1))
    if worst is not None and not _has_shown(facts, draft):
        return draft
    # As bad as before, and BE has made way, or is not waited for: it was not the cause.
    futile = known.futile + 1
    borne_for = min(_BORNE_MOST, _BORNE_FOR * 2.0 ** min(futile - 1, 10))
    until = None if facts.now is None else facts.now + borne_for
    unlearned = max(0.0, relapses - 1)
    return _recall(draft, severity=None, ceiling=None, relapses=unlearned, futile=futile, borne_until=until, borne=severity)


def _look_for_room(facts: Facts, draft: Draft, worst: Suffering | None, bound: Bound | None) -> Draft:
    """Keep since when nobody suffers and there is room for clearly more than the limit in force."""
    limit, since = draft.state.be_limit, draft.state.objective.roomy_since
    top, _ = _top(facts, draft, bound)
    is_full = limit is not None and not is_at_least(top - limit, _WORTH * facts.cpus)
    return _recall(draft, roomy_since=None if worst is not None or is_full else facts.now if since is None else since)


def _has_shown(facts: Facts, draft: Draft) -> bool:
    """Tell whether a fall has had the time to help."""
    if facts.snapshot.be_shielded:
        return facts.has_held(draft.state.objective.fell, _SHOWS_IN)
    return draft.state.floor_since is not None and facts.has_held(draft.state.floor_since, _FLOOR_SHOWS_IN)


def _tell_elsewhere(wellbeing: Wellbeing, draft: Draft) -> Draft:
    for each in wellbeing.suffering:
        if each.elsewhere:
            draft = draft.refuse(_PLUGIN, "slow-elsewhere", suffering_words(each), each.pod)
    return draft


def _recall(draft: Draft, **changes: object) -> Draft:
    return draft.remember(objective=replace(draft.state.objective, **changes))


# -- down --------------------------------------------------------------------------------------------------------------------------------


def _may_fall(facts: Facts, draft: Draft) -> bool:
    known = draft.state.objective
    if not is_above(be_use(facts, draft), 1.1 * facts.settings.cpu_suppress.min_cores):
        return False
    if not facts.has_held(known.suffering_since, _PATIENCE if facts.snapshot.be_shielded else _LASTS):
        return False
    return facts.has_held(known.fell, _SETTLES_IN)


def is_borne(facts: Facts, known: Objective, worst: Suffering) -> bool:
    """Tell whether nothing falls for this suffering, for falling was of no use a while ago."""
    return known.borne_until is not None and not facts.is_over(known.borne_until) and worst.severity <= _WORSE * known.borne


def be_use(facts: Facts, draft: Draft) -> float:
    """Return what BE uses in cores, at most: while some pod is not measured, all that no measured one and not the system uses."""
    if not facts.census.unmeasured:
        return facts.census.be_usage
    return max(facts.census.be_usage, facts.node_usage - facts.census.ls_usage - draft.resources.system_reserved)


def remainder(severity: float) -> float:
    """Return the share of what BE had that a fall leaves it: less the more somebody suffers."""
    return max(_DEEPEST, min(_SHALLOWEST, 1 / (1 + severity)))


def _fall_for(facts: Facts, draft: Draft, worst: Suffering, bound: Bound | None) -> tuple[Aim, Draft]:
    state, known = draft.state, draft.state.objective
    limit = math.inf if state.be_limit is None else state.be_limit
    had = min(limit, be_use(facts, draft))
    share = remainder(worst.severity)
    least = facts.settings.cpu_suppress.min_cores
    fallen = max(least, had * share) if bound is None else max(least, min(had * share, bound.target))
    if not is_above(limit, fallen) or (limit < math.inf and not is_at_least(limit - fallen, DEAD_BAND * limit)):
        return Aim(state.be_limit, f"{suffering_words(worst)}; BE stays"), draft
    draft = _fell(facts, draft)
    relapses = draft.state.objective.relapses
    severity = worst.severity if known.severity is None else known.severity
    draft = _recall(
        draft,
        unsure=None,
        # What is only observed cannot help, so nothing is learned of that it did not.
        severity=severity if facts.settings.mode(_PLUGIN) is Mode.ENFORCE else None,
        # Behind the shield one fall proves nothing: only what comes back with BE is BE's doing.
        ceiling=had if bound is not None or is_at_least(relapses, 1) else None,
    )
    from_what = f"min(limit {limit:.4g}, BE usage {be_use(facts, draft):.4g})" if limit < math.inf else f"BE usage {had:.4g}"
    held = f", at most {bound.target:.4g} ({bound.words})" if bound is not None else ""
    reason = f"{suffering_words(worst)}: {from_what} x {share:.2f}{held}, at least {least:g}: falls to {fallen:.4g}"
    return Aim(fallen, reason), draft


def _fell(facts: Facts, draft: Draft) -> Draft:
    """Remember a fall; one that undoes a rise, the first or soon after the fall before, is a relapse."""
    known = draft.state.objective
    again = draft.state.last_move > 0 and (known.fell is None or facts.elapsed(known.fell) < _RELAPSE_WITHIN)
    relapses = min(_MOST_RELAPSES, known.relapses + (1 if again else 0))
    return moved(facts, _recall(draft, fell=facts.now, relapses=relapses), -1)


def _bound(facts: Facts, draft: Draft) -> Bound:
    known, available = draft.state.objective, draft.resources.node_available

    def beside(demand: Mapping[str, float]) -> float:
        taken = sum(max(cores, draft.granted.get(key, 0.0)) for key, cores in _wants(facts, demand).items())
        return available - taken - forecast_claim(facts, draft)

    room = beside(facts.ls_held)
    wanted, margin = known.wanted or 0.0, known.margin or 0.0
    target = min(room, available - wanted) - margin
    words = f"node {available:.4g} - LS demand {available - min(room, available - wanted):.4g} - margin {margin:.4g}"
    return Bound(room, target, beside(ls_demand(facts, draft)), words)


def _fit(facts: Facts, draft: Draft, bound: Bound) -> tuple[Aim | None, Draft]:
    """Return a fall to what fits beside the LS pods' demand; None: it does, or it is not certain yet that it does not.

    All limits together fit the node at any moment, so one that does not is lowered to what is left, whatever is aimed at here (section 5).
    What it was before is remembered: it comes down by the margin too as soon as another look finds that it would not fit."""
    limit, least = draft.state.be_limit, facts.settings.cpu_suppress.min_cores
    fits = max(least, bound.target)
    if limit is None or math.isinf(limit):
        return Aim(fits, f"{bound.words}, at least {least:g}; no limit was in force"), draft
    had = max(limit, draft.state.objective.unsure or 0.0)
    if is_above(had, max(least, bound.room)) and is_at_least(limit - fits, DEAD_BAND * limit):
        why = f"falls at once from {limit:.4g}, there is no room for {had:.4g} beside LS demand"
        return Aim(fits, f"{bound.words}, at least {least:g}: {fits:.4g}; {why}"), _fell(facts, _recall(draft, unsure=None))
    return None, _recall(draft, unsure=had if is_above(had, max(least, bound.now)) else None)


# -- up ----------------------------------------------------------------------------------------------------------------------------------


def _rise(facts: Facts, draft: Draft, wellbeing: Wellbeing, bound: Bound | None) -> tuple[Aim, Draft]:
    state, known = draft.state, draft.state.objective
    limit = state.be_limit
    if limit is None:
        return Aim(None, "no LS pod suffers from BE, and the kernel puts it behind all others"), draft
    stay = Aim(limit, "it stays")
    is_held, draft = _is_held(facts, draft)
    if is_held:
        return stay, draft
    if bound is None and known.fell is None:
        return Aim(None, _unlimited("no LS pod has suffered from BE", limit)), draft
    step = facts.settings.cpu_suppress.relax_step * facts.cpus * facts.dt * wellbeing.slack * 0.5**known.relapses
    if state.last_move < 0:
        step = min(step, DEAD_BAND * facts.cpus)
    top, words = _top(facts, draft, bound)
    raised = min(top, limit + step)
    if bound is None and is_at_least(raised, draft.resources.node_available):
        draft = _recall(draft, ceiling=None)
        return Aim(None, _unlimited("no LS pod suffers from BE any more", limit)), moved(facts, draft, 1)
    # A step that is smaller than the dead band is still a step: what matters is whether there is somewhere to go.
    if not is_at_least(top - limit, DEAD_BAND * facts.cpus) or not is_above(raised, limit):
        return stay, draft
    relapses = counted(float(f"{known.relapses:.2g}"), "relapse")
    reason = f"no LS pod suffers from BE, slack {wellbeing.slack:.0%}, {relapses}; {words}; from {limit:.4g} one step"
    return Aim(raised, f"{reason} to {raised:.4g}"), moved(facts, draft, 1)


def _unlimited(why: str, limit: float) -> str:
    return f"{why}, and the kernel puts it behind all others: no limit instead of {limit:.4g} cores"


def _top(facts: Facts, draft: Draft, bound: Bound | None) -> tuple[float, str]:
    """Return how far the limit may rise now."""
    known = draft.state.objective
    top, words = (math.inf, "no bound") if bound is None else (bound.target, f"at most {bound.target:.4g} ({bound.words})")
    if known.ceiling is None or known.fell is None:
        return top, words
    minutes = facts.elapsed(known.fell) / 60
    ceiling = _BELOW_CEILING * known.ceiling + _REOPENS * facts.cpus * minutes * 0.5**known.relapses
    return (ceiling, f"at most {ceiling:.4g} ({known.ceiling:.4g} was too much {minutes:.1f} min ago)") if ceiling < top else (top, words)


def _is_held(facts: Facts, draft: Draft) -> tuple[bool, Draft]:
    """Tell whether nothing may rise now."""
    known, state = draft.state.objective, draft.state
    if draft.failures:
        return True, draft.refuse(_PLUGIN, "plugin-failed", "a plugin failed in this cycle: nothing is relaxed")
    if facts.census.unmeasured:
        names = ", ".join(facts.census.unmeasured[:3])
        return True, draft.refuse(_PLUGIN, "not-measured", f"BE is not raised while the CPU usage of some pod is unknown: {names}")
    # The first step of a turn is small and has to hold for a minute: the margin is wider than that step, so that a surge which comes back
    # within the minute finds room, and the limit does not have to turn again.
    if last_minute(facts, state):
        return True, draft
    is_worth_a_turn = known.roomy_since is not None and facts.has_held(known.roomy_since, min(_LONGEST_ROOMY, _ROOMY * 10**known.relapses))
    return state.last_move < 0 and not is_worth_a_turn, draft
