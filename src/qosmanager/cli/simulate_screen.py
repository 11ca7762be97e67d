"""What `qosmanager simulate` does and prints, apart from the command itself: no other command needs the simulator."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct
from rich.console import Console, Group, RenderableType
from rich.progress import Progress, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from qosmanager.cli.console import console
from qosmanager.cli.screen import LEVEL_STYLE, span
from qosmanager.config.parse import read_settings
from qosmanager.config.schema import document_schema
from qosmanager.config.settings import Settings
from qosmanager.documents.problem import read_all
from qosmanager.model.count import counted
from qosmanager.model.qos import LEVELS
from qosmanager.ports import Readings
from qosmanager.simulate.expect import Finding
from qosmanager.simulate.load import Loaded, load, shipped
from qosmanager.simulate.report import Report, Timeline, report
from qosmanager.simulate.run import Cycle, cycles, managed, unmanaged
from qosmanager.simulate.scenario import Agent, Scenario
from qosmanager.simulate.tally import Tally, Totals
from qosmanager.views.sparkline import sparkline

TITLES = {Agent.ON: "with the agent", Agent.OFF: "without it"}
_EVENTS = 12  # shown
_REDRAWN = 200  # cycles


class Wanted(Struct, frozen=True, kw_only=True):
    """What is to be run. `off`: without the agent only."""

    loaded: Loaded
    settings: Settings
    seed: int
    off: bool


class Aside(Protocol):
    """Something done with each cycle besides adding it up: a page, a recording."""

    def wrap(self, readings: Readings) -> Readings:
        """Return what is decided on in place of `readings`."""

    def take(self, agent: Agent, cycle: Cycle) -> None: ...

    def finish(self, told: Report) -> None:
        """All is run."""


def listing() -> str:
    """Return the shipped scenarios, one a line."""
    names = shipped()
    width = max(map(len, names))
    found = [(name, load(name).scenario) for name in names]
    return "".join(f"{name:<{width}}  {span(scenario.duration):>9}  {scenario.about}\n" for name, scenario in found)


def schema() -> str:
    """Return the JSON Schema of a scenario file."""
    return json.dumps(document_schema(Scenario, "QOSManager scenario"), indent=2, ensure_ascii=False) + "\n"


def wanted(scenario: str, config: Path | None, seed: int, *, off: bool) -> Wanted:
    """Read what is to be run. Raises DocumentError."""
    settings, loaded = read_all(lambda: Settings() if config is None else read_settings(config), lambda: load(scenario))
    return Wanted(loaded=loaded, settings=settings, seed=seed, off=off)


def run(wanted: Wanted, asides: Sequence[Aside]) -> Report:
    """Run a scenario."""
    loaded, settings = wanted.loaded, wanted.settings

    def wrap(readings: Readings) -> Readings:
        for aside in asides:
            readings = aside.wrap(readings)
        return readings

    agents = (Agent.OFF,) if wanted.off else (Agent.ON, Agent.OFF)
    tallies = {agent: Tally(loaded, settings) for agent in agents}
    errors = Console(stderr=True)
    # A bar that stays would be one more line of a log.
    with Progress(
        *Progress.get_default_columns()[:-1], TimeRemainingColumn(), console=errors, transient=True, disable=not errors.is_terminal
    ) as bar:
        for agent in agents:
            task = bar.add_task(TITLES[agent], total=cycles(loaded, settings))
            is_on = agent is Agent.ON
            passing = managed(loaded, settings, wanted.seed, wrap) if is_on else unmanaged(loaded, settings, wanted.seed)
            for number, cycle in enumerate(passing, 1):
                tallies[agent].add(cycle)
                for aside in asides:
                    aside.take(agent, cycle)
                if number % _REDRAWN == 0:
                    bar.update(task, completed=number)
    told = report(loaded, settings, wanted.seed, tallies)
    for aside in asides:
        aside.finish(told)
    return told


def show(told: Report) -> None:
    """Print a report for people."""
    here = console()
    here.print(Group(_head(told), Text(""), _table(told), Text(""), *_timelines(told), *_happened(told), *_expected(told)))


def facts(told: Report) -> str:
    """Return what was run, in one line."""
    scenario, strategy = told.loaded.scenario, told.settings.cpu_suppress.strategy.value
    return f"{counted(scenario.node.cpus, 'CPU')}, {span(scenario.duration)}, strategy {strategy}, seed {told.seed}"


def _head(told: Report) -> RenderableType:
    return Group(Text.assemble((told.loaded.name, "bold"), f": {told.loaded.scenario.about}"), Text(facts(told), style="dim"))


def _table(told: Report) -> RenderableType:
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for agent in told.totals:
        table.add_column(TITLES[agent], justify="right")
    for name, cells in rows(list(told.totals.values())):
        table.add_row(name, *cells)
    return table


def rows(columns: list[Totals]) -> Iterator[tuple[str, list[str]]]:
    """Yield the table of totals: a name, and a cell for each run."""
    yield "LS p99 ms, median second", [_milliseconds(each.median_p99) for each in columns]
    yield "LS p99 ms, worst second", [_milliseconds(each.worst_p99) for each in columns]
    yield "seconds above an SLO", ["-" if each.over_slo is None else f"{each.over_slo:.0f}" for each in columns]
    yield "pods inside their SLO, percent of the time", ["-" if each.within_slo is None else f"{each.within_slo:.2f}" for each in columns]
    yield "requests given up", [str(each.given_up) for each in columns]
    yield "BE core-hours", [f"{each.be_core_hours:.2f}" for each in columns]
    yield "node use, cores", [f"{each.node_use:.2f}" for each in columns]
    yield "evictions", [str(each.evictions) for each in columns]
    yield "kills by the kernel", [str(each.oom_kills) for each in columns]
    yield "reversals of the BE limit (most in a minute)", [f"{each.reversals} ({each.most_reversals})" for each in columns]


def _timelines(told: Report) -> Iterator[RenderableType]:
    slo = min((spec.slo.p99 for spec in told.loaded.scenario.workloads if spec.slo.p99 is not None), default=None)
    for agent, series in told.timelines.items():
        length = told.loaded.scenario.duration / max(1, len(series.ls))
        yield Text(f"{TITLES[agent]}, a column is {span(length) if length >= 1 else f'{length:g} s'}", style="bold")
        yield from _lines(series, slo)
        yield Text("")


def _lines(series: Timeline, slo: float | None) -> Iterator[Text]:
    cores = max((value for value in (*series.ls, *series.be) if not math.isnan(value)), default=0.0)
    yield _line("LS CPU", series.ls, cores, f"to {cores:.1f} cores")
    yield _line("BE CPU", series.be, cores, f"to {cores:.1f} cores")
    if any(not math.isnan(value) for value in series.limit):
        yield _line("BE limit", series.limit, cores, f"to {cores:.1f} cores")
    worst = max((value for value in series.p99 if not math.isnan(value)), default=0.0)
    if worst:
        top = max(worst, slo or 0.0)
        objective = f", SLO {slo * 1000:.0f}" if slo else ""
        yield _line("LS p99", series.p99, top, f"to {top * 1000:.0f} ms{objective}")
    if any(not math.isnan(value) for value in series.level):
        marks = Text()
        for rank in series.level:
            level = LEVELS[int(rank)].value if not math.isnan(rank) else ""
            marks.append(level[:1] or " ", style=LEVEL_STYLE.get(level, ""))
        yield Text.assemble(f"{'level':<9}", marks, ("  L M H C E", "dim"))


def _line(name: str, values: tuple[float, ...], top: float, scale: str) -> Text:
    return Text.assemble(f"{name:<9}", sparkline(values, top), (f"  {scale}", "dim"), no_wrap=True)


def _happened(told: Report) -> Iterator[RenderableType]:
    if not told.happenings:
        return
    yield Text("what happened", style="bold")
    for time, what, key in told.happenings[:_EVENTS]:
        yield Text(f"{_clock(time):>9} {what} {key}")
    if len(told.happenings) > _EVENTS:
        yield Text(f"          and {len(told.happenings) - _EVENTS} more; --output json tells more of them", style="dim")
    yield Text("")


def _expected(told: Report) -> Iterator[RenderableType]:
    if not told.findings:
        return
    yield Text("expected", style="bold")
    for finding in told.findings:
        yield _verdict(finding)


def _verdict(finding: Finding) -> Text:
    word, style = {True: ("met", "green"), False: ("NOT MET", "bold red"), None: ("measured", "yellow")}[finding.met]
    why = f"; {finding.why}" if finding.why else ""
    return Text.assemble((f"{word:<9}", style), found(finding), (why, "dim"))


def found(finding: Finding) -> str:
    """Return what was expected and what came of it."""
    value = "never" if finding.value is None else f"{finding.value:.4g} {finding.unit}".strip()
    demanded = "" if finding.met is not None else " claimed"
    return f"{finding.what}: {value} ({finding.bounds}{demanded})"


def _clock(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value * 1000:.0f}"
