"""What the pods of a recording wanted. In: its cycles in their order. Out: `Observed`, with each pod's demand in steps.

What a pod wanted while it was held back is not known, only bounded: `low` is what it was seen to want, `high` what it may have wanted.
Of each pod a few numbers a step are kept, whatever the length of a cycle.
"""

from __future__ import annotations

import math
from array import array

from msgspec import Struct

from qosmanager.config.settings import Settings
from qosmanager.model.qos import QoS
from qosmanager.model.record import CycleRecord
from qosmanager.model.snapshot import Pod
from qosmanager.views.effects import evicted

FULL = 0.9  # of a limit: whoever uses this much of it may want more
_CALM = 0.1  # quantile of a service's p99 that stands for "nobody is in its way"
_SUFFERS = 2.0  # times that p99: what waits then is work that is left over
_THROTTLED = 0.05  # share of its periods above which its own limit is in a pod's way (section 5.3)


class PodSeries:
    """One pod: as it was declared, and by step of the recording, from step `begin` on, what it wanted. Seen from `first` to `last`."""

    def __init__(self, pod: Pod, first: float, begin: int) -> None:
        self.pod = pod
        self.first = first
        self.last = first
        self.begin = begin
        self.evicted: float | None = None  # when its eviction took place, seconds
        self.memory: Memory | None = None
        self.low = array("f")  # cores, mean of each step
        self.high = array("f")
        self.peak: float | None = None  # the most it used in a cycle in which nothing held it, cores
        self.slowest = array("f")  # largest p99 of each step; NaN: none was measured
        self.calm = array("f")  # mean p99 of the cycles of each step in which its own limit did not throttle it; NaN: there was none

    def calm_p99(self) -> float | None:
        """Return the p99 in seconds that it has when nobody is in its way; None: it was not seen so."""
        return _quantile(self.calm)

    def own_p99(self) -> float | None:
        """Return the p99 in seconds by itself, as far as it is known; None: none was measured."""
        calm = self.calm_p99()
        return _quantile(self.slowest) if calm is None else calm


class Memory(Struct):
    """What a pod held: first and last (second, bytes), and the sum of all readings."""

    first: tuple[float, int]
    last: tuple[float, int]
    total: int = 0
    count: int = 0

    def add(self, now: float, held: int) -> None:
        """Take one reading in."""
        self.last = (now, held)
        self.total += held
        self.count += 1


class Observed(Struct, frozen=True, kw_only=True):
    """A whole recording. Seconds of its own time (record/elapsed.py); `begun` in epoch seconds; `step`: length of a step of demand;
    `settings`: those of its last cycle."""

    begun: float
    seconds: float
    step: float
    cpus: float
    memory: int
    swap: int
    system_cpu: float
    system_memory: int
    kubernetes: bool
    pods: tuple[PodSeries, ...]
    settings: Settings
    settings_changed: int

    @property
    def has_slo(self) -> bool:
        """Whether a service has an objective and was measured."""
        return any(each.pod.latency.slo is not None and each.own_p99() is not None for each in self.pods)


class _Step:
    """Sums of one pod over the step that is not over yet."""

    __slots__ = ("calm", "calm_count", "count", "held", "high", "low", "slowest")

    def __init__(self) -> None:
        self.low = self.high = self.calm = 0.0
        self.count = self.calm_count = 0
        self.slowest = math.nan
        self.held = False

    def add_p99(self, pod: Pod, p99: float) -> None:
        self.slowest = max(p99, self.slowest) if self.slowest == self.slowest else p99
        if (pod.cpu.throttled or 0.0) <= _THROTTLED:
            self.calm += p99
            self.calm_count += 1


class Observer:
    """Takes cycles in. `step` in seconds: demand shorter than that is not seen."""

    def __init__(self, step: float) -> None:
        self._step = step
        self._pods: dict[tuple[str, str], PodSeries] = {}
        self._now: dict[tuple[str, str], _Step] = {}
        self._number = 0  # of the step that is not over yet
        self._begun: float | None = None
        self._last = 0.0
        self._system = [0.0, 0.0, 0.0]  # cores, bytes, cycles
        self._cpus = 0.0
        self._memory = self._swap = 0
        self._batch = 0  # most BE pods at one time
        self._settings: Settings | None = None
        self._changed = 0

    def add(self, now: float, record: CycleRecord, settings: Settings, before: float | None) -> None:
        """Take one cycle in, at `now` of the recording's own time, decided under `settings` while BE was held at `before` cores (None: not
        held)."""
        if self._begun is None:
            self._begun = record.wall
        self._last = now
        if now // self._step > self._number:
            self._close_step()
            self._number = int(now // self._step)
        self._changed += self._settings is not None and settings != self._settings
        self._settings = settings
        self._add_node(record)
        batch = [pod for pod in record.snapshot.pods if pod.qos is QoS.BE]
        self._batch = max(self._batch, len(batch))
        held = before is not None and sum(pod.cpu.usage or 0.0 for pod in batch) >= FULL * before
        for pod in record.snapshot.pods:
            self._add_pod(pod, now, held=held and pod.qos is QoS.BE)
        for key in evicted(record):
            if key in self._pods:
                self._pods[key].evicted = now

    def _add_node(self, record: CycleRecord) -> None:
        node, pods = record.snapshot.node, record.snapshot.pods
        self._cpus = max(self._cpus, node.cpus)
        self._memory = max(self._memory, node.memory_total or 0)
        self._swap = max(self._swap, node.swap_total or 0)
        if node.cpu_usage is None or any(pod.cpu.usage is None for pod in pods):
            return
        self._system[0] += max(0.0, node.cpu_usage - sum(pod.cpu.usage or 0.0 for pod in pods))
        if node.memory_total and node.memory_available is not None:
            held = sum(pod.memory.rss or 0 for pod in pods)
            self._system[1] += max(0, node.memory_total - node.memory_available - held)
        self._system[2] += 1

    def _add_pod(self, pod: Pod, now: float, *, held: bool) -> None:
        key = (pod.key, pod.uid)
        series = self._pods.get(key)
        if series is None:
            series = self._pods[key] = PodSeries(pod, now, self._number)
        series.pod, series.last = pod, now
        if pod.terminating:
            return  # what it does while it ends is nothing that it would have gone on with
        if pod.memory.rss is not None:
            if series.memory is None:
                series.memory = Memory((now, pod.memory.rss), (now, pod.memory.rss))
            series.memory.add(now, pod.memory.rss)
        current = self._now.get(key)
        if current is None:
            current = self._now[key] = _Step()
        if pod.latency.p99 is not None:
            current.add_p99(pod, pod.latency.p99)
        usage = pod.cpu.usage
        if usage is None:
            return
        current.count += 1
        # What arrives at a queue is what it serves, but while it grows; what waits may be some of that, or the same work again. Waiting
        # contains what its own limit withholds; where only that is measured, it stands for the whole.
        current.low += usage
        current.high += usage + ((pod.cpu.throttled or 0.0) * usage if pod.cpu.wait is None else pod.cpu.wait)
        current.held |= held
        if not held:
            series.peak = max(series.peak or 0.0, usage)

    def _close_step(self) -> None:
        """End the step for all pods that were measured in it."""
        for key, current in self._now.items():
            if not current.count:
                continue
            series = self._pods[key]
            for _ in range(self._number - series.begin - len(series.low)):
                series.low.append(series.low[-1] if series.low else 0.0)
                series.high.append(series.high[-1] if series.high else 0.0)
                series.slowest.append(math.nan)
                series.calm.append(math.nan)
            series.low.append(current.low / current.count)
            # What held it hid how much it wanted: not a number until all is known.
            series.high.append(math.inf if current.held else current.high / current.count)
            series.slowest.append(current.slowest)
            series.calm.append(current.calm / current.calm_count if current.calm_count else math.nan)
        self._now.clear()

    def observed(self, *, kubernetes: bool) -> Observed:
        """Return all of it; `kubernetes`: whether the groups are kubelet's. Raises ValueError when there was no cycle."""
        if self._begun is None or self._settings is None:
            raise ValueError("there is no cycle")
        self._close_step()
        for series in self._pods.values():
            self._bound(series)
        cores, held, cycles = self._system
        return Observed(
            begun=self._begun,
            seconds=max(self._last, self._step),
            step=self._step,
            cpus=self._cpus,
            memory=self._memory,
            swap=self._swap,
            system_cpu=cores / cycles if cycles else 0.0,
            system_memory=round(held / cycles) if cycles else 0,
            kubernetes=kubernetes,
            pods=tuple(series for series in self._pods.values() if series.low),
            settings=self._settings,
            settings_changed=self._changed,
        )

    def _bound(self, series: PodSeries) -> None:
        """Make the upper bound of what a pod may have wanted while it was held back.

        A BE pod: what it took at most when it was free; never seen free, an equal share of the node. Any other: what it waited for is left
        over only while its latency says that work was.
        """
        if series.pod.qos is QoS.BE:
            most = self._cpus / max(1, self._batch) if series.peak is None else series.peak
            high = (max(low, most) if math.isinf(high) else high for low, high in zip(series.low, series.high, strict=True))
        else:
            calm = series.calm_p99()
            fine = 0.0 if calm is None else _SUFFERS * calm
            high = (low if p99 <= fine else high for low, high, p99 in zip(series.low, series.high, series.slowest, strict=True))
        series.high = array("f", high)


def _quantile(values: array[float]) -> float | None:
    known = sorted(value for value in values if value == value)  # noqa: PLR0124 - NaN is not equal to itself
    return known[int(len(known) * _CALM)] if known else None
