"""CPUSuppress: hold BE at what LS leaves, down at once and up slowly (specification, sections 4, 5.4 and 10)."""

from __future__ import annotations

import math

from msgspec.structs import replace

from qosmanager.config.settings import Policy, Strategy
from qosmanager.decide.allowance import Allowance, allowance, counted_ls_usage, forecast_claim, ls_claim
from qosmanager.decide.cpu_list import choose_cpus
from qosmanager.decide.facts import Draft, Facts
from qosmanager.decide.level import hold_level
from qosmanager.decide.motion import DEAD_BAND, MINUTE, last_minute, moved, oscillating
from qosmanager.decide.objective import aim
from qosmanager.model.actions import RestoreBeCpuLimit, RestoreBeCpuset, SetBeCpuLimit, SetBeCpuset
from qosmanager.model.census import is_above, is_at_least
from qosmanager.model.count import counted
from qosmanager.model.cpu_list import format_cpus
from qosmanager.model.qos import Mode, Plugin
from qosmanager.model.snapshot import CpuId
from qosmanager.model.state import State

_STARVING_AFTER = 600.0  # seconds at the floor
_CPUS_AGAIN = 60.0  # seconds after which CPUs that could not be set are tried again
_SOFT, _SOFT_AT_MOST = 0.02, 0.1  # of the CPUs, and of the limit: less is not worth a turn upwards, nor to strategy usage a fall
_PLUGIN = Plugin.CPU_SUPPRESS


def cpu_suppress(facts: Facts, draft: Draft) -> Draft:
    """Hold the level, compute the target, approach it, and write it as a quota or as CPUs."""
    mode = facts.settings.mode(_PLUGIN)
    if draft.failures and not draft.state.be_observed and _is_held_otherwise(draft.state, mode):
        return draft.refuse(_PLUGIN, "plugin-failed", f"a plugin failed in this cycle: BE stays limited although the mode is {mode.value}")
    draft = _release_if_not_wanted(facts, draft, mode)
    if mode is Mode.OFF:
        return draft.remember(suppress_level=None, suppress_since=None, below_since=None)
    held = hold_level(facts, draft)
    draft = replace(draft, level=held.level)
    draft = draft.remember(suppress_level=held.level, suppress_since=held.since, below_since=held.below_since)
    draft = draft.remember(be_observed=mode is Mode.OBSERVE, oscillating=oscillating(facts, draft.state))
    if facts.settings.cpu_suppress.strategy is Strategy.SLO:
        aimed, draft = aim(facts, draft)
        if aimed.limit is None:
            return _let_go(draft, mode, aimed.reason).remember(floor_since=None)
        return _report_starving(facts, hold(facts, draft, aimed.limit, aimed.reason), aimed.limit)
    allowed = allowance(facts, draft, held.level)
    limit, draft = _approach(facts, draft, allowed)
    draft = hold(facts, draft, limit, _reason(facts, draft, allowed, limit))
    return _report_starving(facts, draft, limit)


def _is_held_otherwise(state: State, mode: Mode) -> bool:
    """Tell whether a limit was decided in another mode than the present one."""
    has_limit = state.be_limit is not None or state.be_cpus is not None
    return has_limit and mode is not (Mode.OBSERVE if state.be_observed else Mode.ENFORCE)


def _release_if_not_wanted(facts: Facts, draft: Draft, mode: Mode) -> Draft:
    """Put BE's own limits back when the plugin no longer enforces and its limit is in the kernel, and forget what was observed."""
    state = draft.state
    observed = state.be_observed
    if observed is not (mode is Mode.OBSERVE):
        draft = draft.remember(objective=state.objective.of_services())
    if not _is_held_otherwise(state, mode):
        return draft
    held = [] if state.be_limit is None else [f"{state.be_limit:.4g} cores"]
    held += [] if state.be_cpus is None else [f"CPUs {state.be_cpus}"]
    reason = f"CPUSuppress is set to {mode.value}; BE was held at {' and '.join(held)}"
    if not observed:
        draft = _let_go(draft, Mode.ENFORCE, reason)
    # The level holds BE anew from here: what was only observed is not "suppression was tried".
    return draft.remember(be_limit=None, be_cpus=None, be_observed=False, suppress_since=facts.now, last_move=0, floor_since=None)


def _let_go(draft: Draft, mode: Mode, reason: str) -> Draft:
    """Put back what BE had of its own, where anything of ours holds it."""
    state = draft.state
    if state.be_limit is not None and (state.be_cpus is None or _quota_holds(state.be_limit)):
        draft = draft.act(RestoreBeCpuLimit(plugin=_PLUGIN, reason=reason, mode=mode))
    if state.be_cpus is not None:
        draft = draft.act(RestoreBeCpuset(plugin=_PLUGIN, reason=reason, mode=mode))
    return draft.remember(be_limit=None, be_cpus=None)


def _quota_holds(limit: float | None) -> bool:
    """Tell whether under policy cpuset the quota is in force as well: below one core."""
    return limit is not None and is_above(1.0, limit)


def _approach(facts: Facts, draft: Draft, allowed: Allowance) -> tuple[float, Draft]:
    """Return the limit to be in force and the draft with the move remembered: falls at once, rises step by step."""
    settings, limit, target = facts.settings.cpu_suppress, draft.state.be_limit, allowed.target
    if limit is None or math.isinf(limit):
        return target, draft
    if is_above(limit, target):
        return (target, moved(facts, draft, -1)) if _is_worth_a_fall(facts, allowed, limit) else (limit, draft)
    if not is_at_least(target - limit, DEAD_BAND * facts.cpus) or not is_above(target, limit):
        return limit, draft
    if draft.failures:
        return limit, draft.refuse(_PLUGIN, "plugin-failed", "a plugin failed in this cycle: nothing is relaxed")
    if facts.census.unmeasured:
        names = ", ".join(facts.census.unmeasured[:3])
        return limit, draft.refuse(_PLUGIN, "not-measured", f"BE is not raised while the CPU usage of some pod is unknown: {names}")
    if draft.state.last_move < 0 and not _is_worth_a_turn(facts, draft, target - limit):
        return limit, draft
    step = settings.relax_step * facts.cpus * facts.dt * (0.5 if draft.state.oscillating else 1.0)
    return min(target, limit + step), moved(facts, draft, 1)


def _is_worth_a_fall(facts: Facts, allowed: Allowance, limit: float) -> bool:
    """Tell whether a limit in force falls to a lower target; a utilization is aimed at less sharply than what has to fit the node."""
    settings, band = facts.settings.cpu_suppress, DEAD_BAND * limit
    if settings.strategy is Strategy.USAGE and not is_above(limit, max(allowed.room, settings.min_cores)):
        band = max(band, min(_SOFT * facts.cpus, _SOFT_AT_MOST * limit))
    return is_at_least(limit - allowed.target, band)


def _is_worth_a_turn(facts: Facts, draft: Draft, rise: float) -> bool:
    """Tell whether a limit that fell is to rise again: services want more and less by the second, so not for little, and a minute after the
    last turn (section 13)."""
    return not last_minute(facts, draft.state) and is_at_least(rise, _SOFT * facts.cpus)


def hold(facts: Facts, draft: Draft, limit: float, reason: str) -> Draft:
    """Have BE held at this limit, as a quota or as CPUs, with what does not hold it any more taken off."""
    mode = facts.settings.mode(_PLUGIN)
    state = draft.state
    cpus = _cpus(facts, limit) if facts.settings.cpu_suppress.policy is Policy.CPUSET else None
    if cpus is not None and _are_refused(facts, state, limit):
        cpus = None
        reason += f"; as a quota, for CPUs could not be set {facts.elapsed(state.cpuset_refused):.0f} s ago"
        draft = draft.refuse(_PLUGIN, "cpuset-refused", f"CPUs could not be set: a quota instead, CPUs again after {_CPUS_AGAIN:g} s")
    quota_before = state.be_limit if state.be_cpus is None or _quota_holds(state.be_limit) else None
    quota = limit if cpus is None or _quota_holds(limit) else None
    if cpus is not None and cpus != state.be_cpus:
        draft = draft.act(SetBeCpuset(plugin=_PLUGIN, reason=reason, mode=mode, cpus=cpus))
    if quota is not None and quota != quota_before:
        draft = draft.act(SetBeCpuLimit(plugin=_PLUGIN, reason=reason, mode=mode, cores=quota))
    if quota is None and quota_before is not None:
        draft = draft.act(
            RestoreBeCpuLimit(plugin=_PLUGIN, reason=f"{cpus} hold BE instead of the quota of {quota_before:.4g} cores", mode=mode)
        )
    if cpus is None and state.be_cpus is not None:
        draft = draft.act(RestoreBeCpuset(plugin=_PLUGIN, reason=f"the quota of {limit:.4g} cores holds BE instead of CPUs", mode=mode))
    return draft.remember(be_limit=limit, be_cpus=cpus)


def _cpus(facts: Facts, limit: float) -> str | None:
    """Return the CPUs for this limit; None when there is none that BE may have: a cpuset is never empty, so the quota holds BE then."""
    node, allowed = facts.snapshot.node, facts.snapshot.be_cpus
    topology = node.topology or tuple(CpuId(cpu, core=cpu) for cpu in range(math.ceil(node.cpus)))
    free = tuple(place for place in topology if not allowed or place.cpu in allowed)
    return format_cpus(choose_cpus(free, max(1, math.ceil(round(limit, 9))), facts.exclusive_cpus)) or None


def _are_refused(facts: Facts, state: State, limit: float) -> bool:
    """Tell whether CPUs are not to be tried now: they were refused a moment ago, or a limit that falls would have to wait for them."""
    if state.cpuset_refused is None:
        return False
    falls = state.be_limit is not None and limit < state.be_limit
    return falls or not facts.has_held(state.cpuset_refused, _CPUS_AGAIN)


def _reason(facts: Facts, draft: Draft, allowed: Allowance, limit: float) -> str:
    settings, resources = facts.settings.cpu_suppress, draft.resources
    level = draft.level
    if settings.strategy is Strategy.USAGE:
        origin = (
            f"{counted(facts.cpus, 'CPU')} x {settings.target_utilization:g} - LS usage {counted_ls_usage(facts):.4g}"
            f" - system {resources.system_reserved:.4g}"
        )
    else:
        origin = (
            f"{level.value}: (node {resources.node_available:.4g} - LS claim {ls_claim(facts, draft):.4g})"
            f" x {settings.suppress_ratio.of(level):g}"
        )
    foretold = forecast_claim(facts, draft)
    beside = f"LS demand and {foretold:.4g} more that is foretold" if foretold else "LS demand"
    reason = f"{origin}, at most {allowed.room:.4g} beside {beside}, at least {settings.min_cores:g}: target {allowed.target:.4g}"
    before = draft.state.be_limit
    if before is None:
        return f"{reason}; no limit was in force"
    if limit < before:
        return f"{reason}; falls at once from {before:.4g}"
    return f"{reason}; from {before:.4g} one step to {limit:.4g}" if limit < allowed.target else f"{reason}; from {before:.4g}"


def _report_starving(facts: Facts, draft: Draft, limit: float) -> Draft:
    if is_above(limit, facts.settings.cpu_suppress.min_cores):
        return draft.remember(floor_since=None)
    since = facts.now if draft.state.floor_since is None else draft.state.floor_since
    draft = draft.remember(floor_since=since)
    if since is not None and facts.has_held(since, _STARVING_AFTER):
        minutes = facts.elapsed(since) / MINUTE
        return draft.refuse(_PLUGIN, "starving", f"BE has been at its floor of {limit:.4g} cores for {minutes:.0f} minutes")
    return draft
