"""The present state as data, for /status and the screen (specification, sections 7 and 8).

In: the last cycle's record, the settings, facts about the process. Out: `Status`, which encodes to JSON. Cores, bytes, seconds and percent
as in the snapshot; not measured is null, with the reason under `missing`.
"""

from __future__ import annotations

from msgspec import Struct

from qosmanager.config.settings import Settings
from qosmanager.model.actions import Refusal
from qosmanager.model.assessment import Assessment, MatrixInputs, Pressure
from qosmanager.model.qos import Plugin, QoS
from qosmanager.model.record import CycleRecord
from qosmanager.model.snapshot import Pod
from qosmanager.model.state import State
from qosmanager.views.effects import amount, effects, subject
from qosmanager.views.figures import iso, rounded

STARVING_AFTER = 600.0  # seconds BE is held at the floor (section 5.4)


class About(Struct, frozen=True, kw_only=True):
    """The process: version, pid, and when it started (epoch seconds)."""

    version: str
    pid: int
    started: float


class TermView(Struct, frozen=True, kw_only=True):
    """A factor as counted and the readings it came from; points null: left out, `note` says why."""

    points: float | None
    cap: float
    inputs: dict[str, float | None]
    note: str


class PressureView(Struct, frozen=True, kw_only=True):
    """A score in the shape of section 8, with the terms behind its factors."""

    score: float
    level: str
    factors: dict[str, float]
    terms: dict[str, TermView]
    mean: float | None
    oom_risk: bool | None = None


class AssessmentView(Struct, frozen=True, kw_only=True):
    """The assessment in the shape of section 8. `effective_for`: seconds since which the level is the present one or tighter."""

    cpu: PressureView
    memory: PressureView
    io: PressureView
    matrix: dict[str, str]
    matrix_inputs: MatrixInputs
    raw_level: str
    effective_level: str
    effective_for: float | None
    slo: str
    slo_violated_by: tuple[str, ...]
    latency_rising: tuple[str, ...]
    oom_reasons: tuple[str, ...]
    oom_forecast: float | None


class BeView(Struct, frozen=True, kw_only=True):
    """All BE together. `limit` null: none in force. `usage` is of the measured pods, null when none is; `unmeasured` counts the rest."""

    limit: float | None
    cpus: str | None
    usage: float | None
    pods: int
    unmeasured: int
    terminating: int
    starving: bool
    oscillating: bool


class PodView(Struct, frozen=True, kw_only=True):
    """One pod. `cpu.effective_limit` is the limit in force, raised while a burst runs."""

    key: str
    qos: str
    priority: int
    terminating: bool
    cpu: dict[str, float | None]
    memory: dict[str, float | None]
    latency: dict[str, float | None]


class ActionView(Struct, frozen=True, kw_only=True):
    """An action of the last cycle; `result` null: the executor said nothing about it."""

    plugin: str
    kind: str
    subject: str
    amount: str
    reason: str
    mode: str
    result: str | None


class Status(Struct, frozen=True, kw_only=True):
    """Everything /status answers."""

    version: str
    pid: int
    uptime: float
    cycle: int
    time: str
    period: float
    paused: bool
    node: dict[str, float | None]
    node_age: float
    assessment: AssessmentView
    be: BeView
    pods: tuple[PodView, ...]
    actions: tuple[ActionView, ...]
    refusals: tuple[Refusal, ...]
    plugins: dict[str, str]
    failures: dict[str, str]
    degraded: tuple[str, ...]
    missing: dict[str, str]
    durations_ms: dict[str, float]


def status(record: CycleRecord, settings: Settings, about: About) -> Status:
    """Return the present state of the node and of the agent."""
    snapshot = record.snapshot
    return Status(
        version=about.version,
        pid=about.pid,
        uptime=round(max(0.0, record.wall - about.started), 3),
        cycle=record.number,
        time=iso(record.wall),
        period=settings.sync_period,
        paused=snapshot.paused,
        node={name: rounded(getattr(snapshot.node, name)) for name in snapshot.node.__struct_fields__ if name != "topology"},
        node_age=round(snapshot.node_age, 3),
        assessment=_assessment(record.assessment, record.state),
        be=_be(record),
        pods=_pods(record),
        actions=_actions(record),
        refusals=record.plan.refusals,
        plugins={plugin.value: settings.mode(plugin).value for plugin in Plugin},
        failures={failure.plugin.value: failure.error for failure in record.plan.failures},
        degraded=record.plan.degraded,
        missing=snapshot.missing,
        durations_ms={stage: round(value, 3) for stage, value in record.durations.items()},
    )


def starving(state: State) -> bool:
    """Tell whether BE has been held at the floor for 10 minutes (section 5.4)."""
    return state.floor_since is not None and state.time is not None and state.time - state.floor_since >= STARVING_AFTER


def be_usage(pods: tuple[Pod, ...]) -> float | None:
    """Return the CPU of the measured BE pods in cores; None when there are BE pods and none is measured."""
    batch = [pod for pod in pods if pod.qos is QoS.BE]
    measured = [pod.cpu.usage for pod in batch if pod.cpu.usage is not None]
    return sum(measured) if measured or not batch else None


def _assessment(assessment: Assessment, state: State) -> AssessmentView:
    held = state.time - state.suppress_since if state.time is not None and state.suppress_since is not None else None
    return AssessmentView(
        cpu=_pressure(assessment.cpu),
        memory=_pressure(assessment.memory, oom_risk=assessment.oom.present),
        io=_pressure(assessment.io),
        matrix={"priority": assessment.matrix.priority.value, "action": assessment.matrix.action.value},
        matrix_inputs=assessment.matrix.inputs,
        raw_level=assessment.raw_level.value,
        effective_level=assessment.effective_level.value,
        effective_for=rounded(held),
        slo=assessment.slo.value,
        slo_violated_by=assessment.slo_violated_by,
        latency_rising=assessment.latency_rising,
        oom_reasons=assessment.oom.reasons,
        oom_forecast=rounded(assessment.oom.forecast),
    )


def _pressure(pressure: Pressure, oom_risk: bool | None = None) -> PressureView:
    return PressureView(
        score=round(pressure.score, 4),
        level=pressure.level.value,
        factors={factor.name: round(factor.points, 4) for factor in pressure.factors if factor.points is not None},
        terms={
            factor.name: TermView(
                points=rounded(factor.points),
                cap=round(factor.cap, 4),
                inputs={name: rounded(value) for name, value in factor.inputs.items()},
                note=factor.note,
            )
            for factor in pressure.factors
        },
        mean=rounded(pressure.mean),
        oom_risk=oom_risk,
    )


def _be(record: CycleRecord) -> BeView:
    batch = [pod for pod in record.snapshot.pods if pod.qos is QoS.BE]
    return BeView(
        limit=rounded(record.state.be_limit),
        cpus=record.state.be_cpus,
        usage=rounded(be_usage(record.snapshot.pods)),
        pods=len(batch),
        unmeasured=sum(pod.cpu.usage is None for pod in batch),
        terminating=sum(pod.terminating for pod in batch),
        starving=starving(record.state),
        oscillating=record.state.oscillating,
    )


def _pods(record: CycleRecord) -> tuple[PodView, ...]:
    raised = {burst.pod: burst.limit for burst in record.state.bursts if not burst.observed}
    return tuple(
        PodView(
            key=pod.key,
            qos=pod.qos.value,
            priority=pod.priority,
            terminating=pod.terminating,
            cpu={
                "usage": rounded(pod.cpu.usage),
                "request": rounded(pod.cpu.request),
                "limit": rounded(pod.cpu.limit),
                "effective_limit": rounded(raised.get(pod.key, pod.cpu.limit)),
                "wait": rounded(pod.cpu.wait),
                "throttled": rounded(pod.cpu.throttled),
            },
            memory={"rss": pod.memory.rss, "request": pod.memory.request, "limit": pod.memory.limit, "growth": rounded(pod.memory.growth)},
            latency={"p99": rounded(pod.latency.p99), "slo": rounded(pod.latency.slo)},
        )
        for pod in record.snapshot.pods
    )


def _actions(record: CycleRecord) -> tuple[ActionView, ...]:
    return tuple(
        ActionView(
            plugin=effect.action.plugin.value,
            kind=effect.kind,
            subject=subject(effect.action),
            amount=amount(effect.action),
            reason=effect.action.reason,
            mode=effect.action.mode.value,
            result=effect.result.value if effect.result else None,
        )
        for effect in effects(record)
    )
