"""Three troubles that are asked about most, looked into on the running agent's own data.

In: what /status and /decisions say. Out: for each trouble the checks in order, what each found, and one answer. Times in seconds; "lately"
is the last 10 minutes.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from itertools import pairwise

from msgspec import Struct

from qosmanager.documents.quantities import time as epoch
from qosmanager.model.count import counted
from qosmanager.model.qos import Plugin, QoS, is_latency_sensitive
from qosmanager.views.decisions import Entry
from qosmanager.views.figures import short
from qosmanager.views.status import PodView, Status

LATELY = 600.0
OFTEN = 3  # rounds of eviction in that time
CROSSINGS = 4  # of the threshold in that time
_HELD = 1.1  # times its limit: more than that, and BE is not held
_THROTTLED = 0.05
_NEAR_LIMIT = 0.9
_ENFORCE = "enforce"


class Verdict(Enum):
    """`unknown`: what the check needs is not measured, or nobody asked for it."""

    FINE = "fine"
    TROUBLED = "troubled"
    UNKNOWN = "unknown"


class Check(Struct, frozen=True, kw_only=True):
    """One look: what was asked, what was found."""

    question: str
    found: str


class Trouble(Struct, frozen=True, kw_only=True):
    """One trouble: the checks as far as they were needed, the answer, and what to change."""

    name: str
    verdict: Verdict
    checks: tuple[Check, ...]
    answer: str
    advice: tuple[str, ...] = ()


class Live(Struct, frozen=True, kw_only=True):
    """The running agent: its status, and its last decisions and events with their terms, oldest first."""

    status: Status
    entries: tuple[Entry, ...]


def troubles(live: Live) -> tuple[Trouble, ...]:
    """Look into all three."""
    return _slow_services(live), _evicted_often(live), _no_burst(live)


def _slow_services(live: Live) -> Trouble:
    name = "LS latency is high"
    status = live.status
    services = [pod for pod in status.pods if _is_service(pod) and pod.latency.get("slo") is not None]
    told = [pod for pod in services if pod.latency.get("p99") is not None]
    slow = [pod for pod in told if (pod.latency["p99"] or 0.0) > (pod.latency["slo"] or 0.0)]
    checks = [Check(question="which LS pods are above their SLO?", found=_slow_text(slow, len(told)))]
    if not slow:
        if told:
            return Trouble(name=name, verdict=Verdict.FINE, checks=tuple(checks), answer="no LS pod is above its SLO")
        answer = "not known: no LS pod tells a p99 and has an SLO; give it slo and latency in the workload file"
        return Trouble(name=name, verdict=Verdict.UNKNOWN, checks=tuple(checks), answer=answer)
    answer, advice = _why_slow(live, slow, checks)
    return Trouble(name=name, verdict=Verdict.TROUBLED, checks=tuple(checks), answer=answer, advice=advice)


def _why_slow(live: Live, slow: list[PodView], checks: list[Check]) -> tuple[str, tuple[str, ...]]:
    """Ask the questions in their order; return the answer at which they end, and what to change."""
    status, settings = live.status, live.status.settings
    score, medium = (status.assessment.cpu_without_be or status.assessment.cpu).score, settings.cpu_pressure.medium
    checks.append(Check(question=f"is the CPU under pressure ({medium:g} or more)?", found=f"score {score:.1f}"))
    if score < medium:
        withheld = [pod.key for pod in slow if _is_held_back(pod)]
        if withheld:
            advice = (f"its own limit holds {', '.join(withheld)} back: see the burst below, or raise the limit",)
        else:
            advice = (f"{_devices(status)}; and the service's own dependencies",)
        return "probably not the CPU: look at network and disk", advice
    held = _why_not_held(status)
    checks.append(Check(question="is BE held back?", found=held or f"yes, {_held_text(status)}"))
    if held:
        return "CPUSuppress may not be in effect: check its configuration", _suppress_advice(status)
    evicted = _rounds(live, Plugin.CPU_EVICT)
    refusal = next((f", now: {each.reason}" for each in status.refusals if each.plugin is Plugin.CPU_EVICT and each.pod is None), "")
    found = f"{counted(len(evicted), 'round')} in the last 10 minutes{refusal}"
    checks.append(Check(question="does CPUEvict evict?", found=found))
    tuning = _tuning(status)
    if not evicted:
        return "evictThreshold may be too high: lower it", tuning
    return "suppression and eviction are at work and do not suffice: make them act earlier", tuning


def _tuning(status: Status) -> tuple[str, ...]:
    """Return the changes that are not made yet."""
    settings = status.settings
    advice = []
    if settings.cpu_pressure.medium > 50:
        advice.append("cpuPressure.medium: 50")
    advice.append("cpuSuppress.suppressRatio: smaller ratios (preset latency-first: 0.7, 0.4, 0.2)")
    if status.plugins.get(Plugin.CPU_EVICT.value) != _ENFORCE or settings.cpu_evict.evict_threshold > 85:
        advice.append("cpuEvict: {mode: enforce, evictThreshold: 85}")
    return tuple(advice)


def _suppress_advice(status: Status) -> tuple[str, ...]:
    if status.paused:
        return ("the agent is paused: qosmanager resume",)
    if status.plugins.get(Plugin.CPU_SUPPRESS.value) != _ENFORCE:
        return ("cpuSuppress: {mode: enforce}",)
    return ("qosmanager explain --last 20 shows what became of its writes, qosmanager doctor as root whether it may write",)


def _why_not_held(status: Status) -> str:
    """Say why BE is not held back, or ""."""
    be, mode = status.be, status.plugins.get(Plugin.CPU_SUPPRESS.value)
    if status.paused:
        return "no: the agent is paused"
    if mode != _ENFORCE:
        return f"no: CPUSuppress is in mode {mode}"
    if be.pods and be.limit is None and be.cpus is None:
        return "no: no BE limit is in force"
    if be.limit is not None and be.usage is not None and be.usage > _HELD * be.limit:
        return f"no: BE uses {short(be.usage)} cores of a limit of {short(be.limit)}"
    return ""


def _held_text(status: Status) -> str:
    be = status.be
    if not be.pods:
        return "there is no BE pod"
    return f"at {f'CPUs {be.cpus}' if be.cpus else f'{short(be.limit)} cores'}, of which it uses {short(be.usage)}"


def _devices(status: Status) -> str:
    shown = (("disk_util", "disk busy"), ("iowait", "iowait"), ("io_psi_some", "I/O stall"), ("net_util", "network"))
    said = [f"{name} {value:.0f}%" for field, name in shown if (value := status.node.get(field)) is not None]
    return ", ".join(said) or "neither disks nor links are measured here"


def _evicted_often(live: Live) -> Trouble:
    name = "BE is evicted often"
    status, settings = live.status, live.status.settings.cpu_evict
    rounds = {plugin: _rounds(live, plugin) for plugin in (Plugin.CPU_EVICT, Plugin.MEMORY_EVICT)}
    crossings = _crossings(live, settings.evict_threshold)
    found = ", ".join(f"{plugin.value} {len(times)}" for plugin, times in rounds.items())
    checks = [Check(question="how many rounds in the last 10 minutes?", found=found)]
    often = {plugin for plugin, times in rounds.items() if len(times) >= OFTEN or any(b - a < 60 for a, b in pairwise(times))}
    if not often:
        return Trouble(name=name, verdict=Verdict.FINE, checks=tuple(checks), answer="BE is not evicted often")
    if Plugin.CPU_EVICT not in often:
        answer = "memory is short, not the CPU: thresholds would only delay it"
        advice = ("requests and limits of memory for BE; qosmanager explain --last 20 names leaking pods",)
        return Trouble(name=name, verdict=Verdict.TROUBLED, checks=tuple(checks), answer=answer, advice=advice)
    question = f"how often did the score cross {settings.evict_threshold:g}?"
    checks.append(Check(question=question, found=f"{counted(crossings, 'time')}, as far as decisions tell"))
    calmer = []
    if settings.evict_cooldown < 120:
        calmer.append("cpuEvict.evictCooldown: 120s")
    if status.settings.smoothing.window < 300:
        calmer.append("smoothing.window: 5m")
    if crossings >= CROSSINGS:
        answer = "the score swings across the threshold: smooth it, or cool down for longer"
        return Trouble(name=name, verdict=Verdict.TROUBLED, checks=tuple(checks), answer=answer, advice=tuple(calmer))
    raised = ("cpuEvict.evictThreshold: 95",) if settings.evict_threshold < 95 else ()
    answer = "evictThreshold is too low: raise it"
    return Trouble(name=name, verdict=Verdict.TROUBLED, checks=tuple(checks), answer=answer, advice=(*raised, *calmer))


def _no_burst(live: Live) -> Trouble:
    name = "CPUBurst does nothing"
    status, settings = live.status, live.status.settings.cpu_burst
    mode = status.plugins.get(Plugin.CPU_BURST.value)
    checks = [Check(question="is it switched on?", found=f"mode {mode}")]
    limited = [pod for pod in status.pods if pod.qos in (QoS.LS.value, QoS.LSR.value) and pod.cpu.get("limit") is not None]
    wanting = [pod for pod in limited if _is_held_back(pod) and not _is_raised(pod) and pod.burst_cooldown is None]
    if mode != _ENFORCE:
        verdict = Verdict.TROUBLED if wanting else Verdict.UNKNOWN
        return Trouble(name=name, verdict=verdict, checks=tuple(checks), answer="switch it on", advice=("cpuBurst: {mode: enforce}",))
    running = [pod.key for pod in limited if _is_raised(pod)]
    found = f"{counted(len(limited), 'pod')} with a limit: {len(running)} bursting, {len(wanting)} more held back by it"
    checks.append(Check(question="which LS pods could use it?", found=found))
    if not wanting:
        answer = f"it works: {', '.join(running)}" if running else "no LS pod is held back by its own limit"
        return Trouble(name=name, verdict=Verdict.FINE, checks=tuple(checks), answer=answer)
    cpus, usage, least = status.node.get("cpus"), status.node.get("cpu_usage"), settings.min_node_cpu_idle
    idle = None if usage is None or not cpus else 1 - usage / cpus
    found = "not measured" if idle is None else f"{idle:.0%} idle, minNodeCPUIdle is {least:.0%}"
    checks.append(Check(question="is enough of the node idle?", found=found))
    if idle is not None and idle < least:
        lower = ("cpuBurst.minNodeCPUIdle: 0.1",) if least > 0.1 else ()
        advice = (*lower, "or a larger node", "or fewer BE pods")
        return Trouble(name=name, verdict=Verdict.TROUBLED, checks=tuple(checks), answer="minNodeCPUIdle is not met", advice=advice)
    refusals = [f"{each.pod}: {each.reason}" for each in status.refusals if each.plugin is Plugin.CPU_BURST and each.pod]
    checks.append(Check(question="why is it refused?", found="; ".join(refusals[:3]) or "it is not: look again in a moment"))
    verdict = Verdict.TROUBLED if refusals else Verdict.FINE
    answer = "the node has no room above the limits: a larger node, or fewer BE pods" if refusals else "it is about to begin"
    return Trouble(name=name, verdict=verdict, checks=tuple(checks), answer=answer)


def _is_service(pod: PodView) -> bool:
    return is_latency_sensitive(QoS(pod.qos))


def _is_held_back(pod: PodView) -> bool:
    """Whether a pod's own limit withholds CPU from it: the condition under which it may burst (section 5.3)."""
    usage, limit, throttled = pod.cpu.get("usage"), pod.cpu.get("limit"), pod.cpu.get("throttled")
    near = usage is not None and limit is not None and usage >= _NEAR_LIMIT * limit
    return near or (limit is not None and throttled is not None and throttled > _THROTTLED)


def _is_raised(pod: PodView) -> bool:
    limit, effective = pod.cpu.get("limit"), pod.cpu.get("effective_limit")
    return limit is not None and effective is not None and effective > limit


def _slow_text(slow: list[PodView], told: int) -> str:
    if not slow:
        return f"none of {told} that tell a p99 and have an SLO"
    worst = sorted(slow, key=lambda pod: -(pod.latency["p99"] or 0.0) / (pod.latency["slo"] or 1.0))
    shown = [f"{pod.key} p99 {(pod.latency['p99'] or 0.0) * 1000:.0f} ms of {(pod.latency['slo'] or 0.0) * 1000:.0f}" for pod in worst[:3]]
    return ", ".join(shown) + (f" and {len(slow) - 3} more" if len(slow) > 3 else "")


def _lately(live: Live) -> Iterable[Entry]:
    now = epoch(live.status.time)
    return (entry for entry in live.entries if now - epoch(entry.time) <= LATELY)


def _rounds(live: Live, plugin: Plugin) -> list[float]:
    """Return when a plugin really evicted, in seconds: the victims of one cycle are one round."""
    rounds = {
        entry.cycle: epoch(entry.time)
        for entry in _lately(live)
        if entry.kind == "evict" and entry.plugin == plugin.value and entry.result in ("applied", "gone")
    }
    return sorted(rounds.values())


def _crossings(live: Live, threshold: float) -> int:
    """Count how often the CPU score went from one side of a threshold to the other, as far as decisions tell their scores."""
    above = [entry.terms.cpu.score > threshold for entry in _lately(live) if entry.terms is not None]
    return sum(before != after for before, after in pairwise(above))
