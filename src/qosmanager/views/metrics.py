"""Prometheus metrics (specification, section 7): counters taken in once per cycle, everything else built at the scrape.

In: each cycle's record. Out: a collector for a registry of one's own. Own names keep the prefix `koordlet_qos_`; units are cores, bytes,
seconds, ratios; a reading that was not measured has no series.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from threading import Lock

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from qosmanager.config.settings import Settings
from qosmanager.model.actions import Evict, Receipt, Result
from qosmanager.model.assessment import Assessment
from qosmanager.model.fast_path import FastPathUse
from qosmanager.model.qos import LEVELS, MatrixAction, Mode, Plugin, Slo
from qosmanager.model.record import CycleRecord
from qosmanager.model.snapshot import Node, Pod, Snapshot
from qosmanager.model.state import State
from qosmanager.views.beside import NOTHING, Beside
from qosmanager.views.cluster import ClusterView
from qosmanager.views.effects import Effect, effects, foreign, is_conflict, later
from qosmanager.views.figures import topic
from qosmanager.views.recording import RecordingView
from qosmanager.views.reports import OVER_BUDGET, thrift_of
from qosmanager.views.shadow import ShadowView
from qosmanager.views.status import About, be_usage, starving

PREFIX = "koordlet_qos_"
BUCKETS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)  # milliseconds
_INF = "+Inf"
_EVICT_REASONS = {
    Plugin.CPU_EVICT: ("cpu_pressure", "evict_immediately"),
    Plugin.MEMORY_EVICT: ("oom_risk", "leak", "evict_immediately", "low_available", "memory_pressure"),
}
# Node readings that are exported under their own names: (field, name, help).
_NODE = (
    ("cpus", "node_cpus", "Usable CPUs."),
    ("cpu_usage", "node_cpu_usage_cores", "CPU usage of the node."),
    ("load1", "node_load1", "Load average over one minute."),
    ("memory_total", "node_memory_total_bytes", "Memory of the node, huge pages taken out."),
    ("memory_available", "node_memory_available_bytes", "Memory available on the node."),
    ("memory_psi_full", "node_memory_stall_full_percent", "Memory PSI full avg10."),
    ("io_psi_some", "node_io_stall_some_percent", "IO PSI some avg10."),
    ("cpu_psi_some", "node_cpu_stall_some_percent", "CPU PSI some avg10."),
    ("ls_cpu_peak", "ls_cpu_peak_cores", "Largest 1-minute mean of LS CPU at this hour of day, 7 days."),
)
_POD: tuple[tuple[str, str, Callable[[Pod], float | None]], ...] = (
    ("pod_cpu_usage_cores", "CPU usage of the pod.", lambda pod: pod.cpu.usage),
    ("pod_cpu_wait_cores", "CPU the pod waited for.", lambda pod: pod.cpu.wait),
    ("pod_cpu_throttled_ratio", "Throttled periods among all, largest of its containers.", lambda pod: pod.cpu.throttled),
    ("pod_cpu_limit_cores", "The pod's own CPU limit.", lambda pod: pod.cpu.limit),
    ("pod_memory_rss_bytes", "Memory the pod holds: anonymous, shared, swapped.", lambda pod: pod.memory.rss),
    ("pod_latency_p99_seconds", "99th percentile of the pod's request latency.", lambda pod: pod.latency.p99),
    ("pod_latency_slo_seconds", "The pod's latency objective.", lambda pod: pod.latency.slo),
)


class Metrics(Collector):
    """The agent's metrics. `observe` comes from the cycle's thread, `collect` from the server's."""

    def __init__(self, about: About, settings: Settings) -> None:
        self._about = about
        self.settings = settings
        self._lock = Lock()
        self.beside: Callable[[], Beside] = lambda: NOTHING
        self._record: CycleRecord | None = None
        self._cycles = 0
        self._suppressed = 0
        self._bursts = 0
        self._evicted: Counter[tuple[Plugin, str]] = Counter()
        self._evicting: dict[str, tuple[Plugin, str]] = {}  # begun, and neither gone nor refused yet, by pod
        self._actions: Counter[tuple[str, str, str]] = Counter()
        self._outcomes: Counter[tuple[str, str]] = Counter()
        self._refusals: Counter[tuple[str, str]] = Counter()
        self._failures: Counter[str] = Counter()
        self._events: Counter[str] = Counter()
        self._config_rejected = False
        self._degraded: dict[str, bool] = {}
        self._latencies: dict[str, _Latency] = {}

    def observe(self, record: CycleRecord) -> None:
        """Take in one finished cycle."""
        with self._lock:
            self._record = record
            self._cycles += 1
            for stage, milliseconds in record.durations.items():
                self._latencies.setdefault(stage, _Latency()).add(milliseconds)
            for effect in effects(record):
                self._acted(effect, record)
            for receipt in later(record):
                self._ended(receipt)
            self._outcomes.update((outcome.plugin.value, outcome.verdict.value) for outcome in record.outcomes)
            self._refusals.update((refusal.plugin.value, refusal.rule) for refusal in record.plan.refusals)
            self._failures.update(failure.plugin.value for failure in record.plan.failures)
            for receipt in foreign(record):
                self._events["drift"] += 1
                self._events["conflict"] += is_conflict(receipt)
            now = {topic(reason) for reason in record.plan.degraded} | ({OVER_BUDGET} if thrift_of(record) else set())
            self._degraded = dict.fromkeys(self._degraded, False) | dict.fromkeys(now, True)

    def event(self, kind: str) -> None:
        """Count something that no cycle's record holds, for example "reload_refused"."""
        with self._lock:
            self._events[kind] += 1
            if kind in ("reloaded", "reload_refused"):
                self._config_rejected = kind == "reload_refused"

    def collect(self) -> Iterator[Metric]:
        """Yield every family; before the first cycle only those that need none."""
        with self._lock:
            families = [*self._counters(), *self._process()]
            record = self._record
        yield from families
        if record is not None:
            yield from _scores(record.assessment)
            yield from _fare(record)
            yield from _best_effort(record.state, record.snapshot.pods)
            yield from _node(record.snapshot.node)
            yield from _services(record.snapshot)
            yield from _pods(record)
            yield from _own(record, self.settings)
        beside = self.beside()
        if beside.recording is not None:
            yield from _recording(beside.recording)
        if beside.shadow is not None:
            yield from _shadow(beside.shadow)
        if beside.fast_path is not None:
            yield from _fast_path(beside.fast_path)
        if beside.cluster is not None:
            yield from _cluster(beside.cluster)

    def _ended(self, receipt: Receipt) -> None:
        """An eviction counts when the pod is gone: a disruption budget may refuse it after it was begun."""
        what = self._evicting.pop(receipt.pod or "", None)
        if what is not None and receipt.result is Result.GONE:
            self._evicted[what] += 1

    def _acted(self, effect: Effect, record: CycleRecord) -> None:
        action = effect.action
        result = effect.result.value if effect.result else "unknown"
        self._actions[action.plugin.value, effect.kind, "observed" if action.mode is not Mode.ENFORCE else result] += 1
        if not effect.done:
            return
        if isinstance(action, Evict):
            self._evicting[action.pod] = action.plugin, _why(action, record)
        elif effect.kind in ("set_be_cpu_limit", "set_be_cpuset"):
            self._suppressed += 1
        elif effect.kind == "set_cpu_limit":
            self._bursts += 1

    def _counters(self) -> Iterator[Metric]:
        yield _counter("cpu_suppress", "Times the CPU limit of BE was set, up or down.", (), [((), self._suppressed)])
        yield _counter("cpu_burst", "CPU limits of LS pods raised for a burst.", (), [((), self._bursts)])
        for plugin, name in ((Plugin.CPU_EVICT, "cpu_evict"), (Plugin.MEMORY_EVICT, "memory_evict")):
            values = [((reason,), self._evicted[plugin, reason]) for reason in _EVICT_REASONS[plugin]]
            yield _counter(name, f"BE pods evicted by {plugin.value} and gone, by reason.", ("reason",), values)
        actions = "Actions by plugin, kind and what became of them; observed: decided in observe mode and not done."
        yield _counter("action", actions, ("plugin", "kind", "result"), self._actions.items())
        yield _counter("action_outcome", "Verdicts on actions in the cycles after them.", ("plugin", "outcome"), self._outcomes.items())
        yield _counter("refusal", "Things a plugin did not do, by its rule.", ("plugin", "rule"), self._refusals.items())
        yield _counter(
            "plugin_failure", "Cycles in which a plugin failed.", ("plugin",), [((p.value,), self._failures[p.value]) for p in Plugin]
        )
        events = {"drift": 0, "conflict": 0, "cycle_failed": 0, "reload_refused": 0} | self._events
        for name, help_ in (
            ("drift", "Kernel values changed by somebody else."),
            ("conflict", "Kernel files fought over: more than 3 drifts in a minute."),
            ("cycle_failed", "Cycles that failed as a whole; limits stayed as they were."),
            ("reload_refused", "Configurations refused on reload; the running one stayed in force."),
        ):
            yield _counter(name, help_, (), [((), events[name])])
        yield _counter("cycles", "Finished cycles.", (), [((), self._cycles)])
        help_ = "1 while the configuration as it is written is refused, and an older one in force."
        yield from _gauge("config_rejected", help_, self._config_rejected)

    def _process(self) -> Iterator[Metric]:
        latency = HistogramMetricFamily(
            f"{PREFIX}decision_latency_milliseconds", "Duration of each stage of a cycle, in milliseconds.", labels=["stage"]
        )
        for stage, seen in self._latencies.items():
            latency.add_metric([stage], seen.buckets(), seen.total)
        yield latency
        degraded = GaugeMetricFamily(f"{PREFIX}degraded", "1 while the agent holds back for this reason.", labels=["reason"])
        for reason, present in self._degraded.items():
            degraded.add_metric([reason], float(present))
        yield degraded
        yield from _gauge("dry_run", "1 when the agent decides and reports, and changes nothing.", self._about.dry_run)
        build = InfoMetricFamily(f"{PREFIX}build", "Version of the agent.")
        build.add_metric([], {"version": self._about.version})
        yield build


class _Latency:
    """One stage's histogram."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0

    def add(self, milliseconds: float) -> None:
        self._counts[bisect_left(BUCKETS, milliseconds)] += 1
        self.total += milliseconds

    def buckets(self) -> list[tuple[str, float]]:
        bounds = (*(str(bound) for bound in BUCKETS), _INF)
        return [(bound, float(count)) for bound, count in zip(bounds, accumulate(self._counts), strict=True)]


def _why(action: Evict, record: CycleRecord) -> str:
    """The reason label of an eviction, from what held in its cycle."""
    assessment = record.assessment
    immediately = assessment.matrix.action is MatrixAction.EVICT_BE_IMMEDIATELY
    if action.plugin is Plugin.CPU_EVICT:
        return "evict_immediately" if immediately else "cpu_pressure"
    if assessment.oom.present:
        return "oom_risk"
    if action.leaking:
        return "leak"
    if immediately:
        return "evict_immediately"
    return "low_available" if record.state.memory_short else "memory_pressure"


def _counter(name: str, help_: str, labels: tuple[str, ...], values: Iterable[tuple[tuple[str, ...], int]]) -> Metric:
    family = CounterMetricFamily(PREFIX + name, help_, labels=labels)
    for labelled, value in values:
        family.add_metric(labelled, float(value))
    return family


def _gauge(name: str, help_: str, value: float | None) -> Iterator[Metric]:
    if value is not None:
        yield GaugeMetricFamily(PREFIX + name, help_, value=float(value))


def _scores(assessment: Assessment) -> Iterator[Metric]:
    level = GaugeMetricFamily(f"{PREFIX}pressure_level", "1 at the present level of the resource.", labels=["resource", "level"])
    factor = GaugeMetricFamily(f"{PREFIX}pressure_factor_points", "Points each factor adds to its score.", labels=["resource", "factor"])
    for name, pressure in (("cpu", assessment.cpu), ("memory", assessment.memory), ("io", assessment.io)):
        yield from _gauge(f"{name}_pressure_score", f"Pressure score of {name}, 0 to 100.", pressure.score)
        for each in LEVELS:
            level.add_metric([name, each.value], float(each is pressure.level))
        for term in pressure.factors:
            if term.points is not None:
                factor.add_metric([name, term.name], term.points)
    yield level
    yield factor
    effective = GaugeMetricFamily(f"{PREFIX}effective_level", "1 at the level BE is held at.", labels=["level"])
    for each in LEVELS:
        effective.add_metric([each.value], float(each is assessment.effective_level))
    yield effective
    slo = GaugeMetricFamily(f"{PREFIX}slo_signal", "1 at the present state of the LS pods' latency objectives.", labels=["state"])
    for state in Slo:
        slo.add_metric([state.value], float(state is assessment.slo))
    yield slo
    yield from _gauge("oom_risk", "1 while memory is about to run out.", assessment.oom.present)
    if assessment.guard is not None:
        help_ = "CPU score without what BE uses, by which the strategies usage and slo decide, 0 to 100."
        yield from _gauge("cpu_pressure_without_be_score", help_, assessment.guard.score)


def _fare(record: CycleRecord) -> Iterator[Metric]:
    """How the LS pods fare, and for how long leaks last."""
    assessment = record.assessment
    leak = GaugeMetricFamily(
        PREFIX + "memory_exhaustion_seconds",
        "When a leaking pod has used up its own limit or the node's memory at its present rate.",
        labels=["namespace", "pod", "what"],
    )
    sure = GaugeMetricFamily(
        PREFIX + "memory_exhaustion_confidence_ratio",
        "How steadily that pod grows: its slower rise as a share of its faster one.",
        labels=["namespace", "pod"],
    )
    for each in assessment.leaks:
        namespace, _, name = each.pod.partition("/")
        if each.seconds is not None:
            leak.add_metric([namespace, name, "limit" if each.own_limit else "node"], each.seconds)
        if each.confidence is not None:
            sure.add_metric([namespace, name], each.confidence)
    yield leak
    yield sure
    if assessment.wellbeing is None:
        return
    yield from _gauge(
        "ls_slack_ratio", "How far the LS pod that has least is from what it bears (strategy slo).", assessment.wellbeing.slack
    )
    severity = GaugeMetricFamily(
        PREFIX + "ls_suffering_ratio",
        "By how much an LS pod is above what it bears, as a share of that; elsewhere: BE is not the cause (strategy slo).",
        labels=["namespace", "pod", "measure", "cause"],
    )
    for one in assessment.wellbeing.suffering:
        namespace, _, name = one.pod.partition("/")
        severity.add_metric([namespace, name, one.measure, "elsewhere" if one.elsewhere else "cpu"], one.severity)
    yield severity


def _best_effort(state: State, pods: tuple[Pod, ...]) -> Iterator[Metric]:
    yield from _gauge(
        "be_cpu_limit_cores", "CPU limit for all BE together; in the kernel unless koordlet_qos_be_limit_observed is 1.", state.be_limit
    )
    yield from _gauge("be_limit_observed", "1 while the CPU limit of BE is only decided (mode observe, dry run).", state.be_observed)
    yield from _gauge("be_cpu_usage_cores", "CPU usage of the measured BE pods.", be_usage(pods))
    yield from _gauge("be_oscillating", "1 while the BE limit goes up and down too often and rises at half speed.", state.oscillating)
    yield from _gauge("be_starving", "1 when BE has been held at its floor for 10 minutes.", starving(state))
    yield from _gauge("bursts", "Bursts that run.", sum(not burst.observed for burst in state.bursts))


def _node(node: Node) -> Iterator[Metric]:
    for field, name, help_ in _NODE:
        yield from _gauge(name, help_, getattr(node, field))


def _pods(record: CycleRecord) -> Iterator[Metric]:
    pods = record.snapshot.pods
    for name, help_, reading in _POD:
        family = GaugeMetricFamily(PREFIX + name, help_, labels=["namespace", "pod", "qos"])
        for pod in pods:
            value = reading(pod)
            if value is not None:
                family.add_metric([pod.namespace, pod.name, pod.qos.value], float(value))
        yield family
    count = GaugeMetricFamily(f"{PREFIX}pods", "Managed pods by class.", labels=["qos"])
    for qos, number in sorted(Counter(pod.qos.value for pod in pods).items()):
        count.add_metric([qos], float(number))
    yield count


def _own(record: CycleRecord, settings: Settings) -> Iterator[Metric]:
    yield from _gauge("last_cycle_timestamp_seconds", "When the last cycle finished.", record.wall)
    yield from _gauge("sync_period_seconds", "Length of a cycle.", settings.sync_period)
    yield from _gauge("node_sample_age_seconds", "Age of the node's sample in the last cycle.", record.snapshot.node_age)
    yield from _gauge("readings_missing", "Readings that could not be taken in the last cycle.", len(record.snapshot.missing))
    if record.own is not None:
        yield from _gauge("own_cpu_cores", "CPU that the agent itself used since the cycle before.", record.own.cpu)
        yield from _gauge("own_memory_rss_bytes", "Memory that the agent itself holds.", record.own.rss)
        yield from _gauge("own_lag_seconds", "How late the last cycle began.", record.own.lag)
        yield from _gauge("own_thrift_steps", "Steps by which the agent reads less because it is over its own budget.", record.own.thrift)
    yield from _gauge("paused", "1 while the agent is paused.", record.snapshot.paused)
    mode = GaugeMetricFamily(f"{PREFIX}plugin_mode", "1 at the plugin's mode.", labels=["plugin", "mode"])
    for plugin in Plugin:
        for each in Mode:
            mode.add_metric([plugin.value, each.value], float(settings.mode(plugin) is each))
    yield mode


def _cluster(cluster: ClusterView) -> Iterator[Metric]:
    yield from _gauge("cluster_pods", "Pods of this node that the cluster names.", cluster.pods)
    yield from _gauge("cluster_pods_age_seconds", "Age of what the cluster says of the pods; above 30 nobody is evicted.", cluster.age)
    help_ = "Evictions by the API server in the last hour; evictionBudget bounds them."
    yield from _gauge("cluster_evictions_last_hour", help_, cluster.evicted)
    yield _counter("cluster_events_dropped", "Events that the API server could not be told.", (), [((), cluster.events_dropped)])
    origin = GaugeMetricFamily(f"{PREFIX}cluster_pods_origin", "1 at whose word on the pods counts.", labels=["origin"])
    origin.add_metric([cluster.origin], 1.0)
    yield origin


def _recording(recording: RecordingView) -> Iterator[Metric]:
    yield from _gauge("recording", "1 while cycles are recorded, 0 once that has failed.", not recording.stopped)
    for name, help_, value in (
        ("recorded_cycles", "Cycles that are recorded on disk since the start.", recording.cycles),
        ("recorded_bytes", "Bytes of recordings written since the start.", recording.bytes),
        ("record_lost_cycles", "Cycles that were not recorded because the disk did not keep up.", recording.lost),
    ):
        yield _counter(name, help_, (), [((), value)])


def _services(snapshot: Snapshot) -> Iterator[Metric]:
    cores = GaugeMetricFamily(
        f"{PREFIX}forecast_cores", "CPU that a service is expected to want within the next minutes.", labels=["service"]
    )
    error = GaugeMetricFamily(f"{PREFIX}forecast_error_ratio", "By how much earlier forecasts of a service were wrong.", labels=["service"])
    for each in snapshot.forecasts:
        if each.cores is not None:
            cores.add_metric([each.service], each.cores)
        if each.error is not None:
            error.add_metric([each.service], each.error)
    suspects = GaugeMetricFamily(
        f"{PREFIX}suspect_confidence", "How likely a BE pod is what a service suffers from, 0 to 1.", labels=["service", "suspect", "by"]
    )
    for suffering in snapshot.attributions:
        for suspect in suffering.suspects:
            suspects.add_metric([suffering.pod, suspect.pod, suspect.by], suspect.confidence)
    yield from (cores, error, suspects)


def _fast_path(use: FastPathUse) -> Iterator[Metric]:
    yield from _gauge("fast_path", "1 while the services' stalls are listened to between cycles.", use.on)
    for name, help_, value in (
        ("fast_cycles", "Cycles that came before their turn because a service's stall jumped or memory fell.", use.cycles),
        ("fast_cycle_held_back", "Jumps that no cycle came for, because of the number or the cost of those before.", use.held_back),
        ("stall_reads", "Reads of stall files and of available memory between cycles.", use.reads),
    ):
        yield _counter(name, help_, (), [((), value)])
    seconds = CounterMetricFamily(f"{PREFIX}fast_path_seconds", "CPU that the fast path took, by what for.", labels=["part"])
    for part, spent in (("listen", use.read_seconds), ("cycle", use.cycle_seconds)):
        seconds.add_metric([part], spent)
    yield seconds


def _shadow(shadow: ShadowView) -> Iterator[Metric]:
    if shadow.level:
        level = GaugeMetricFamily(
            f"{PREFIX}shadow_level", "1 at the level at which the other configuration would hold BE.", labels=["level"]
        )
        for each in LEVELS:
            level.add_metric([each.value], float(each.value == shadow.level))
        yield level
    yield from _gauge("shadow_be_cpu_limit_cores", "CPU limit for all BE together under the other configuration.", shadow.be_limit)
    yield from _gauge("shadow_differs", "1 while the other configuration decides otherwise.", bool(shadow.differences))
    yield from _gauge("shadow_failed", "1 when the other configuration is not decided any more.", bool(shadow.failure))
    for name, help_, value in (
        ("shadow_cycles", "Cycles that the other configuration was decided in.", shadow.cycles),
        ("shadow_differing_cycles", "Cycles in which the other configuration decided otherwise.", shadow.differing),
        ("shadow_suppress", "Times the other configuration would have set the CPU limit of BE.", shadow.limits),
        ("shadow_burst", "CPU limits of LS pods that the other configuration would have raised.", shadow.bursts),
    ):
        yield _counter(name, help_, (), [((), value)])
    evicted = [((plugin.value,), shadow.evictions.get(plugin.value, 0)) for plugin in _EVICT_REASONS]
    yield _counter("shadow_evict", "BE pods that the other configuration would have evicted.", ("plugin",), evicted)
