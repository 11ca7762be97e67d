"""What a simulation came to, as data (docs/simulate.md). In: tallies. Out: `Report`, and the document that is printed as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from qosmanager.config.settings import Settings
from qosmanager.model.qos import LEVELS
from qosmanager.simulate.expect import Finding, check, weights
from qosmanager.simulate.load import Loaded
from qosmanager.simulate.scenario import Agent
from qosmanager.simulate.tally import Tally, Totals
from qosmanager.views.figures import rounded
from qosmanager.views.sparkline import condensed

COLUMNS = 48  # of the timeline: with its names and scales it fits 80
_MOST_EVENTS = 200


class Timeline(Struct, frozen=True, kw_only=True):
    """Series of at most COLUMNS numbers, each the largest of its time; NaN where there is none. Cores; `p99` in seconds; `level` a rank."""

    ls: tuple[float, ...]
    be: tuple[float, ...]
    limit: tuple[float, ...]
    p99: tuple[float, ...]
    level: tuple[float, ...]


class Report(Struct, frozen=True, kw_only=True):
    """`totals` and `timelines` by run; `happenings` of the run with the agent (else of the other): time, what, pod's key."""

    loaded: Loaded
    settings: Settings
    seed: int
    totals: dict[Agent, Totals]
    timelines: dict[Agent, Timeline]
    happenings: tuple[tuple[float, str, str], ...]
    findings: tuple[Finding, ...]

    @property
    def is_met(self) -> bool:
        """Whether no expectation is broken."""
        return all(finding.met is not False for finding in self.findings)


def report(loaded: Loaded, settings: Settings, seed: int, tallies: Mapping[Agent, Tally]) -> Report:
    """Put together what is shown."""
    scenario = loaded.scenario
    has_slo = any(spec.service is not None and spec.slo.p99 is not None for spec in scenario.workloads)
    told = tallies.get(Agent.ON) or tallies[Agent.OFF]
    return Report(
        loaded=loaded,
        settings=settings,
        seed=seed,
        totals={agent: tally.totals(has_slo=has_slo) for agent, tally in tallies.items()},
        timelines={agent: timeline(tally) for agent, tally in tallies.items()},
        happenings=tuple(told.happenings[:_MOST_EVENTS]),
        findings=check(scenario, settings, tallies),
    )


def timeline(tally: Tally, columns: int = COLUMNS) -> Timeline:
    """Condense a run's series."""

    def short(series: Sequence[float]) -> tuple[float, ...]:
        return tuple(condensed(series, columns))

    p99 = short(tally.services[None].p99)
    levels = [math.nan if rank < 0 else float(rank) for rank in tally.level]
    return Timeline(ls=short(tally.ls), be=short(tally.be), limit=short(tally.limit), p99=p99, level=short(levels))


def document(told: Report) -> dict[str, Any]:
    """Return the JSON document. What is not there is null; a level is its name."""
    scenario = told.loaded.scenario
    return {
        "scenario": told.loaded.name,
        "about": scenario.about,
        "seed": told.seed,
        "strategy": told.settings.cpu_suppress.strategy.value,
        "weights": weights(told.settings).value,
        "cpus": scenario.node.cpus,
        "seconds": scenario.duration,
        "agent": {agent.value: _totals(totals) for agent, totals in told.totals.items()},
        "timeline": {agent.value: _timeline(series) for agent, series in told.timelines.items()},
        "happenings": [{"seconds": round(time, 1), "what": what, "pod": key} for time, what, key in told.happenings],
        "expect": [msgspec.to_builtins(finding) for finding in told.findings],
        "met": told.is_met,
    }


def _totals(totals: Totals) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.to_builtins(totals)
    return {name: rounded(value) if isinstance(value, float) else value for name, value in values.items()}


def _timeline(series: Timeline) -> dict[str, Any]:
    numbers = {name: [_number(value) for value in getattr(series, name)] for name in ("ls", "be", "limit", "p99")}
    return {**numbers, "level": [None if math.isnan(rank) else LEVELS[int(rank)].value for rank in series.level]}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 4)
