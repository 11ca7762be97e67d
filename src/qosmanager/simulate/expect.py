"""What a scenario expects, compared with what a run came to (docs/simulate.md)."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from qosmanager.config.settings import CpuIsolation, Settings
from qosmanager.model.qos import Mode, Plugin
from qosmanager.simulate.scenario import Agent, Expectation, Measure, Scenario, Weights
from qosmanager.simulate.tally import ServiceSeries, Tally, most_within

Number = TypeVar("Number", int, float)

UNITS = {
    Measure.OVER_SLO: "s",
    Measure.LONGEST_OVER_SLO: "s",
    Measure.WITHIN_SLO: "%",
    Measure.WORST_P99: "ms",
    Measure.MEDIAN_P99: "ms",
    Measure.P99_RATIO: "",
    Measure.LS_CORES: "cores",
    Measure.BE_CORES: "cores",
    Measure.BE_LIMIT: "cores",
    Measure.LEAST_BE_LIMIT: "cores",
    Measure.NODE_USE: "%",
    Measure.IDLE_CORES: "cores",
    Measure.EVICTIONS: "",
    Measure.OOM_KILLS: "",
    Measure.REVERSALS: "a minute",
    Measure.BURSTS: "",
    Measure.BURST_LIMIT: "cores",
    Measure.LONGEST_BURST: "s",
    Measure.LEAK_NAMED: "s",
}
_WHAT = {
    Measure.OVER_SLO: "time above the SLO",
    Measure.LONGEST_OVER_SLO: "longest time above the SLO",
    Measure.WITHIN_SLO: "inside the SLO",
    Measure.WORST_P99: "p99 of the worst second",
    Measure.MEDIAN_P99: "p99 of the median second",
    Measure.P99_RATIO: "median p99 as a part of that without the agent",
    Measure.LS_CORES: "LS use",
    Measure.BE_CORES: "BE use",
    Measure.BE_LIMIT: "BE limit",
    Measure.LEAST_BE_LIMIT: "lowest BE limit",
    Measure.NODE_USE: "use of the node",
    Measure.IDLE_CORES: "idle",
    Measure.EVICTIONS: "evictions",
    Measure.OOM_KILLS: "kills by the kernel",
    Measure.REVERSALS: "reversals of the BE limit",
    Measure.BURSTS: "bursts",
    Measure.BURST_LIMIT: "highest raised limit",
    Measure.LONGEST_BURST: "longest burst",
    Measure.LEAK_NAMED: "named as leaking",
}


class Finding(Struct, frozen=True, kw_only=True):
    """One expectation and what came of it. `value` in `unit` (None: there was nothing to measure); `met` None: not demanded."""

    what: str
    value: float | None
    unit: str
    bounds: str
    met: bool | None
    why: str = ""


class Window(Struct, frozen=True):
    """The cycles that end within a time, and the workload looked at (None: all)."""

    tally: Tally
    after: float
    before: float
    workload: str | None
    cpus: float

    @property
    def places(self) -> range:
        """Which cycles they are; times rise, so they are in a row."""
        times = self.tally.time
        return range(bisect_right(times, self.after), bisect_right(times, self.before))

    @property
    def services(self) -> ServiceSeries:
        return self.tally.services[self.workload]

    def cut(self, series: Sequence[Number]) -> list[Number]:
        """Return the values of the window that are numbers."""
        places = self.places
        return [value for value in series[places.start : places.stop] if not math.isnan(value)]

    def holds(self, time: float) -> bool:
        return self.after < time <= self.before

    def names(self, key: str) -> bool:
        """Whether a pod is of the workload looked at."""
        return self.workload is None or self.tally.of_workload(key) == self.workload


def weights(settings: Settings) -> Weights:
    """Return whether these settings have the agent put BE behind the services in the kernel (decide/standing.py)."""
    weighs = settings.mode(Plugin.NODE_QOS_RESOURCE) is Mode.ENFORCE and settings.isolation.cpu is not CpuIsolation.OFF
    return Weights.ON if weighs else Weights.OFF


def check(scenario: Scenario, settings: Settings, runs: Mapping[Agent, Tally]) -> tuple[Finding, ...]:
    """Return what came of each expectation that is about a run that was made, under such settings."""
    strategies, weighings = (None, settings.cpu_suppress.strategy), (None, weights(settings))
    found = []
    for each in scenario.expect:
        needed = {each.agent} | ({Agent.OFF} if each.measure is Measure.P99_RATIO else set())
        if needed <= runs.keys() and each.strategy in strategies and each.weights in weighings:
            found.append(_finding(each, scenario, runs))
    return tuple(found)


def _finding(each: Expectation, scenario: Scenario, runs: Mapping[Agent, Tally]) -> Finding:
    end = scenario.duration if each.before is None else each.before

    def window(agent: Agent) -> Window:
        return Window(runs[agent], each.after, end + 1e-6, each.workload, scenario.node.cpus)

    value = _value(each.measure, window(each.agent))
    if each.measure is Measure.P99_RATIO:
        without = _median_p99(window(Agent.OFF))
        value = None if value is None or not without else value / without
    shown = None if value is None else round(value, 4)
    is_met = shown is not None and (each.at_least is None or shown >= each.at_least) and (each.at_most is None or shown <= each.at_most)
    return Finding(
        what=_words(each, end, scenario.duration),
        value=shown,
        unit=UNITS[each.measure],
        bounds=_bounds(each),
        met=None if each.claim and not is_met else is_met,
        why=each.why,
    )


def _words(each: Expectation, end: float, duration: float) -> str:
    words = [_WHAT[each.measure]]
    if each.workload is not None:
        words.append(f"of {each.workload}")
    if each.after or end < duration:
        words.append(f"from {_clock(each.after)} to {_clock(end)}")
    if each.agent is Agent.OFF:
        words.append("without the agent")
    return " ".join(words)


def _clock(seconds: float) -> str:
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}h{minutes:02}" if hours else f"{minutes}:{rest:02}"


def _bounds(each: Expectation) -> str:
    bounds = [f"at least {each.at_least:g}"] if each.at_least is not None else []
    return " and ".join(bounds + ([f"at most {each.at_most:g}"] if each.at_most is not None else []))


def _value(measure: Measure, window: Window) -> float | None:
    return _MEASURES[measure](window)


def _over(window: Window) -> Iterator[tuple[float, int]]:
    """Yield the length of each cycle, and how many pods were above their SLO in it."""
    return zip(window.cut(window.tally.seconds), window.cut(window.services.over), strict=True)


def _over_slo(window: Window) -> float:
    return sum(length for length, count in _over(window) if count)


def _longest_over_slo(window: Window) -> float:
    longest = running = 0.0
    for length, count in _over(window):
        running = running + length if count else 0.0
        longest = max(longest, running)
    return longest


def _within_slo(window: Window) -> float | None:
    measured, over = sum(window.cut(window.services.measured)), sum(window.cut(window.services.over))
    return 100 * (1 - over / measured) if measured else None


def _median_p99(window: Window) -> float | None:
    values = window.cut(window.services.p99)
    return statistics.median(values) * 1000 if values else None


def _worst_p99(window: Window) -> float | None:
    values = window.cut(window.services.p99)
    return max(values) * 1000 if values else None


def _mean(choose: Callable[[Tally], Sequence[float]]) -> Callable[[Window], float | None]:
    def mean(window: Window) -> float | None:
        values = window.cut(choose(window.tally))
        return sum(values) / len(values) if values else None

    return mean


def _node_use(window: Window) -> float | None:
    mean = _mean(lambda tally: tally.node)(window)
    return None if mean is None else mean / window.cpus * 100


def _idle(window: Window) -> float | None:
    mean = _mean(lambda tally: tally.node)(window)
    return None if mean is None else window.cpus - mean


def _count(what: str) -> Callable[[Window], float]:
    def count(window: Window) -> float:
        return sum(kind == what and window.holds(time) and window.names(key) for time, kind, key in window.tally.happenings)

    return count


def _reversals(window: Window) -> float:
    return most_within([time for time in window.tally.reversals if window.holds(time)], 60.0)


def _bursts(window: Window) -> list[tuple[float, float]]:
    """Return length and highest limit of the bursts that ended in the window; what still runs at the end of the run ends with it."""
    return [(end - begin, top) for begin, end, key, top in window.tally.bursts if window.holds(end) and window.names(key)]


def _leak_named(window: Window) -> float | None:
    return min((time for key, time in window.tally.leaks.items() if window.names(key) and window.holds(time)), default=None)


_MEASURES: dict[Measure, Callable[[Window], float | None]] = {
    Measure.OVER_SLO: _over_slo,
    Measure.LONGEST_OVER_SLO: _longest_over_slo,
    Measure.WITHIN_SLO: _within_slo,
    Measure.WORST_P99: _worst_p99,
    Measure.MEDIAN_P99: _median_p99,
    Measure.P99_RATIO: _median_p99,
    Measure.LS_CORES: _mean(lambda tally: tally.ls),
    Measure.BE_CORES: _mean(lambda tally: tally.be),
    Measure.BE_LIMIT: _mean(lambda tally: tally.limit),
    Measure.LEAST_BE_LIMIT: lambda window: min(window.cut(window.tally.limit), default=None),
    Measure.NODE_USE: _node_use,
    Measure.IDLE_CORES: _idle,
    Measure.EVICTIONS: _count("evicted"),
    Measure.OOM_KILLS: _count("oom-killed"),
    Measure.REVERSALS: _reversals,
    Measure.BURSTS: lambda window: float(len(_bursts(window))),
    Measure.BURST_LIMIT: lambda window: max((top for _, top in _bursts(window)), default=None),
    Measure.LONGEST_BURST: lambda window: max((length for length, _ in _bursts(window)), default=None),
    Measure.LEAK_NAMED: _leak_named,
}
