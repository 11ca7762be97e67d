"""CPUBurst: an LS pod at its own limit gets more for a short time, inside the node's headroom (specification, section 5.3)."""

from __future__ import annotations

from msgspec.structs import replace

from qosmanager.decide.facts import Draft, Facts
from qosmanager.model.actions import RestoreCpuLimit, SetCpuLimit
from qosmanager.model.census import is_above, is_at_least
from qosmanager.model.qos import Mode, Plugin, QoS
from qosmanager.model.snapshot import Pod
from qosmanager.model.state import Burst

_BUSY = 0.9  # of the pod's own limit
_THROTTLED = 0.05
_CALM_FOR = 3.0  # seconds
_WORTH_IT = 1.01
_PLUGIN = Plugin.CPU_BURST


def cpu_burst(facts: Facts, draft: Draft) -> Draft:
    """End or keep the bursts that run, then grant new ones from what headroom is left."""
    ended, draft = _settle_running(facts, draft)
    mode = facts.settings.mode(_PLUGIN)
    if mode is Mode.OFF:
        return draft
    idle = node_idle(facts)
    ratio = _ratio(facts, idle)
    wanting = [pod for pod in facts.census.ls if _wants_burst(pod) and pod.key not in ended | _bursting(draft)]
    if ratio is None:
        for pod in wanting:
            reason = f"node idle {idle:.1%} is under minNodeCPUIdle {facts.settings.cpu_burst.min_node_cpu_idle:.1%}"
            draft = draft.refuse(_PLUGIN, "node-idle", reason, pod.key)
        return draft
    if not wanting:
        return draft
    if draft.failures:
        return draft.refuse(_PLUGIN, "plugin-failed", "a plugin failed in this cycle: no new burst")
    left = _headroom(facts, draft)
    for pod in sorted(wanting, key=_turn):
        draft, left = _grant(facts, draft, pod, ratio, left)
    return draft


def end_bursts(facts: Facts, draft: Draft, why: str) -> Draft:
    """End every burst that runs: the agent is paused."""
    for burst in draft.state.bursts:
        draft = _end(facts, draft, burst, why)
    return draft.remember(bursts=())


def expire_bursts(facts: Facts, draft: Draft) -> Draft:
    """End the bursts whose time is over and keep the others; all that is done on stale data (section 2)."""
    kept = []
    for burst in draft.state.bursts:
        why = _why_over_in_any_case(facts, burst)
        if why is not None:
            draft = _end(facts, draft, burst, why)
        else:
            kept.append(burst)
    return draft.remember(bursts=tuple(kept))


def node_idle(facts: Facts) -> float:
    """Return the idle share of the node's CPUs, a ratio; what BE makes way with counts as idle."""
    return 1 - (facts.node_usage - _makes_way(facts)) / facts.cpus


def _makes_way(facts: Facts) -> float:
    """Return the cores that BE's limit takes from it as soon as somebody else wants them, down to its floor (section 13).

    What only observes grants from what an observed limit would give, what enforces from one in force.
    """
    settings = facts.settings
    mode = settings.mode(Plugin.CPU_SUPPRESS)
    if not settings.leaves_be_out or mode not in (Mode.ENFORCE, settings.mode(_PLUGIN)):
        return 0.0
    return max(0.0, facts.census.be_usage - settings.cpu_suppress.min_cores)


def _bursting(draft: Draft) -> set[str]:
    return {burst.pod for burst in draft.state.bursts}


def _settle_running(facts: Facts, draft: Draft) -> tuple[set[str], Draft]:
    """Return the pods whose burst ended in this cycle, and the draft with the kept bursts granted."""
    if not draft.state.bursts:
        return set(), draft
    pods = {pod.key: pod for pod in facts.census.ls}
    kept: list[Burst] = []
    ended: set[str] = set()
    for burst in draft.state.bursts:
        pod = pods.get(burst.pod)
        if pod is None or (burst.uid and pod.uid != burst.uid):
            continue  # the pod is gone, and its files with it
        calm_since = _calm_since(facts, burst, pod)
        why = _why_over(facts, burst, pod, calm_since)
        if why is not None:
            draft = _end(facts, draft, burst, why)
            ended.add(burst.pod)
        else:
            kept.append(replace(burst, calm_since=calm_since))
    granted = {burst.pod: burst.limit for burst in kept if not burst.observed}
    return ended, replace(draft.remember(bursts=tuple(kept)), granted=granted)


def _end(facts: Facts, draft: Draft, burst: Burst, why: str) -> Draft:
    pod = next((pod for pod in facts.census.ls if pod.key == burst.pod), None)
    own = pod.cpu.limit if pod is not None and pod.cpu.limit is not None else burst.base_limit
    until = None if facts.now is None else facts.now + facts.settings.cpu_burst.burst_cooldown
    draft = draft.remember(burst_cooldown_until={**draft.state.burst_cooldown_until, burst.pod: until})
    mode = Mode.OBSERVE if burst.observed else Mode.ENFORCE
    reason = f"burst to {burst.limit:.4g} cores ends: {why}; back to the pod's own {own:.4g}"
    return draft.act(RestoreCpuLimit(plugin=_PLUGIN, reason=reason, mode=mode, pod=burst.pod, cores=own))


def _calm_since(facts: Facts, burst: Burst, pod: Pod) -> float | None:
    usage, limit, throttled = pod.cpu.usage, burst.base_limit, pod.cpu.throttled
    if usage is None or is_at_least(usage, _BUSY * limit) or (throttled is not None and is_above(throttled, _THROTTLED)):
        return None
    return facts.now if burst.calm_since is None else burst.calm_since


def _why_over_in_any_case(facts: Facts, burst: Burst) -> str | None:
    """Return the reason for an end that needs no measurement."""
    duration, mode = facts.settings.cpu_burst.burst_duration, facts.settings.mode(_PLUGIN)
    if mode is Mode.OFF or (mode is Mode.OBSERVE and not burst.observed):
        return f"CPUBurst is set to {mode.value}"
    if burst.observed and mode is Mode.ENFORCE:
        return "it was only observed, and CPUBurst enforces now"
    return f"{duration:g} s are over" if facts.has_held(burst.started, duration) else None


def _why_over(facts: Facts, burst: Burst, pod: Pod, calm_since: float | None) -> str | None:
    if (why := _why_over_in_any_case(facts, burst)) is not None:
        return why
    settings, idle = facts.settings.cpu_burst, node_idle(facts)
    if calm_since is not None and burst.calm_since is not None and facts.has_held(calm_since, _CALM_FOR):
        return f"usage under {_BUSY:g} x limit and hardly throttled for {_CALM_FOR:g} s"
    if is_above(settings.min_node_cpu_idle / 2, idle):
        return f"node idle {idle:.1%} is under half of minNodeCPUIdle {settings.min_node_cpu_idle:.1%}"
    if pod.cpu.limit is not None and pod.cpu.limit != burst.base_limit:
        return f"the pod's own limit changed from {burst.base_limit:.4g} to {pod.cpu.limit:.4g}"
    return None


def _ratio(facts: Facts, idle: float) -> float | None:
    """Return the factor by which a limit may rise at this idle share; None: the node has nothing to spare."""
    settings = facts.settings.cpu_burst
    if is_above(settings.min_node_cpu_idle, idle):
        return None
    if is_above(idle, 0.30):
        return settings.burst_ratio
    return 1 + 0.6 * (settings.burst_ratio - 1)


def _wants_burst(pod: Pod) -> bool:
    cpu = pod.cpu
    if pod.qos is QoS.LSE or not cpu.limit or cpu.usage is None:
        return False
    return is_at_least(cpu.usage, _BUSY * cpu.limit) or (cpu.throttled is not None and is_above(cpu.throttled, _THROTTLED))


def _turn(pod: Pod) -> tuple[bool, int, float, str]:
    return (pod.qos is not QoS.LSR, -pod.priority, -(pod.cpu.throttled or 0.0), pod.key)


def _headroom(facts: Facts, draft: Draft) -> float:
    """Return the cores that nobody uses, less what running bursts may still take."""
    census, resources = facts.census, draft.resources
    makes_way = _makes_way(facts)
    used = census.ls_usage + census.be_usage - makes_way
    if census.unmeasured:
        # What is not measured pod by pod still shows in the node's usage: such a pod makes no room.
        used = max(used, facts.node_usage - (resources.system_usage or 0.0) - makes_way)
    usage = {pod.key: pod.cpu.usage or 0.0 for pod in census.ls}
    # After the running ones are settled all are of the present mode: what is observed shares the headroom as it would when enforced.
    reserved = sum(max(0.0, burst.limit - usage[burst.pod]) for burst in draft.state.bursts)
    return max(0.0, resources.node_available - used) - reserved


def _grant(facts: Facts, draft: Draft, pod: Pod, ratio: float, left: float) -> tuple[Draft, float]:
    limit, usage = pod.cpu.limit, pod.cpu.usage
    assert limit is not None
    assert usage is not None
    until = draft.state.burst_cooldown_until.get(pod.key)
    if not facts.is_over(until):
        return draft.refuse(_PLUGIN, "cooldown", f"cooling down for another {facts.remaining(until):.0f} s", pod.key), left
    new = min(limit * ratio, usage + max(0.0, left))
    if not is_above(new, limit * _WORTH_IT):
        reason = f"usage {usage:.4g} + headroom {max(0.0, left):.4g} gives {new:.4g}, not above limit {limit:.4g} x {_WORTH_IT}"
        return draft.refuse(_PLUGIN, "headroom", reason, pod.key), left
    mode = facts.settings.mode(_PLUGIN)
    observed = mode is Mode.OBSERVE
    throttled = "unknown" if pod.cpu.throttled is None else f"{pod.cpu.throttled:.1%}"
    reason = (
        f"usage {usage:.4g} of limit {limit:.4g}, throttled {throttled}; node idle {node_idle(facts):.1%} allows x {ratio:.3g}; "
        f"min({limit * ratio:.4g}, usage {usage:.4g} + headroom {left:.4g}) = {new:.4g}"
    )
    burst = Burst(pod=pod.key, base_limit=limit, limit=new, uid=pod.uid, started=facts.now, observed=observed)
    draft = draft.remember(bursts=(*draft.state.bursts, burst))
    draft = draft.act(SetCpuLimit(plugin=_PLUGIN, reason=reason, mode=mode, pod=pod.key, cores=new, base=limit))
    left -= max(0.0, new - usage)
    return (draft if observed else replace(draft, granted={**draft.granted, pod.key: new})), left
