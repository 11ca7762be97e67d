"""One plan from one judgement: the public function of this package (specification, sections 2 and 5)."""

from __future__ import annotations

from msgspec.structs import replace

from qosmanager.config.settings import Settings
from qosmanager.decide.facts import Draft, Facts
from qosmanager.decide.guardrails import guard
from qosmanager.decide.plugins.cpu_burst import cpu_burst, end_bursts, expire_bursts
from qosmanager.decide.plugins.cpu_evict import cpu_evict
from qosmanager.decide.plugins.cpu_suppress import cpu_suppress
from qosmanager.decide.plugins.memory_evict import memory_evict
from qosmanager.decide.plugins.node_qos_resource import node_qos_resource
from qosmanager.decide.plugins.system_qos_resource import system_qos_resource
from qosmanager.decide.standing import standing
from qosmanager.model.actions import Plan, PluginFailure, Resources
from qosmanager.model.assessment import Assessment
from qosmanager.model.census import Census
from qosmanager.model.qos import Mode, Plugin
from qosmanager.model.snapshot import Snapshot
from qosmanager.model.state import State

PODS_STALE = "pods_stale"
EVICTIONS_BARRED = "evictions_barred"  # the reason under which a plan says so while memory runs out

ORDER = (
    (Plugin.NODE_QOS_RESOURCE, node_qos_resource),  # what there is
    (Plugin.SYSTEM_QOS_RESOURCE, system_qos_resource),  # less what the system uses: node_available for all that follow
    (Plugin.CPU_BURST, cpu_burst),  # LS first: what is granted here is no longer BE's
    (Plugin.CPU_SUPPRESS, cpu_suppress),  # BE gets what is left; gentler than eviction, so before it
    (Plugin.CPU_EVICT, cpu_evict),  # only when suppression holds and does not help
    (Plugin.MEMORY_EVICT, memory_evict),  # last: whom CPUEvict chose frees memory too
)


def decide(state: State, snapshot: Snapshot, census: Census, assessment: Assessment, settings: Settings) -> tuple[State, Plan]:
    """Return the next state and the plan. Pure: the same input gives the same bytes."""
    facts = Facts(
        snapshot=snapshot,
        census=census,
        assessment=assessment,
        settings=settings,
        before=state,
        dt=_since_last_cycle(state, snapshot, settings),
    )
    draft = _first_draft(facts)
    degraded = degradation(snapshot, settings)
    if snapshot.paused:
        draft = end_bursts(facts, draft, "the agent is paused")
        draft = replace(draft, state=_interrupted(draft.state))
    elif degraded:
        draft = expire_bursts(facts, draft)
        draft = replace(draft, state=_interrupted(draft.state))
    else:
        draft = guard(facts, _run_plugins(facts, draft))
    failed = tuple(f"{failure.plugin.value}_failed" for failure in draft.failures)
    stale = (PODS_STALE,) if facts.pods_stale else ()
    helpless = (f"{EVICTIONS_BARRED}: {facts.no_evictions}",) if _is_helpless(facts) else ()
    plan = Plan(
        actions=draft.actions,
        refusals=draft.refusals,
        failures=draft.failures,
        standing=draft.standing,
        resources=draft.resources,
        level=draft.level,
        raised=tuple(burst.pod for burst in draft.state.bursts if not burst.observed),
        degraded=degraded + (("paused",) if snapshot.paused else ()) + failed + stale + helpless,
    )
    return replace(draft.state, time=snapshot.time), plan


def degradation(snapshot: Snapshot, settings: Settings) -> tuple[str, ...]:
    """Return why this snapshot is no ground to decide on: a stale node sample, or no CPU usage; empty: it is one (section 2)."""
    if snapshot.node_age > settings.stale_after:
        return ("node_stale",)
    return ("node_cpu_not_measured",) if snapshot.node.cpu_usage is None else ()


def _is_helpless(facts: Facts) -> bool:
    """Tell whether memory runs out and nobody can be evicted for it."""
    acts = facts.settings.mode(Plugin.MEMORY_EVICT) is Mode.ENFORCE and not facts.snapshot.paused
    return acts and facts.assessment.oom.present and facts.no_evictions is not None


def _run_plugins(facts: Facts, draft: Draft) -> Draft:
    for plugin, run in ORDER:
        try:
            draft = run(facts, draft)
        except Exception as error:  # noqa: BLE001  a plugin that fails must not take the others with it
            draft = replace(draft, failures=(*draft.failures, PluginFailure(plugin, f"{type(error).__name__}: {error}")))
    return draft


def _interrupted(state: State) -> State:
    """Return the state with every "held without a break" begun anew: nothing was measured meanwhile that it could have held through."""
    bursts = tuple(replace(burst, calm_since=None) for burst in state.bursts)
    objective = replace(state.objective, suffering_since=None, unsure=None)
    return replace(state, below_since=None, score_above_since=None, bursts=bursts, objective=objective)


def _is_gap(state: State, snapshot: Snapshot, settings: Settings) -> bool:
    """Tell whether cycles are missing before this one, or the clock went back."""
    if state.time is None or snapshot.time is None:
        return False
    return not 0 <= snapshot.time - state.time <= settings.stale_after


def _since_last_cycle(state: State, snapshot: Snapshot, settings: Settings) -> float:
    """Return the seconds since the last cycle; a gap counts as no more than the age at which data is stale."""
    if state.time is None or snapshot.time is None or snapshot.time <= state.time:
        return settings.sync_period
    return min(snapshot.time - state.time, settings.stale_after)


def _first_draft(facts: Facts) -> Draft:
    node, settings, now = facts.snapshot.node, facts.settings, facts.now
    reserved = max(node.system_reserved, settings.system_reserved.cpu)
    resources = Resources(
        cpus=node.cpus,
        node_available=node.cpus - reserved,
        system_reserved=reserved,
        system_usage=None,
        ls_request=0.0,
        exclusive_cpus=0.0,
        be_allowance=0.0,
        memory_total=node.memory_total,
        memory_reserved=settings.system_reserved.memory,
    )
    state = facts.before
    if _is_gap(state, facts.snapshot, settings):
        state = _interrupted(state)
    if state.unfit_since:
        patience = settings.memory_evict.termination_timeout
        unfit = {pod: since for pod, since in state.unfit_since.items() if not facts.has_held(since, patience)}
        state = replace(state, unfit_since=unfit)
    if now is not None:
        cooling = {pod: until for pod, until in state.burst_cooldown_until.items() if not facts.is_over(until)}
        state = replace(state, burst_cooldown_until=cooling)
    held = None if settings.mode(Plugin.CPU_SUPPRESS) is Mode.OFF else state.suppress_level
    return Draft(
        state=state,
        level=held or facts.assessment.raw_level,
        resources=resources,
        standing=standing(facts),
        granted={burst.pod: burst.limit for burst in state.bursts if not burst.observed},
    )
