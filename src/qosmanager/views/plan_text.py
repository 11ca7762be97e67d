"""One step of the engine as an explanation for people: plain text, 100 columns (specification, sections 4, 5 and 8).

In: what went into the step and what came out. Out: the node, each score with its factors and the readings behind them, the level BE is
held at, each action, what was refused, what was not measured. Scores and limits are those of the step; the reason for the level is
told from what was held before and after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from msgspec import Struct

from qosmanager.config.settings import Settings
from qosmanager.documents.quantities import shown_bytes, shown_duration
from qosmanager.model.actions import (
    Action,
    Evict,
    Plan,
    RestoreBeCpuLimit,
    RestoreBeCpuset,
    RestoreCpuLimit,
    SetBeCpuLimit,
    SetBeCpuset,
    SetCpuLimit,
)
from qosmanager.model.assessment import Assessment, MatrixInputs, Pressure
from qosmanager.model.census import Census
from qosmanager.model.count import counted
from qosmanager.model.qos import Mode, Plugin, Slo
from qosmanager.model.snapshot import Pod, Snapshot
from qosmanager.model.state import State
from qosmanager.views.fare import leak_words, wellbeing_lines
from qosmanager.views.figures import topic
from qosmanager.views.gaps import not_measured
from qosmanager.views.prose import readings, wrapped
from qosmanager.views.reports import EVICTS_NOBODY


class Step(Struct, frozen=True, kw_only=True):
    """Arguments and results of one call of the engine's step."""

    before: State
    snapshot: Snapshot
    settings: Settings
    after: State
    assessment: Assessment
    plan: Plan


def plan_text(step: Step) -> str:
    """Return the explanation, ending in a newline."""
    assessment = step.assessment
    sections = (
        ("Node", _node(step)),
        (f"CPU pressure {_verdict(assessment.cpu)}", _factors(assessment.cpu)),
        *_without_be(assessment),
        ("LS pods", wellbeing_lines(assessment.wellbeing)),
        (f"Memory pressure {_verdict(assessment.memory)}", (*_factors(assessment.memory), *_oom(assessment), *_leaks(assessment))),
        (f"I/O pressure {_verdict(assessment.io)}", _factors(assessment.io)),
        (f"Level {assessment.effective_level.value}", _level(step)),
        ("Actions", _actions(step)),
        ("Not done", _refused(step.plan)),
        ("Not measured", not_measured(step.snapshot)),
    )
    shown = [(title, list(lines)) for title, lines in sections]
    return "\n".join("\n".join([title, *(wrapped(line) for line in lines)]) + "\n" for title, lines in shown if lines)


def _node(step: Step) -> Iterator[str]:
    node, census, resources = step.snapshot.node, Census.of(step.snapshot), step.plan.resources
    used = "use not measured" if node.cpu_usage is None else f"{node.cpu_usage:.4g} cores in use"
    yield f"{counted(node.cpus, 'CPU')}, {used}" + (
        f"; kept for the system {resources.system_reserved:.4g}, for pods {resources.node_available:.4g}" if resources else ""
    )
    if node.memory_total is not None and node.memory_available is not None:
        yield f"memory {shown_bytes(node.memory_total)}, {shown_bytes(node.memory_available)} available"
    yield f"{_pods(census.ls, 'LS')}, {census.ls_request:.4g} requested; {_slo(step)}"
    limit, observed = step.before.be_limit, step.before.be_observed
    known = f"the limit {'observed' if observed else 'in force'} is {limit:.4g}" if limit is not None else "no limit is in force"
    yield f"{_pods(census.be, 'BE')}; {known}"
    for reason in step.plan.degraded:
        yield f"degraded: {reason}"


def _pods(pods: tuple[Pod, ...], kind: str) -> str:
    """Sum up what is measured, and say how many pods are not."""
    measured = [pod.cpu.usage for pod in pods if pod.cpu.usage is not None]
    count = counted(len(pods), f"{kind} pod")
    if len(measured) == len(pods):
        return f"{count}, {sum(measured):.4g} cores in use"
    return (
        f"{count}, {sum(measured):.4g} cores in use by {len(measured)}, the others not measured"
        if measured
        else f"{count}, use not measured"
    )


def _slo(step: Step) -> str:
    assessment = step.assessment
    match assessment.slo:
        case Slo.OK:
            return "all that have an SLO and a measured latency meet it"
        case Slo.UNKNOWN:
            return "whether they meet an SLO is unknown"
        case Slo.VIOLATED:
            by_key = {pod.key: pod.latency for pod in step.snapshot.pods}
            names = [
                f"{key} (p99 {(by_key[key].p99 or 0) * 1000:.4g} ms, SLO {(by_key[key].slo or 0) * 1000:.4g} ms)"
                for key in assessment.slo_violated_by
            ]
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            return f"above their SLO: {', '.join(names[:3])}{more}"
        case _:
            assert_never(assessment.slo)


def _verdict(pressure: Pressure) -> str:
    if all(factor.note for factor in pressure.factors):
        return f"unknown, counts as 0: {pressure.level.value}"
    mean = "" if pressure.mean is None else f" (mean {pressure.mean:.1f})"
    return f"{pressure.score:.1f}{mean}: {pressure.level.value}"


def _factors(pressure: Pressure) -> Iterator[str]:
    for factor in pressure.factors:
        if factor.points is not None:
            yield f"{factor.name:<10}{factor.points:5.1f} of {factor.cap:5.2f}   \t{readings(factor.inputs, factor.note)}"
    left_out = [f"{factor.name} ({factor.note})" for factor in pressure.factors if factor.points is None]
    if left_out:
        others = ", the others are scaled up" if any(factor.points for factor in pressure.factors) else ""
        yield f"left out: {', '.join(left_out)}{others}"


def _without_be(assessment: Assessment) -> Iterator[tuple[str, Iterator[str]]]:
    """Show the score that decides where BE makes way."""
    if assessment.guard is not None:
        yield f"CPU pressure without BE {_verdict(assessment.guard)}", _factors(assessment.guard)


def _leaks(assessment: Assessment) -> Iterator[str]:
    for leak in assessment.leaks:
        yield f"{leak.pod} is {leak_words(leak)}"


def _oom(assessment: Assessment) -> Iterator[str]:
    if assessment.oom.present:
        yield f"memory is about to run out: {'; '.join(assessment.oom.reasons)}"
    elif assessment.oom.forecast is not None:
        yield f"no OOM risk; at the present rate it lasts another {assessment.oom.forecast:.0f} s"


def _level(step: Step) -> Iterator[str]:
    """Say which level BE is held at and why."""
    assessment = step.assessment
    name, score = "CPU score" if assessment.guard is None else "CPU score without BE", assessment.deciding
    yield f"the {name} {score.score:.1f} is {score.level.value} (thresholds {_thresholds(step.settings)})"
    matrix = assessment.matrix
    yield f"the decision matrix says {matrix.priority.value}, {matrix.action.value}: {_matrix_readings(step)}"
    yield f"the higher of the two is {assessment.raw_level.value}; {_held(step)}"


def _matrix_readings(step: Step) -> str:
    """Show what the matrix was matched with; what was not measured counted as 0 there."""
    node, inputs = step.snapshot.node, step.assessment.matrix.inputs
    memory = node.memory_total and node.memory_available is not None
    parts = (
        "CPU not measured" if node.cpu_usage is None else f"CPU{_of_whom(inputs)} {inputs.cpu_percent:.1f} percent",
        f"memory {inputs.memory_percent:.1f} percent" if memory else "memory not measured",
        "trend not measured" if node.cpu_trend is None else f"trend {inputs.cpu_trend:.2f}",
        "some LS latency rises" if inputs.latency_rising else "no LS latency known to rise",
    )
    return ", ".join(parts)


def _of_whom(inputs: MatrixInputs) -> str:
    return " without BE" if inputs.without_be else ""


def _thresholds(settings: Settings) -> str:
    return "/".join(f"{getattr(settings.cpu_pressure, name):g}" for name in settings.cpu_pressure.__struct_fields__)


def _held(step: Step) -> str:
    """Say how the level follows from the present one and the one held before."""
    raw, level, before = step.assessment.raw_level, step.assessment.effective_level, step.before.suppress_level
    if step.settings.mode(Plugin.CPU_SUPPRESS) is Mode.OFF:
        return "CPUSuppress is off, so that nothing is held"
    holding = [reason for reason in step.plan.degraded if topic(reason) not in EVICTS_NOBODY]
    if holding and level == (before or raw):
        return f"nothing is relaxed in this cycle ({', '.join(holding)}): {level.value} stays"
    if before is None:
        return "no level was held before, so it holds"
    if level > before:
        return f"it rises from {before.value} at once"
    if level < before:
        return (
            f"a fall has been possible for {shown_duration(step.settings.hysteresis.hold)}, so BE goes one level down from {before.value}"
        )
    if raw > level:
        return f"one noisy sample does not count: the median of 3 s leaves BE at {level.value}"
    if raw == level:
        return f"BE stays at {level.value}"
    if step.after.below_since is not None:
        return (
            f"BE stays at {level.value} until a fall has been possible for {shown_duration(step.settings.hysteresis.hold)} without a break"
        )
    return (
        f"BE stays at {level.value}: with a margin of {counted(step.settings.hysteresis.margin, 'point')} and what BE would use "
        "at the next lower level, pressure would come back"
    )


def _actions(step: Step) -> Iterator[str]:
    if not step.plan.actions:
        yield "none: every limit stays as it is"
    for number, action in enumerate(step.plan.actions, 1):
        observed = "" if action.mode is Mode.ENFORCE else f" ({action.mode.value}: only reported)"
        yield f"{number}. \t{action.plugin.value}: {_headline(action, step.before)}{observed}, because {action.reason}"
    for failure in step.plan.failures:
        yield f"{failure.plugin.value} failed ({failure.error}): the rest only tightens and evicts nobody"


def _headline(action: Action, before: State) -> str:
    match action:
        case SetCpuLimit():
            return f"raise {action.pod} from {action.base:.4g} to {action.cores:.4g} cores for a burst"
        case RestoreCpuLimit():
            return f"put {action.pod} back to its own {action.cores:.4g} cores"
        case SetBeCpuLimit():
            return f"hold all BE at {action.cores:.4g} cores" + (f" (now {before.be_limit:.4g})" if before.be_limit is not None else "")
        case RestoreBeCpuLimit():
            return "put the BE groups' own CPU limits back"
        case SetBeCpuset():
            return f"hold all BE on CPUs {action.cpus}"
        case RestoreBeCpuset():
            return "put the BE groups' own CPUs back"
        case Evict():
            return f"evict {action.pod}{_freed(action)}" + (
                "; it leaks, so a person decides whether it comes back" if action.leaking else ""
            )
        case _:
            assert_never(action)


def _freed(action: Evict) -> str:
    parts = [f"{action.cpu:.4g} cores"] if action.cpu is not None else []
    parts += [f"{shown_bytes(action.memory)} of memory"] if action.memory is not None else []
    return f" (frees {' and '.join(parts)})" if parts else ""


def _refused(plan: Plan) -> Iterator[str]:
    for refusal in plan.refusals:
        about = f" {refusal.pod}" if refusal.pod else ""
        yield f"- \t{refusal.plugin.value}{about}: {refusal.reason} [{refusal.rule}]"
