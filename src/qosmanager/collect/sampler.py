"""The sampler: readings of one cycle as a `Snapshot` and its `Placement`; the `Readings` port (specification, sections 2 and 3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from qosmanager.collect.conditions import Conditions, Missing, OwnLimit, Pace
from qosmanager.collect.foresight import Foresight
from qosmanager.collect.isolation import Isolated, IsolationReader, batch_groups
from qosmanager.collect.metric_cache import MetricCache
from qosmanager.collect.node_tracker import NodeTracker
from qosmanager.collect.pod_tracker import PodTracker
from qosmanager.collect.readings import GroupGoneError, GroupReaders, NodeReader
from qosmanager.collect.states_informer import Residents, StatesInformer
from qosmanager.collect.suspicion import Suspicion
from qosmanager.collect.trend import slope
from qosmanager.config.settings import Policy, Settings
from qosmanager.model.forecast import Forecast
from qosmanager.model.qos import Mode, QoS, is_latency_sensitive
from qosmanager.model.snapshot import EVICTIONS, Node, Pod, Snapshot
from qosmanager.model.workload import Placement, Workload
from qosmanager.ports import Clock, Earlier, Latencies, Shelf

FITS = 10.0  # seconds between two fits
LIMITS = 10.0  # seconds between two looks at the CPUs that BE may have
CPU_TREND = 120.0
LS_GROWTH = 300.0
AVAILABLE_TREND = 60.0
# Of the node's memory available: below it what BE holds may change faster than it is usually looked at. MemoryEvict aims at 0.2.
LOW_MEMORY = 0.15
AVAILABLE_SPAN = 10.0  # seconds of history before a fall of memory means anything
LEAST_GAP = 15.0  # seconds; a slow cycle on a pressed node is no gap, a stopped process is one
MEGABYTE = 1_000_000


class NodeUnreadableError(Exception):
    """The node could not be read even once: there is nothing to decide on. The text says why."""


class Sources(Struct, frozen=True, kw_only=True):
    """What the sampler reads from. `own_limit`: see `OwnLimit`; `allowed_cpus`: the CPUs that all of some groups may have, our own sets
    left aside (empty: not known); `pods_age`: how old what the cluster says of the pods is, in seconds (None: no cluster is asked);
    `evictions_barred`: why nobody can be evicted now ("": somebody can be)."""

    clock: Clock
    node: NodeReader
    groups: GroupReaders
    informer: StatesInformer
    latencies: Latencies
    own_limit: OwnLimit
    allowed_cpus: Callable[[Collection[str]], frozenset[int]] = lambda _: frozenset()
    isolated: Isolated | None = None
    shelf: Shelf | None = None
    pods_age: Callable[[], float | None] = lambda: None
    evictions_barred: Callable[[], str] = lambda: ""


class Sampler:
    """The `Readings` port. One instance per process; `cache` and `problems` are for the views."""

    def __init__(self, sources: Sources, settings: Settings) -> None:
        self._sources = sources
        self._node = NodeTracker(sources.node)
        self._pods: dict[str, PodTracker] = {}
        self._missing: dict[str, str] = {}  # of all pods
        self._residents = Residents()  # those last followed
        self._must_follow = True  # whoever they are now
        self._workloads: dict[str, Workload] | None = None  # of the pods; None: to be listed anew
        self._trends = Trends()
        self._suspicion = Suspicion()
        self._foresight = Foresight(sources.shelf)
        self._foresees = False
        self._forecasts: tuple[Forecast, ...] = ()
        self._informer = sources.informer
        self._thrift = 0
        self._hurried: Mapping[str, Earlier] = {}
        self._hurried_at = 0.0
        self._early = False
        self._be_cpus: tuple[int, ...] = ()
        self._be_cpus_pace = Pace(LIMITS, 1.0)
        self._isolation = IsolationReader(sources.isolated, settings)
        self.cache = MetricCache()
        self.placement = Placement(workloads={})  # that of the last cycle
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Take settings into use: the period says what a gap is, `memoryGrowthThreshold` what a leak is; policy cpuset wants BE's CPUs."""
        self._wants_be_cpus = settings.cpu_suppress.policy is Policy.CPUSET
        self._isolation.configure(settings)
        self._foresees = settings.forecast.mode is not Mode.OFF
        self._gap = max(LEAST_GAP, 3 * settings.sync_period)
        self._growth_threshold = settings.memory_evict.memory_growth_threshold * MEGABYTE

    def inform(self, informer: StatesInformer) -> None:
        """Take other declarations into use; pods that are in both go on being measured without a break."""
        self._informer = informer
        self._must_follow = True

    def spare(self, steps: int) -> None:
        """Read less from the next cycle on: the first `steps` of `own_use.STEPS`."""
        self._thrift = steps

    def hurry(self, pods: Mapping[str, Earlier]) -> None:
        """The next cycle comes before its turn, and looks at these pods as they are since a moment ago, however short ago that was."""
        self._hurried, self._hurried_at, self._early = pods, self._sources.clock.monotonic(), True

    @property
    def problems(self) -> tuple[str, ...]:
        """What of the declarations could not be followed in the last cycle, and what could not be asked or read, for people."""
        node = (self._node.failure,) if self._node.failure else ()
        foresight = (self._foresight.problem,) if self._foresight.problem else ()
        return (*self._residents.problems, *self._sources.latencies.problems(), *node, *foresight)

    def sample(self) -> tuple[Snapshot, Placement]:
        """Measure now. Raises NodeUnreadableError while the node has never been readable."""
        clock = self._sources.clock
        now = clock.monotonic()
        pods_age = self._sources.pods_age()
        residents = self._informer.refresh(now)
        if self._must_follow or residents is not self._residents:
            self._follow(residents)
        fresh = self._node.read(clock.monotonic(), self._gap)
        throttled: dict[str, float] = {}
        pods = self._sample_pods(throttled)
        missing = self._missing | self._node.missing
        if barred := self._sources.evictions_barred():
            missing[EVICTIONS] = barred
        sums = Sums(pods)
        # A cycle that came early is no part of the history: it would count for as much as one that stands for a whole period.
        early, self._early, self._hurried = self._early, False, {}
        if fresh and not early:
            self._remember(now, sums)
        snapshot = Snapshot(
            node=self._with_trends(now, sums, missing),
            pods=tuple(pods),
            be_cpus=self._read_be_cpus(now, residents),
            be_shielded=self._isolation.shielded(now, residents, missing),
            be_memory=self._isolation.memory(residents),
            time=now,
            node_age=0.0 if self._node.sampled is None else max(0.0, clock.monotonic() - self._node.sampled),
            pods_age=None if pods_age is None else round(pods_age, 1),
            missing=missing,
            forecasts=self._foretell(now, pods, early),
            attributions=self._suspicion.attributions if early else self._suspicion.look(now, pods),
        )
        if self._workloads is None:
            self._workloads = {key: tracker.workload for key, tracker in self._pods.items()}
        self.placement = Placement(
            workloads=self._workloads,
            be_parent=residents.be_parent,
            throttled=throttled,
            kubelet_owned=residents.kubelet_owned,
            kubelet_pods=residents.kubelet_pods,
            kubelet_cpusets=residents.kubelet_cpusets,
            kubelet_may_write=residents.kubelet_may_write,
        )
        return snapshot, self.placement

    def close(self) -> None:
        """Let all descriptors of groups go, and ask no service for its latency any more."""
        self._sources.latencies.close()
        for key in tuple(self._pods):
            self._drop(key)

    def _foretell(self, now: float, pods: list[Pod], early: bool) -> tuple[Forecast, ...]:
        if not early:
            self._forecasts = self._foresight.look(now, self._sources.clock.wall(), pods) if self._foresees else ()
        return self._forecasts

    def _read_be_cpus(self, now: float, residents: Residents) -> tuple[int, ...]:
        if not self._wants_be_cpus:
            return ()
        if self._be_cpus_pace.due(now):
            self._be_cpus = tuple(sorted(self._sources.allowed_cpus(batch_groups(residents))))
        return self._be_cpus

    def _follow(self, residents: Residents) -> None:
        """Open what is new, close what is gone; a group of another path under a known name is another pod."""
        wanted = {workload.key: workload for workload in residents.workloads}
        for key, tracker in tuple(self._pods.items()):
            if key not in wanted or wanted[key].cgroup != tracker.workload.cgroup or wanted[key].uid != tracker.workload.uid:
                self._drop(key)
        for number, workload in enumerate(residents.workloads):
            known = self._pods.get(workload.key)
            if known is None:
                # Between two cycles, not at one: a cycle that begins a little early or late is still the same one's turn.
                phase = (number % 10 + 0.5) / 10
                missing = Missing(workload.key, self._missing)
                self._pods[workload.key] = PodTracker(workload, self._sources.groups, self.cache.pod(workload.key), missing, phase)
            elif known.workload != workload:
                known.adopt(workload)
        self._residents, self._workloads, self._must_follow = residents, None, False
        self._be_cpus_pace.hasten()
        self._isolation.hasten()
        self._sources.latencies.watch(residents.workloads)

    def _drop(self, key: str) -> None:
        self._pods.pop(key).close()
        self._workloads = None
        self.cache.drop(key)

    def _sample_pods(self, throttled: dict[str, float]) -> list[Pod]:
        """Measure the pods; one whose group has ended is no longer among them, and has everything looked at again."""
        sources = self._sources
        conditions = Conditions(
            wall=sources.clock.wall(),
            cpus=self._node.node.cpus if self._node.node else 0.0,
            gap=self._gap,
            growth_threshold=self._growth_threshold,
            monotonic=sources.clock.monotonic,
            own_limit=sources.own_limit,
            latencies=sources.latencies,
            thrift=self._thrift,
            hurried=self._hurried,
            hurried_at=self._hurried_at,
            early=self._early,
            memory_low=self._is_memory_low(),
        )
        pods: list[Pod] = []
        ended: list[str] = []
        for key, tracker in self._pods.items():
            try:
                pods.append(tracker.sample(conditions, throttled))
            except GroupGoneError:
                ended.append(key)
                continue
            if tracker.lost_container:
                self._informer.invalidate()
        for key in ended:
            self._drop(key)
            self._must_follow = True
            self._informer.invalidate()
        return pods

    def _is_memory_low(self) -> bool:
        node = self._node.node
        if node is None or node.memory_total is None or node.memory_available is None:
            return False
        return node.memory_available < LOW_MEMORY * node.memory_total

    def _remember(self, now: float, sums: Sums) -> None:
        """Put this cycle into the history; a sum over pods of which one is not measured is a gap."""
        node, cache = self._node.node, self.cache
        assert node is not None
        if node.memory_available is not None:
            cache.memory_available.add(now, node.memory_available)
        if node.cpu_usage is not None:
            cache.cpu_minutes.add(now, node.cpu_usage)
        if node.cpu_usage is not None and sums.be is not None:
            cache.cpu_percent_without_be.add(now, max(0.0, node.cpu_usage - sums.be) / node.cpus * 100)
        if sums.ls_rss:
            cache.ls_rss.add(now, sums.ls_rss)
        ended_minute = None if sums.ls is None else cache.ls_minutes.add(now, sums.ls)
        if ended_minute is not None:
            cache.peaks.add(self._sources.clock.wall(), ended_minute)

    def _with_trends(self, now: float, sums: Sums, missing: dict[str, str]) -> Node:
        if self._node.node is None:
            raise NodeUnreadableError(self._node.failure)
        trends = self._trends
        trends.refresh(self.cache, now, self._sources.clock.wall())
        rss = sums.ls_rss
        available = fall(*self.cache.memory_available.since(now - AVAILABLE_TREND))
        if available is None:
            missing["node.memory_available_trend"] = "less than 10 s of history"
        if not rss:
            missing["node.ls_memory_growth"] = "no LS pod whose memory is known" if rss is not None else "an LS pod's memory is not known"
        if trends.peaks is None:
            missing["node.ls_cpu_peak"] = missing["node.ls_cpu_p95"] = "no whole minute of this hour of day yet"
        if trends.cpu_peak is None:
            missing["node.cpu_peak_24h"] = "no whole minute yet"
        return msgspec.structs.replace(
            self._node.node,
            cpu_peak_24h=trends.cpu_peak,
            cpu_trend=trends.cpu,
            memory_available_trend=available,
            ls_memory_growth=trends.ls_rss / rss * 100 if rss else None,
            ls_cpu_peak=trends.peaks[0] if trends.peaks else None,
            ls_cpu_p95=trends.peaks[1] if trends.peaks else None,
        )


class Trends:
    """The fits over the node's history, made anew every 10 s: `cpu` in points/min, `ls_rss` in bytes/min, `peaks` and `cpu_peak` in
    cores."""

    def __init__(self) -> None:
        self.cpu = 0.0
        self.ls_rss = 0.0
        self.peaks: tuple[float, float] | None = None
        self.cpu_peak: float | None = None
        self._due = -math.inf

    def refresh(self, cache: MetricCache, now: float, wall: float) -> None:
        if now < self._due:
            return
        self._due = now + FITS
        self.cpu = slope(*cache.cpu_percent_without_be.since(now - CPU_TREND))
        self.ls_rss = slope(*cache.ls_rss.since(now - LS_GROWTH))
        self.peaks = cache.peaks.at(wall)
        self.cpu_peak = cache.cpu_minutes.largest()


class Sums:
    """Of all pods: CPU usage of BE (`be`) and of the LS pods (`ls`) in cores, memory of the LS pods (`ls_rss`) in bytes; None when that of
    one of them is not known."""

    __slots__ = ("be", "ls", "ls_rss")

    def __init__(self, pods: Iterable[Pod]) -> None:
        be: list[float | None] = []
        ls: list[float | None] = []
        rss: list[float | None] = []
        for pod in pods:
            if pod.qos is QoS.BE:
                be.append(pod.cpu.usage)
            elif is_latency_sensitive(pod.qos):
                ls.append(pod.cpu.usage)
                rss.append(pod.memory.rss)
        self.be, self.ls, self.ls_rss = total(be), total(ls), total(rss)


def total(values: Iterable[float | None]) -> float | None:
    """Return the sum; None when one of the values is not known."""
    try:
        return float(sum(values))  # type: ignore[arg-type]
    except TypeError:
        return None


def fall(times: Sequence[float], values: Sequence[float]) -> float | None:
    """Return the net change per second from the first point to the last; None for less than 10 s of history."""
    if not times or times[-1] - times[0] < AVAILABLE_SPAN:
        return None
    return (values[-1] - values[0]) / (times[-1] - times[0])
