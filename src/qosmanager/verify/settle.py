"""What the executor's receipts mean for the state (specification, sections 9 and 10).

decide() returns the state as if everything had been done. Here what was not done is taken back, so that the next cycle
starts from what is in force in the kernel, and what was done gets a watch, so that its effect is looked for.
"""

from __future__ import annotations

import math

from msgspec.structs import replace

from qosmanager.model.actions import (
    KINDS,
    Action,
    Evict,
    Outcome,
    Plan,
    Receipt,
    RestoreBeCpuLimit,
    RestoreBeCpuset,
    RestoreCpuLimit,
    Result,
    SetBeCpuLimit,
    SetBeCpuset,
    SetCpuLimit,
    Verdict,
)
from qosmanager.model.qos import Mode, Plugin
from qosmanager.model.snapshot import Pod, Snapshot
from qosmanager.model.state import Pending, State, Watch

_NOT_DONE = (Result.FAILED, Result.REFUSED, Result.RECORDED)
BE = "BE"  # target of actions on all of BE
_CPUS = "cpuset.cpus"  # target of what is done to the CPUs of BE's groups


def settle(
    before: State, planned: State, plan: Plan, receipts: tuple[Receipt, ...], snapshot: Snapshot
) -> tuple[State, tuple[Outcome, ...]]:
    """Return the state in force after the receipts, and the outcomes they tell by themselves (overwritten values)."""
    state = planned
    for number, action in enumerate(plan.actions):
        if action.mode is not Mode.ENFORCE:
            continue
        results = {receipt.result for receipt in receipts if receipt.action == number}
        if results.intersection(_NOT_DONE):
            state = _take_back(before, state, action, snapshot.time)
        elif results == {Result.GONE} and isinstance(action, SetCpuLimit):
            state = _without_burst(state, action.pod)
        elif results:
            state = _watch(_confirmed(state, action), action, snapshot)
    foreign = [receipt for receipt in receipts if receipt.result is Result.DRIFTED]
    for receipt in foreign:
        if receipt.pod is not None:
            # Somebody else's value on an LS file is the new original: the burst is over, nothing is written.
            state = _without_burst(state, receipt.pod)
    for receipt in receipts:
        if receipt.action is None:
            state = _later(state, receipt, snapshot.time)
    state, ended = _ended_victims(state, receipts, snapshot.time)
    return state, (*(_overwritten(receipt, snapshot.time) for receipt in foreign), *ended)


def _later(state: State, receipt: Receipt, now: float | None) -> State:
    """What comes of an action after its cycle: the group of a burst is gone, a victim cannot be ended after all, or the CPUs that held BE
    may no longer do so."""
    pod = receipt.pod
    if receipt.result is Result.REFUSED and receipt.target == _CPUS and state.be_cpus is not None:
        # BE has its own CPUs back: the quota holds it from the next cycle on.
        return replace(state, cpuset_refused=now)
    if pod is None:
        return state
    if receipt.result is Result.GONE:
        return _without_burst(state, pod)
    # The target of an eviction is the pod itself, not a file of it.
    failed = next((victim for victim in state.pending if _is_about(receipt, victim)), None)
    if receipt.result is Result.FAILED and receipt.target == pod and failed is not None:
        pending = tuple(victim for victim in state.pending if victim.pod != pod)
        return _unfit(_without_round(replace(state, pending=pending), failed), failed, now)
    return state


def _without_round(state: State, failed: Pending) -> State:
    """A round of CPUEvict of which nobody was evicted after all did not happen: nothing cools down, the next candidate goes at once."""
    chosen_by_cpu = any(
        watch.plugin == Plugin.CPU_EVICT.value and watch.kind == KINDS[Evict] and watch.target == failed.pod for watch in state.watches
    )
    since = _begun(failed)
    others_go = any(_begun(victim) >= since for victim in state.pending)  # of this round, or of one that was begun meanwhile
    others_went = state.victim_ended is not None and state.victim_ended >= since
    if not chosen_by_cpu or others_go or others_went:
        return state
    cooling = {plugin: until for plugin, until in state.cooldown_until.items() if plugin != Plugin.CPU_EVICT.value}
    return replace(state, cooldown_until=cooling, evict_rounds=max(0, state.evict_rounds - 1))


def _begun(victim: Pending) -> float:
    return -math.inf if victim.since is None else victim.since


def _confirmed(state: State, action: Action) -> State:
    return replace(state, cpuset_refused=None) if isinstance(action, SetBeCpuset) and state.cpuset_refused is not None else state


def _unfit(state: State, pod: Evict | Pending, now: float | None) -> State:
    return state if now is None else replace(state, unfit_since={**state.unfit_since, _identity(pod): now})


def _identity(pod: Evict | Pending) -> str:
    return pod.uid or pod.pod


def _take_back(before: State, state: State, action: Action, now: float | None) -> State:
    match action:
        case SetCpuLimit():
            return _without_burst(state, action.pod)
        case RestoreCpuLimit():
            # Still raised in the kernel: keep the burst, its time is over, so that the next cycle tries again.
            burst = next((burst for burst in before.bursts if burst.pod == action.pod), None)
            return state if burst is None or _has_burst(state, action.pod) else replace(state, bursts=(*state.bursts, burst))
        case SetBeCpuLimit() | RestoreBeCpuLimit():
            return _held_as_before(before, state, now)
        case SetBeCpuset() | RestoreBeCpuset():
            refused = now if isinstance(action, SetBeCpuset) else state.cpuset_refused
            return replace(_held_as_before(before, state, now), be_cpus=before.be_cpus, cpuset_refused=refused)
        case Evict():
            return _unfit(_without_victim(before, state, action), action, now)


def _held_as_before(before: State, state: State, now: float | None) -> State:
    """BE has what it had; what it was to have has not been tried, and nobody is evicted because it did not help (section 5.5). Where BE has
    no limit at all that is told by itself, and the level counts on."""
    since = state.suppress_since if now is None or before.be_limit is None else now
    return replace(state, be_limit=before.be_limit, be_observed=before.be_observed, floor_since=before.floor_since, suppress_since=since)


def _without_burst(state: State, pod: str) -> State:
    return replace(state, bursts=tuple(burst for burst in state.bursts if burst.pod != pod))


def _has_burst(state: State, pod: str) -> bool:
    return any(burst.pod == pod for burst in state.bursts)


def _without_victim(before: State, state: State, action: Evict) -> State:
    """The victim was not evicted: it is not pending, and when nobody else of its round was, nothing cools down."""
    pending = tuple(victim for victim in state.pending if victim.pod != action.pod)
    state = replace(state, pending=pending)
    known = {victim.pod for victim in before.pending}
    if action.plugin is Plugin.CPU_EVICT and all(victim.pod in known for victim in pending):
        state = replace(state, cooldown_until=before.cooldown_until, evict_rounds=before.evict_rounds)
    return state


def _ended_victims(state: State, receipts: tuple[Receipt, ...], now: float | None) -> tuple[State, tuple[Outcome, ...]]:
    """Victims of which no process is left are gone, although their group may stay, and may be used again."""
    gone = [receipt for receipt in receipts if receipt.action is None and receipt.result is Result.GONE]
    ended = [victim for victim in state.pending if any(_is_about(receipt, victim) for receipt in gone)]
    if not ended:
        return state, ()
    names, identities = {victim.pod for victim in ended}, {_identity(victim) for victim in ended}
    seen = [watch for watch in state.watches if watch.kind == KINDS[Evict] and watch.target in names]
    state = replace(
        state,
        pending=tuple(victim for victim in state.pending if victim not in ended),
        terminating_since={pod: since for pod, since in state.terminating_since.items() if pod not in identities},
        victim_ended=now,
        watches=tuple(watch for watch in state.watches if watch not in seen),
    )
    return state, tuple(
        Outcome(
            plugin=Plugin(watch.plugin),
            kind=watch.kind,
            target=watch.target,
            verdict=Verdict.EFFECTIVE,
            since=watch.since,
            detail="gone: no process is left",
        )
        for watch in seen
    )


def _is_about(receipt: Receipt, victim: Pending) -> bool:
    """Tell whether a receipt is about this victim, and not about another pod that had its name."""
    return receipt.pod == victim.pod and receipt.uid in ("", victim.uid)


def _watch(state: State, action: Action, snapshot: Snapshot) -> State:
    target = getattr(action, "pod", BE)
    pod = next((pod for pod in snapshot.pods if pod.key == target), None)
    watch = Watch(
        plugin=action.plugin.value,
        kind=KINDS[type(action)],
        target=target,
        uid="" if pod is None else pod.uid,
        since=snapshot.time,
        value=_expected(action),
        before=_reading_before(action, pod, snapshot),
    )
    others = tuple(old for old in state.watches if (old.kind, old.target) != (watch.kind, watch.target))
    return replace(state, watches=(*others, watch))


def _expected(action: Action) -> float | None:
    match action:
        case SetCpuLimit() | RestoreCpuLimit() | SetBeCpuLimit():
            return action.cores
        case SetBeCpuset():
            return float(sum(_length(part) for part in action.cpus.split(",")))
        case Evict():
            return None if action.memory is None else float(action.memory)
        case RestoreBeCpuLimit() | RestoreBeCpuset():
            return None


def _length(part: str) -> int:
    first, _, last = part.partition("-")
    return int(last or first) - int(first) + 1


def _reading_before(action: Action, pod: Pod | None, snapshot: Snapshot) -> float | None:
    match action:
        case SetCpuLimit() if pod is not None:
            return stress(pod)
        case Evict():
            available = snapshot.node.memory_available
            return None if available is None else float(available)
        case _:
            return None


def stress(pod: Pod) -> float | None:
    """Return what a burst is to relieve: the throttled ratio, else wait by usage; None when neither is measured."""
    if pod.cpu.throttled is not None:
        return pod.cpu.throttled
    if pod.cpu.wait is not None and pod.cpu.usage:
        return pod.cpu.wait / pod.cpu.usage
    return None


def _overwritten(receipt: Receipt, now: float | None) -> Outcome:
    limit = receipt.target.rpartition("/")[2].startswith(("cpu.cfs_", "cpu.max", "cpuset."))
    batch = Plugin.CPU_SUPPRESS if limit else Plugin.NODE_QOS_RESOURCE
    plugin = batch if receipt.pod is None else Plugin.CPU_BURST
    found = receipt.before if receipt.pod is None else receipt.after  # an LS file keeps what was found
    detail = f"{found or 'another value'} was found instead of ours; {receipt.detail}"
    return Outcome(plugin=plugin, kind="drift", target=receipt.pod or receipt.target, verdict=Verdict.OVERWRITTEN, since=now, detail=detail)
