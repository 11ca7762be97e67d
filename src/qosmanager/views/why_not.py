"""Why nothing was done to a pod (section 10): the refusals of the last cycle, and what the pod's own state already settles.

In: the present status and a pod's key. Out: reasons, by the plugin they are about. Nothing is decided anew: where neither a refusal nor the
pod's state settles it, the plugin's rule stands beside the readings it goes by.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from qosmanager.config.settings import Trigger
from qosmanager.documents.quantities import shown_bytes
from qosmanager.model.qos import Plugin, QoS
from qosmanager.views.reports import consequence
from qosmanager.views.status import PodView, Status
from qosmanager.views.suspects import accusations, attribution_text

AGENT = "agent"
SUSPECTED = "suspicion"
_RESTARTED = ("DaemonSet", "Node")


class Reason(Struct, frozen=True):
    """What it is about (a plugin's name, "agent" or "suspicion"), and why."""

    about: str
    text: str


def why_not(status: Status, key: str) -> tuple[Reason, ...]:
    """Return the reasons for a pod that /status knows."""
    pod = next(each for each in status.pods if each.key == key)
    reasons = [*_agent(status)]
    if pod.qos == QoS.SYSTEM.value:
        reasons.append(Reason(AGENT, "it is of class SYSTEM: outside co-location, measured and never touched"))
    elif pod.qos == QoS.BE.value:
        reasons.append(Reason(Plugin.CPU_BURST.value, "only LS and LSR pods get a burst"))
        reasons.append(Reason(Plugin.CPU_SUPPRESS.value, _suppressed(status)))
        reasons.extend(Reason(SUSPECTED, text) for text in accusations(status.attributions, key))
        reasons.extend(Reason(plugin.value, _not_evicted(status, pod, plugin)) for plugin in (Plugin.CPU_EVICT, Plugin.MEMORY_EVICT))
    else:
        reasons.extend(Reason(SUSPECTED, attribution_text(each)) for each in status.attributions if each.pod == key)
        reasons.append(Reason(Plugin.CPU_BURST.value, _no_burst(status, pod)))
        reasons.append(Reason(AGENT, f"it is of class {pod.qos}: only BE is suppressed or evicted"))
    return tuple(reasons)


def _agent(status: Status) -> Iterator[Reason]:
    if status.dry_run:
        yield Reason(AGENT, "it is a dry run: it decides and reports, and changes nothing")
    if status.paused:
        yield Reason(AGENT, f"the agent is paused until {status.pause.until}" if status.pause else "the agent is paused")
    for reason in status.degraded:
        if reason != "paused":
            yield Reason(AGENT, f"degraded ({reason}): {consequence(reason)}")
    for plugin, error in status.failures.items():
        yield Reason(plugin, f"failed in the last cycle ({error}): the rest of it only tightens and evicts nobody")


def _no_burst(status: Status, pod: PodView) -> str:
    plugin = Plugin.CPU_BURST.value
    limit, usage, in_force = pod.cpu["limit"], pod.cpu["usage"], pod.cpu["effective_limit"]
    if (mode := _held_back(status, plugin)) is not None:
        return mode
    if limit is not None and in_force is not None and in_force > limit:
        return f"a burst runs: its limit is raised from {limit:.4g} to {in_force:.4g} cores"
    if (refused := _refused(status, plugin, pod.key)) is not None:
        return refused
    if pod.qos == QoS.LSE.value:
        return "an LSE pod owns its cores; it needs no burst"
    if pod.burst_cooldown is not None:
        return f"its last burst has ended: another may begin in {pod.burst_cooldown:.0f} s"
    if limit is None:
        why = status.missing.get(f"pods.{pod.key}.cpu.limit")
        return f"it has no CPU limit of its own{f' ({why})' if why not in (None, 'no limit') else ''}: there is nothing to raise"
    if usage is None:
        return f"its CPU usage is not measured: {_missing(status, pod, 'cpu.usage')}"
    throttled = pod.cpu["throttled"]
    share = f"not measured ({_missing(status, pod, 'cpu.throttled')})" if throttled is None else f"{throttled:.1%}"
    return (
        f"a burst begins at 0.9 x its limit, or when it is throttled above 5%: it uses {usage:.4g} of {limit:.4g} cores, throttled {share}"
    )


def _suppressed(status: Status) -> str:
    plugin, be = Plugin.CPU_SUPPRESS.value, status.be
    if (mode := _held_back(status, plugin)) is not None:
        return mode
    refused = _refused(status, plugin, None)
    unless = f"; {refused}" if refused else ""
    if be.limit is None:
        return f"no BE limit is in force{unless}"
    usage = "not measured" if be.usage is None else f"{be.usage:.4g}"
    level = status.assessment.effective_level
    return f"the limit is one for all BE: {be.limit:.4g} cores at level {level}, of which BE uses {usage}{unless}"


def _not_evicted(status: Status, pod: PodView, plugin: Plugin) -> str:
    if (mode := _held_back(status, plugin.value)) is not None:
        return mode
    if pod.terminating:
        return "it is on its way out already"
    immune = _immune(status, pod)
    refused = _refused(status, plugin.value, pod.key) or immune or _refused(status, plugin.value, None)
    if refused is not None:
        return refused
    victims = [action.subject for action in status.actions if action.plugin == plugin.value]
    if victims:
        return f"others came first in the last cycle: {', '.join(victims)}"
    unmeasured, name = ("cpu.usage", "CPU usage") if plugin is Plugin.CPU_EVICT else ("memory.rss", "memory")
    group, _, reading = unmeasured.partition(".")
    if getattr(pod, group)[reading] is None:
        return f"its {name} is not measured ({_missing(status, pod, unmeasured)}): it is no victim"
    return _cpu_trigger(status) if plugin is Plugin.CPU_EVICT else _memory_trigger(status)


def _immune(status: Status, pod: PodView) -> str | None:
    if pod.critical:
        return "it is critical: never evicted"
    if pod.owner in _RESTARTED:
        return f"its owner is a {pod.owner}, which would start it again here: never evicted"
    if not pod.labelled and not status.settings.evict_unlabelled:
        return "it has no QoS label of its own and evictUnlabelled is false: never evicted"
    return None


def _cpu_trigger(status: Status) -> str:
    settings, assessment = status.settings.cpu_evict, status.assessment
    both = "and" if settings.trigger is Trigger.BOTH else "or"
    rule = f"it acts when the CPU score is above {settings.evict_threshold:g} {both} the SLO is violated"
    return f"{rule}: the score is {(assessment.cpu_without_be or assessment.cpu).score:.1f}, the SLO signal {assessment.slo}"


def _memory_trigger(status: Status) -> str:
    settings, memory = status.settings.memory_evict, status.assessment.memory
    bounds = f"above score {settings.evict_threshold:g}, below {settings.min_available:.0%} available, or at OOM risk"
    total, available = status.node.get("memory_total"), status.node.get("memory_available")
    left = "not measured" if not total or available is None else f"{shown_bytes(available)} ({available / total:.0%})"
    return f"it acts {bounds}: the score is {memory.score:.1f}, available is {left}, OOM risk {'yes' if memory.oom_risk else 'no'}"


def _held_back(status: Status, plugin: str) -> str | None:
    mode = status.plugins.get(plugin, "off")
    if mode == "enforce":
        return None
    return "it is off" if mode == "off" else "it only observes: it reports what it would do, and does nothing"


def _refused(status: Status, plugin: str, pod: str | None) -> str | None:
    found = [f"{each.reason} [{each.rule}]" for each in status.refusals if each.plugin.value == plugin and each.pod == pod]
    return "; ".join(found) or None


def _missing(status: Status, pod: PodView, reading: str) -> str:
    return status.missing.get(f"pods.{pod.key}.{reading}", "no reason given")
