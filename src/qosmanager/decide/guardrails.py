"""The rules that no plan may break, checked on every plan before anybody acts on it (specification, section 5, invariant).

The plugins keep them by construction; this is the second lock on the door. An action that breaks one is a failure of its plugin: it is
reported, and the cycle only tightens (section 2). A BE limit that leaves LS less than it uses or was granted is lowered to what fits.
"""

from __future__ import annotations

import math

from msgspec.structs import replace

from qosmanager.config.settings import Strategy
from qosmanager.decide.facts import Draft, Facts
from qosmanager.decide.motion import DEAD_BAND
from qosmanager.decide.plugins.cpu_suppress import hold
from qosmanager.model.actions import (
    Action,
    Evict,
    PluginFailure,
    RestoreBeCpuLimit,
    RestoreBeCpuset,
    RestoreCpuLimit,
    SetBeCpuLimit,
    SetBeCpuset,
    SetCpuLimit,
)
from qosmanager.model.census import is_at_least
from qosmanager.model.qos import Mode, Plugin, QoS, is_latency_sensitive
from qosmanager.model.snapshot import Pod
from qosmanager.model.state import State

_HOLDING = (SetBeCpuLimit, RestoreBeCpuLimit, SetBeCpuset, RestoreBeCpuset)


def guard(facts: Facts, draft: Draft) -> Draft:
    """Return the draft as it is; or, when an action breaks a rule, with what tightens alone and the state from before the cycle, in which
    nothing but that has happened; and in any case with a BE limit that fits the node."""
    return _fitted(facts, _sound(facts, draft))


def _sound(facts: Facts, draft: Draft) -> Draft:
    if not draft.actions:
        return draft
    pods = {pod.key: pod for pod in facts.snapshot.pods}
    broken = [(action, rule) for action in draft.actions if (rule := _broken_rule(action, pods)) is not None]
    if not broken:
        return draft
    failures = tuple(PluginFailure(action.plugin, f"guardrail: {rule}: {action}") for action, rule in broken)
    refused = {id(action) for action, _ in broken}
    kept = tuple(action for action in draft.actions if id(action) not in refused and _tightens(action, facts.before))
    return replace(draft, actions=kept, failures=draft.failures + failures, state=_after(facts.before, kept, draft.state))


def _after(before: State, kept: tuple[Action, ...], planned: State) -> State:
    """Return the state from before the cycle with the bursts that end ended, and the limit that falls at its new value."""
    restored = {action.pod for action in kept if isinstance(action, RestoreCpuLimit)}
    bursts = tuple(burst for burst in before.bursts if burst.pod not in restored)
    after = replace(before, bursts=bursts, burst_cooldown_until=planned.burst_cooldown_until)
    limits = [action.cores for action in kept if isinstance(action, SetBeCpuLimit) and action.mode is Mode.ENFORCE]
    return replace(after, be_limit=limits[-1], be_observed=False) if limits else after


def _fitted(facts: Facts, draft: Draft) -> Draft:
    """Lower a BE limit that does not fit beside what the LS pods use or were granted, within the dead band of falls."""
    state = draft.state
    if facts.settings.mode(Plugin.CPU_SUPPRESS) is not Mode.ENFORCE or state.be_observed:
        return draft
    if facts.settings.cpu_suppress.strategy is Strategy.SLO and facts.snapshot.be_shielded:
        return draft  # the kernel's weights keep LS from BE, not the sum (section 13)
    taken = sum(max(pod.cpu.usage or 0.0, draft.granted.get(pod.key, 0.0)) for pod in facts.census.ls)
    room = max(facts.settings.cpu_suppress.min_cores, draft.resources.node_available - taken)
    limit = math.inf if state.be_limit is None else state.be_limit
    if not is_at_least(limit - room, DEAD_BAND * limit if limit < math.inf else 0.0):
        return draft
    before = facts.before
    others = tuple(action for action in draft.actions if not isinstance(action, _HOLDING))
    draft = replace(draft, actions=others, state=replace(state, be_limit=before.be_limit, be_cpus=before.be_cpus))
    reason = f"guardrail: LS uses or was granted {taken:.4g} of {draft.resources.node_available:.4g} cores, BE at {limit:.4g} does not fit"
    return hold(facts, draft, room, reason)


def _tightens(action: Action, before: State) -> bool:
    match action:
        case RestoreCpuLimit():
            return True
        case SetBeCpuLimit():
            return before.be_limit is None or action.cores <= before.be_limit
        case _:
            return False


def _broken_rule(action: Action, pods: dict[str, Pod]) -> str | None:
    match action:
        case Evict():
            pod = pods.get(action.pod)
            return None if pod is not None and pod.qos is QoS.BE and not pod.critical else "only BE pods that are not critical are evicted"
        case SetCpuLimit():
            pod = pods.get(action.pod)
            if pod is None or not is_latency_sensitive(pod.qos):
                return "only LS pods get a raised limit"
            own = pod.cpu.limit
            return None if own is not None and own <= action.cores < math.inf else "a burst is finite and never below the pod's own limit"
        case RestoreCpuLimit():
            pod = pods.get(action.pod)
            own = pod.cpu.limit if pod is not None else None
            return None if own is None or action.cores >= own else "no LS pod is lowered below its own limit"
        case SetBeCpuLimit():
            return None if 0 < action.cores < math.inf else "a BE limit is finite and above 0"
        case SetBeCpuset():
            return None if action.cpus else "a cpuset is never empty"
        case _:
            return None
