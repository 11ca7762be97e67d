"""The present state as data, for /status and the screen (specification, sections 7 and 8).

In: the last cycle's record, the settings, facts about the process. Out: `Status`, which encodes to JSON. Cores, bytes, seconds and percent
as in the snapshot; not measured is null, with the reason under `missing`.
"""

from __future__ import annotations

from msgspec import Struct

from qosmanager.config.settings import Settings
from qosmanager.model.actions import Knob, Refusal, Resources
from qosmanager.model.attribution import Attribution
from qosmanager.model.fast_path import FastPathUse
from qosmanager.model.forecast import Forecast
from qosmanager.model.own_use import OwnUse
from qosmanager.model.pause import Pause
from qosmanager.model.qos import Plugin, QoS
from qosmanager.model.record import CycleRecord
from qosmanager.model.snapshot import Pod
from qosmanager.model.state import State
from qosmanager.views.beside import NOTHING, Beside
from qosmanager.views.cluster import ClusterView
from qosmanager.views.effects import amount, effects, subject
from qosmanager.views.figures import iso, rounded
from qosmanager.views.judgement import AssessmentView, assessment_view
from qosmanager.views.recording import RecordingView
from qosmanager.views.shadow import ShadowView

STARVING_AFTER = 600.0  # seconds BE is held at the floor (section 5.4)


class About(Struct, frozen=True, kw_only=True):
    """The process: version, pid, when it started (epoch seconds, and `begun` by the clock of `Snapshot.time`; None: not known), and
    whether it only decides and reports."""

    version: str
    pid: int
    started: float
    dry_run: bool = False
    begun: float | None = None


class BeView(Struct, frozen=True, kw_only=True):
    """All BE together. `limit` null: none; `observed`: it is only decided, not in the kernel; `floor_for`: seconds since which it has been
    the floor. `usage` is of the measured pods, null when none is; `unmeasured` counts the rest."""

    limit: float | None
    cpus: str | None
    usage: float | None
    pods: int
    unmeasured: int
    terminating: int
    starving: bool
    oscillating: bool
    observed: bool = False
    floor_for: float | None = None


class PauseView(Struct, frozen=True, kw_only=True):
    """A pause in force: from when to when (`left`: seconds), by whom, why."""

    since: str
    until: str
    left: float
    by: str
    reason: str


class PodView(Struct, frozen=True, kw_only=True):
    """One pod. `cpu.effective_limit` is the limit in force, raised while a burst runs; `burst_cooldown`: seconds until another may
    begin."""

    key: str
    qos: str
    priority: int
    terminating: bool
    cpu: dict[str, float | None]
    memory: dict[str, float | None]
    latency: dict[str, float | None]
    critical: bool = False
    owner: str | None = None
    labelled: bool = True
    burst_cooldown: float | None = None


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
    forecasts: tuple[Forecast, ...] = ()  # what each service is expected to want within the next minutes, in cores
    attributions: tuple[Attribution, ...] = ()  # services that suffer, and who is likely to be the cause
    dry_run: bool = False
    pause: PauseView | None = None
    settings: Settings = Settings()  # in force, with durations in seconds
    own: OwnUse | None = None  # what the agent itself uses: cores, bytes, seconds
    resources: Resources | None = None  # what the node has and for whom: cores, bytes
    recording: RecordingView | None = None  # null: nobody records
    isolation: tuple[Knob, ...] = ()  # how each standing property stands in the kernel; empty: nothing has been written yet
    fast_path: FastPathUse | None = None  # cycles before their turn; null: this agent has none
    cluster: ClusterView | None = None  # whose word on the pods counts; null: no cluster is asked
    shadow: ShadowView | None = None  # what another configuration would do; null: none is asked


def status(record: CycleRecord, settings: Settings, about: About, beside: Beside = NOTHING) -> Status:
    """Return the present state of the node and of the agent."""
    snapshot = record.snapshot
    return Status(
        version=about.version,
        pid=about.pid,
        uptime=round(max(0.0, _uptime(record, about)), 3),
        cycle=record.number,
        time=iso(record.wall),
        period=settings.sync_period,
        paused=snapshot.paused,
        node={name: rounded(getattr(snapshot.node, name)) for name in snapshot.node.__struct_fields__ if name != "topology"},
        node_age=round(snapshot.node_age, 3),
        assessment=assessment_view(record.assessment, _since(record.state, record.state.suppress_since)),
        be=_be(record),
        pods=_pods(record),
        actions=_actions(record),
        refusals=record.plan.refusals,
        plugins={plugin.value: settings.mode(plugin).value for plugin in Plugin},
        failures={failure.plugin.value: failure.error for failure in record.plan.failures},
        degraded=record.plan.degraded,
        missing=snapshot.missing,
        durations_ms={stage: round(value, 3) for stage, value in record.durations.items()},
        dry_run=about.dry_run,
        forecasts=snapshot.forecasts,
        attributions=snapshot.attributions,
        pause=None if record.pause is None else _pause(record.pause, record),
        settings=settings,
        own=record.own,
        resources=record.plan.resources,
        recording=beside.recording,
        shadow=beside.shadow,
        fast_path=beside.fast_path,
        isolation=beside.isolation,
        cluster=beside.cluster,
    )


def starving(state: State) -> bool:
    """Tell whether BE has been held at the floor for 10 minutes (section 5.4)."""
    return starved_tens(state) > 0


def starved_tens(state: State) -> int:
    """Return how many times 10 minutes BE has been held at the floor; 0 also where the limit is only observed."""
    held = _since(state, state.floor_since)
    return 0 if held is None or state.be_observed else int(held // STARVING_AFTER)


def be_usage(pods: tuple[Pod, ...]) -> float | None:
    """Return the CPU of the measured BE pods in cores; None when there are BE pods and none is measured."""
    batch = [pod for pod in pods if pod.qos is QoS.BE]
    measured = [pod.cpu.usage for pod in batch if pod.cpu.usage is not None]
    return sum(measured) if measured or not batch else None


def _since(state: State, moment: float | None) -> float | None:
    """Return the seconds from a moment to the last cycle; None where one of them is not known."""
    return None if state.time is None or moment is None else state.time - moment


def _uptime(record: CycleRecord, about: About) -> float:
    now = record.snapshot.time
    return record.wall - about.started if now is None or about.begun is None else now - about.begun


def _pause(pause: Pause, record: CycleRecord) -> PauseView:
    """Return it as it is shown. What is left of it goes by the clock that ends it, which nobody sets."""
    now = record.snapshot.time
    left = pause.until - record.wall if now is None else pause.ends - now
    return PauseView(since=iso(pause.since), until=iso(pause.until), left=round(max(0.0, left), 1), by=pause.by, reason=pause.reason)


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
        observed=record.state.be_observed,
        floor_for=rounded(_since(record.state, record.state.floor_since)),
    )


def _pods(record: CycleRecord) -> tuple[PodView, ...]:
    state = record.state
    raised = {burst.pod: burst.limit for burst in state.bursts if not burst.observed}
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
            critical=pod.critical,
            owner=pod.owner,
            labelled=pod.labelled,
            burst_cooldown=_left(state, state.burst_cooldown_until.get(pod.key)),
        )
        for pod in record.snapshot.pods
    )


def _left(state: State, until: float | None) -> float | None:
    """Return the seconds that a cooldown still lasts; None: it is over."""
    return None if state.time is None or until is None or until <= state.time else round(until - state.time, 1)


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
