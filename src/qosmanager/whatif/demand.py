"""What the pods of a recording wanted. In: its cycles in their order. Out: `Observed`, with each pod's demand in steps.

What a pod wanted while it was held back is not known, only bounded: `low` is what it was seen to want, `high` what it may have wanted.
"""

from __future__ import annotations

import math
from array import array

from msgspec import Struct

from qosmanager.config.settings import Settings
from qosmanager.model.actions import Evict, Result
from qosmanager.model.qos import Mode, QoS
from qosmanager.model.record import CycleRecord
from qosmanager.model.snapshot import Pod

FULL = 0.9  # of a limit: whoever uses this much of it may want more
_CALM = 0.1  # quantile of a service's p99 that stands for "nobody is in its way"
_SUFFERS = 2.0  # times that p99: what waits then is work that is left over


class PodSeries:
    """One pod: as it was declared, and by step of time what it wanted. `last` is the end of the last step in which it was seen."""

    def __init__(self, pod: Pod, first: float) -> None:
        self.pod = pod
        self.first = first
        self.last = first
        self.evicted = False
        self.low = array("f")  # cores, mean of each step from `first` on
        self.high = array("f")
        self.rss: list[tuple[float, int]] = []
        self.p99 = array("f")
        self.peak: float | None = None  # the most it used in a cycle in which nothing held it, cores
        self.slowest = array("f")  # largest p99 of each step; NaN: none was measured

    def calm_p99(self) -> float | None:
        """Return the p99 in seconds that it has when nobody is in its way; None: none was measured."""
        known = sorted(self.p99)
        return known[int(len(known) * _CALM)] if known else None


class Observed(Struct, frozen=True, kw_only=True):
    """A whole recording. Seconds from its beginning; `step`: length of a step of demand; `settings`: those of its last cycle."""

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
        return any(each.pod.latency.slo is not None and each.p99 for each in self.pods)


class _Step:
    """Sums of one pod over the step that is not over yet."""

    __slots__ = ("count", "held", "high", "low", "p99")

    def __init__(self) -> None:
        self.low = self.high = 0.0
        self.p99 = math.nan
        self.count = 0
        self.held = False


class Observer:
    """Takes cycles in. `step` in seconds: demand shorter than that is not seen."""

    def __init__(self, step: float) -> None:
        self._step = step
        self._pods: dict[tuple[str, str], PodSeries] = {}
        self._now: dict[tuple[str, str], _Step] = {}
        self._begun: float | None = None
        self._last = 0.0
        self._edge = step
        self._system = [0.0, 0.0, 0.0]  # cores, bytes, cycles
        self._cpus = 0.0
        self._memory = self._swap = 0
        self._settings: Settings | None = None
        self._changed = 0

    def add(self, record: CycleRecord, settings: Settings, before: float | None) -> None:
        """Take one cycle in, decided under `settings` while BE was held at `before` cores (None: not held)."""
        if self._begun is None:
            self._begun = record.wall
        now = record.wall - self._begun
        if now < self._last:
            return  # the clock was set back: what was seen then is there already
        self._last = now
        if now >= self._edge:
            self._close_step()
            self._edge += math.floor((now - self._edge) / self._step + 1) * self._step
        self._changed += self._settings is not None and settings != self._settings
        self._settings = settings
        self._add_node(record)
        held = before is not None and _be_usage(record) >= FULL * before
        for pod in record.snapshot.pods:
            self._add_pod(pod, now, held=held and pod.qos is QoS.BE)
        for index, action in enumerate(record.plan.actions):
            if isinstance(action, Evict) and action.mode is Mode.ENFORCE and _is_done(record, index):
                series = self._pods.get((action.pod, action.uid))
                if series is not None:
                    series.evicted = True

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
            series = self._pods[key] = PodSeries(pod, now)
            self._now[key] = _Step()
        series.pod, series.last = pod, now
        if pod.memory.rss is not None and (not series.rss or now - series.rss[-1][0] >= self._step):
            series.rss.append((now, pod.memory.rss))
        current = self._now[key]
        if pod.latency.p99 is not None:
            series.p99.append(pod.latency.p99)
            current.p99 = max(pod.latency.p99, current.p99) if current.p99 == current.p99 else pod.latency.p99
        if pod.cpu.usage is None:
            return
        current.count += 1
        # What arrives at a queue is what it serves, but while it grows; what waits may be some of that, or the same work again.
        current.low += pod.cpu.usage
        current.high += pod.cpu.usage + (pod.cpu.wait or 0.0)
        current.held |= held
        if not held:
            series.peak = max(series.peak or 0.0, pod.cpu.usage)

    def _close_step(self) -> None:
        """End the step for all pods that were seen in it; a pod that was not is gone."""
        for key, current in self._now.items():
            series = self._pods[key]
            if not current.count:
                continue
            missing = round((self._edge - self._step - series.first) / self._step) - len(series.low)
            for _ in range(max(0, missing)):
                series.low.append(series.low[-1] if series.low else 0.0)
                series.high.append(series.high[-1] if series.high else 0.0)
                series.slowest.append(math.nan)
            low, high = current.low / current.count, current.high / current.count
            series.low.append(low)
            # What held it hid how much it wanted: not a number until all is known.
            series.high.append(math.inf if current.held else max(low, high))
            series.slowest.append(current.p99)
            self._now[key] = _Step()

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
            batch = sum(each.pod.qos is QoS.BE for each in self._pods.values())
            most = self._cpus / max(1, batch) if series.peak is None else series.peak
            high = (max(low, most) if math.isinf(high) else high for low, high in zip(series.low, series.high, strict=True))
        else:
            calm = series.calm_p99()
            fine = math.inf if calm is None else _SUFFERS * calm
            high = (low if p99 <= fine else high for low, high, p99 in zip(series.low, series.high, series.slowest, strict=True))
        series.high = array("f", high)


def _be_usage(record: CycleRecord) -> float:
    return sum(pod.cpu.usage or 0.0 for pod in record.snapshot.pods if pod.qos is QoS.BE)


def _is_done(record: CycleRecord, action: int) -> bool:
    return any(receipt.action == action and receipt.result in (Result.APPLIED, Result.UNCHANGED) for receipt in record.receipts)
