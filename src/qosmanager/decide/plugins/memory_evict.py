"""MemoryEvict: BE goes before memory runs out, one by one, or as many as it takes at once (specification, section 5.6)."""

from __future__ import annotations

import math

from msgspec import Struct

from qosmanager.config.settings import VictimOrder
from qosmanager.decide.facts import Draft, Facts, is_terminating, may_be_evicted
from qosmanager.decide.relief import why_to_wait
from qosmanager.model.actions import Evict
from qosmanager.model.assessment import Leak
from qosmanager.model.census import is_above, is_at_least
from qosmanager.model.qos import MatrixAction, Mode, Plugin
from qosmanager.model.snapshot import Pod
from qosmanager.model.state import Pending
from qosmanager.views.fare import leak_words

_GIB = 1 << 30
_MB = 1_000_000
_SHORT_UNTIL = 1.5  # x minAvailable: hysteresis of the low-memory trigger
_ABNORMAL_GROWTH = 5.0  # percent per minute of LS memory
_RUSH = 3.0  # seconds looked back for how fast it goes right now; a minute's mean says little of what has just begun
_PLUGIN = Plugin.MEMORY_EVICT


class Memory(Struct, frozen=True):
    """The node's memory in bytes."""

    total: int
    available: int


class Need(Struct, frozen=True):
    """In bytes: what must become free, and what of it is not on its way yet. `causes` names the triggers that hold."""

    need: float
    to_free: float
    causes: tuple[str, ...]


def memory_evict(facts: Facts, draft: Draft) -> Draft:
    """Evict BE pods when memory is short."""
    mode = facts.settings.mode(_PLUGIN)
    if mode is Mode.OFF:
        return draft.remember(memory_short=False)
    draft = _remember_terminating(facts, draft)
    node = facts.snapshot.node
    if not node.memory_total or node.memory_available is None:
        return draft
    memory = Memory(node.memory_total, node.memory_available)
    draft = draft.remember(memory_short=_is_short(facts, draft, memory))
    causes = _causes(facts, draft, memory)
    if not causes:
        return draft
    if facts.no_evictions is not None:
        return draft.refuse(_PLUGIN, "barred", facts.no_evictions)
    if draft.failures:
        return draft.refuse(_PLUGIN, "plugin-failed", "a plugin failed in this cycle: nobody is evicted")
    waits = why_to_wait(facts, draft.state)
    if waits is not None:
        return draft.refuse(_PLUGIN, "reclaim-first", f"{causes[0]}; {waits}")
    if mode is Mode.OBSERVE and not facts.is_over(draft.state.cooldown_until.get(_PLUGIN.value)):
        return draft.refuse(_PLUGIN, "observed", "a victim was reported within terminationTimeout; observing ends nobody")
    need = _need(facts, draft, memory, causes)
    candidates, draft = _candidates(facts, draft, need)
    chosen = _choose(facts, draft, need, candidates)
    if not chosen:
        return draft.refuse(_PLUGIN, *_why_nobody(need, candidates))
    return _evict(facts, draft, need, chosen)


def _is_short(facts: Facts, draft: Draft, memory: Memory) -> bool:
    floor = facts.settings.memory_evict.min_available * memory.total
    if draft.state.memory_short:
        return not is_above(memory.available, _SHORT_UNTIL * floor)
    return is_above(floor, memory.available)


def _causes(facts: Facts, draft: Draft, memory: Memory) -> tuple[str, ...]:
    settings, pressure = facts.settings.memory_evict, facts.assessment.memory
    score = pressure.score if pressure.mean is None else min(pressure.score, pressure.mean)
    growth = facts.snapshot.node.ls_memory_growth
    causes = []
    if facts.assessment.matrix.action is MatrixAction.EVICT_BE_IMMEDIATELY:
        causes.append("EVICT_BE_IMMEDIATELY")
    if facts.assessment.oom.present:
        causes.append("OOM risk: " + "; ".join(facts.assessment.oom.reasons))
    if draft.state.memory_short:
        percent = memory.available / memory.total * 100
        causes.append(f"available {percent:.1f} percent, minAvailable {settings.min_available * 100:g}")
    if is_above(score, settings.evict_threshold):
        causes.append(f"score {score:.1f} above {settings.evict_threshold:g}")
    if growth is not None and is_above(growth, _ABNORMAL_GROWTH) and is_above(score, facts.settings.memory_pressure.high):
        causes.append(f"score {score:.1f} and LS memory growing {growth:.1f} percent a minute")
    return tuple(causes)


def _need(facts: Facts, draft: Draft, memory: Memory, causes: tuple[str, ...]) -> Need:
    outstanding = sum(
        max(0, pod.memory.request - pod.memory.rss)
        for pod in facts.census.ls
        if pod.memory.rss is not None and pod.memory.request is not None
    )
    relief = max(0.0, memory.total * (1 - facts.settings.memory_evict.target_utilization) - memory.available)
    need = max(1.3 * (outstanding - memory.available), relief)
    return Need(need, need - sum(_held(pod) for pod in _on_their_way(facts, draft)), causes)


def _held(pod: Pod) -> int:
    """Return what a pod's end frees in bytes, as far as it is measured."""
    return pod.memory.rss or 0


def _leaves(draft: Draft, pod: Pod) -> bool:
    """Tell whether a BE pod is terminating, or chosen earlier in this cycle."""
    return is_terminating(pod, draft.state)


def _leak(facts: Facts, pod: Pod) -> Leak | None:
    """Return the pod's leak; None where it has none, or is only warming up."""
    return next((leak for leak in facts.assessment.leaks if leak.pod == pod.key and not leak.warming_up), None)


def _candidates(facts: Facts, draft: Draft, need: Need) -> tuple[list[Pod], Draft]:
    """Return the possible victims in the order in which they go."""
    by_priority = facts.settings.memory_evict.order is VictimOrder.PRIORITY

    def turn(pod: Pod) -> tuple[bool, float, float, float, str]:
        rss, priority = -float(_held(pod)), float(pod.priority)
        leaks_much = _leak(facts, pod) is not None and is_at_least(_held(pod), need.need / 10)
        first, second = (priority, rss) if by_priority else (rss, priority)
        return (not leaks_much, first, second, -(pod.created or -math.inf), pod.key)

    fit = []
    for pod in facts.census.be:
        unfit = ("its memory is not measured" if pod.memory.rss is None else "it holds no memory") if not pod.memory.rss else None
        unfit = unfit or may_be_evicted(facts, draft.state, pod)
        if unfit is None:
            fit.append(pod)
        else:
            draft = draft.refuse(_PLUGIN, "no-victim", unfit, pod.key)
    return sorted(fit, key=turn), draft


def _choose(facts: Facts, draft: Draft, need: Need, candidates: list[Pod]) -> list[Pod]:
    if need.need <= 0:
        leaking = [pod for pod in candidates if _leak(facts, pod) is not None]
        return [] if any(_leaves(draft, pod) for pod in facts.census.be) else leaking[:1]
    if facts.assessment.oom.present:
        chosen: list[Pod] = []
        left = need.to_free
        for pod in candidates:
            if left <= 0:
                break
            chosen.append(pod)
            left -= _held(pod)
        return chosen
    return [] if _on_their_way(facts, draft) else candidates[:1]


def _on_their_way(facts: Facts, draft: Draft) -> list[Pod]:
    """Return the BE pods that are about to go. One that has not gone within its terminationTimeout frees nothing to count on."""
    timeout, since = facts.settings.memory_evict.termination_timeout, draft.state.terminating_since
    leaving = [pod for pod in facts.census.be if _leaves(draft, pod)]
    return [pod for pod in leaving if since.get(pod.identity) is None or not facts.has_held(since[pod.identity], timeout)]


def _why_nobody(need: Need, candidates: list[Pod]) -> tuple[str, str]:
    numbers = f"need {need.need / _GIB:.2f} GiB, {max(0.0, need.to_free) / _GIB:.2f} GiB of it still to free"
    if need.need <= 0:
        return "no-need", f"{need.causes[0]}, but enough is left for what LS asked for and no pod leaks"
    if need.to_free <= 0:
        return "pending-release", f"{numbers}: victims on their way cover it"
    if not candidates:
        return "no-victim", f"{numbers}, but no BE pod may be evicted"
    return "pending-release", f"{numbers}: waiting for the victim on its way"


def _evict(facts: Facts, draft: Draft, need: Need, chosen: list[Pod]) -> Draft:
    mode = facts.settings.mode(_PLUGIN)
    oom = facts.assessment.oom
    grace = _grace(facts) if oom.present else None
    cause = " and ".join(need.causes)
    for place, pod in enumerate(chosen, 1):
        leak = _leak(facts, pod)
        what = "" if leak is None else f"{leak_words(leak)}, "
        reason = f"{cause}; need {need.need / _GIB:.2f} GiB; victim {place} of {len(chosen)}: {what}holds {_held(pod) / _GIB:.2f} GiB"
        draft = draft.act(
            Evict(
                plugin=_PLUGIN,
                reason=reason,
                mode=mode,
                pod=pod.key,
                uid=pod.uid,
                grace=grace,
                cpu=pod.cpu.usage,
                memory=pod.memory.rss,
                leaking=leak is not None,
                growth=None if leak is None else leak.growth,
            )
        )
    if mode is not Mode.ENFORCE:
        # Nobody goes, so the shortage lasts: report it once per terminationTimeout, as if each victim had taken that long.
        until = None if facts.now is None else facts.now + facts.settings.memory_evict.termination_timeout
        return draft.remember(cooldown_until={**draft.state.cooldown_until, _PLUGIN.value: until})
    pending = tuple(Pending(pod=pod.key, since=facts.now, uid=pod.uid, cpu=pod.cpu.usage or 0.0, memory=_held(pod)) for pod in chosen)
    return _remember_terminating(facts, draft.remember(pending=draft.state.pending + pending))


def _grace(facts: Facts) -> float | None:
    """Return half the time that memory lasts, at the rate of the last minute or of the last seconds, in seconds; None: it does not fall."""
    forecast, available, now = facts.assessment.oom.forecast, facts.snapshot.node.memory_available, facts.now
    lasts = [] if forecast is None else [forecast]
    if available is not None and now is not None:
        recent = ((now - moment.time, moment.memory_available) for moment in facts.before.recent)
        falls = ((ago, then - available) for ago, then in recent if 0 < ago <= _RUSH and then is not None)
        # Less than an eighth of what is left is no fall but jitter, over a tenth of a second above all.
        lasts += [available * ago / fall for ago, fall in falls if fall > available / 8]
    return min(lasts) / 2 if lasts else None


def _remember_terminating(facts: Facts, draft: Draft) -> Draft:
    """Keep since when each BE pod has been on its way out."""
    known = draft.state.terminating_since
    if not known and not draft.state.pending and not any(pod.terminating for pod in facts.census.be):
        return draft
    now = facts.now
    since = {pod.identity: known.get(pod.identity, now) for pod in facts.census.be if _leaves(draft, pod)}
    return draft.remember(terminating_since={key: moment for key, moment in since.items() if moment is not None})
