"""`qosmanager whatif`: the demand of a recording under another configuration (docs/record.md)."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from qosmanager.cli.amounts import LENGTH, SPAN
from qosmanager.cli.console import console
from qosmanager.cli.errors import CannotRunError
from qosmanager.cli.recording import opened, tell_damages
from qosmanager.cli.report_page import check_report, follow, write_page
from qosmanager.cli.screen import span
from qosmanager.config.parse import read_settings
from qosmanager.config.settings import Settings
from qosmanager.model.count import counted
from qosmanager.views.figures import iso, rounded

if TYPE_CHECKING:
    from qosmanager.record.reader import Recording
    from qosmanager.report.page import Page
    from qosmanager.report.track import Track
    from qosmanager.simulate.tally import Totals
    from qosmanager.whatif.compare import Outcome

_NUMBERS = 400_000  # of demand that are kept: a long recording of many pods is looked at in longer steps
_SHORTEST = 5.0  # seconds of a step: the model draws a queue's fluctuations itself, they must not be counted twice
_REDRAWN = 200  # cycles
_RECORDED = "as recorded"  # no file is named so: a configuration ends in .yaml

T = TypeVar("T")
Figure = Callable[["Totals"], float | None]


class Read(Struct, frozen=True, kw_only=True):
    """What is in a recording: demand, measured sums, how many stretches without a cycle, how many cycles this version decides otherwise."""

    observed: Any
    measured: Any
    gaps: int
    differing: int


class Told(Struct, frozen=True, kw_only=True):
    """What is shown: the recording, what was read in it, its totals, what came of each configuration."""

    path: Path
    read: Read
    measured: Any
    outcomes: tuple[Any, ...]


@click.command(
    short_help="Run a recording's demand under another configuration.",
    epilog="""\b
Examples:
  qosmanager whatif /var/lib/qosmanager/record --config other.yaml
  qosmanager whatif record --config other.yaml --report page.html
  qosmanager whatif record --config other.yaml --from 9h --length 2h
  qosmanager whatif record --config other.yaml --output json | jq .runs""",
)
@click.argument("recording", type=click.Path(path_type=Path))
@click.option("--config", type=click.Path(path_type=Path), required=True, help="The other configuration (qosManager: ...).")
@click.option("--from", "begin", default="0s", show_default=True, callback=SPAN, help="Where to begin, from the recording's beginning.")
@click.option("--length", callback=LENGTH, help="How much of it. [default: to its end]")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="For people, or as data.")
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE", help="Write an HTML page that opens offline.")
@click.option("--jobs", type=click.IntRange(1), help="How many simulations run at one time. [default: as many as CPUs may be used]")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="What the simulator draws chance from.")
def whatif(recording: Path, config: Path, report: Path | None, **options: Any) -> None:
    """Run the demand of RECORDING through the simulator, under the configuration it was recorded with and under another one.

    What the pods wanted is taken from what they used and waited for (or were throttled by, where waiting is not measured). Where they were
    held back, that is known only within bounds: each configuration is run with the least and with the most they may have wanted, and each
    figure is a range. The recorded configuration is simulated too: how far it is from what was measured is the model's own error.
    docs/record.md tells what the model leaves out.

    Each configuration is run three times, and a simulated second costs about what a real one costs the agent: six runs of a day of 100 pods
    take three quarters of an hour of one CPU, shared by all that may be used (--jobs). --from and --length choose a part; a bar shows how
    much is left.

    Exit code: 0 done; 1 a simulation failed; 2 wrong usage, or no recording; 130 interrupted.
    """
    other = read_settings(config)
    check_report(report)
    drawing = None if report is None else Drawing()
    asked = Asked({config.name: other}, options["seed"], options["begin"], options["length"], options["jobs"])
    told = _run(recording, asked, drawing)
    if drawing is not None and report is not None:
        write_page(drawing.page(told), report)
    if options["output"] == "json":
        click.echo(json.dumps(_document(told), indent=2, ensure_ascii=False))
    else:
        _show(told)


class Asked(Struct, frozen=True):
    """The other configurations by name, what part of the recording is wanted (seconds from its beginning, and how many; None: all), and how
    many runs at one time (None: one for each CPU)."""

    others: dict[str, Settings]
    seed: int
    begin: float = 0.0
    length: float | None = None
    jobs: int | None = None


class Drawing:
    """The tracks of a page: what was measured, then each configuration with the most that batch may have wanted."""

    def __init__(self) -> None:
        from qosmanager.report.track import Track  # noqa: PLC0415 - an extra

        self.measured = Track("measured")
        self.simulated: list[Track] = []

    def page(self, told: Told) -> Page:
        """Return the page."""
        from qosmanager.report.page import Page  # noqa: PLC0415 - an extra

        observed = told.read.observed
        return Page(
            title=f"What if: {told.path}",
            about=_head(told),
            facts="",
            cpus=observed.cpus,
            memory=observed.memory or None,
            tracks=(self.measured, *self.simulated),
            rows=tuple(_rows(told)),
            slos={each.pod.key: each.pod.latency.slo for each in observed.pods if each.pod.latency.slo is not None},
            notes=(*_notes(told), "the simulated runs are drawn with the most that batch, and the least that services may have wanted"),
        )


def _run(path: Path, asked: Asked, drawing: Drawing | None) -> Told:
    tape = opened(path)
    from qosmanager.cli.whatif_runs import Work, do_all  # noqa: PLC0415 - the other commands need neither recordings nor a simulator
    from qosmanager.record.replay import CannotDecideError  # noqa: PLC0415
    from qosmanager.whatif.compare import outcomes, runs  # noqa: PLC0415
    from qosmanager.whatif.rebuild import Bound  # noqa: PLC0415

    errors = Console(stderr=True)
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as progress:
        try:
            part = _part(tape, asked)
            tape = tape if part == _ALL else tape.since(part.begin)
            read = _read(tape, part, progress, drawing)
        except CannotDecideError as error:
            raise CannotRunError(f"{path}: {error}") from None
        observed = read.observed
        wanted = runs({_RECORDED: observed.settings} | asked.others)
        task = progress.add_task("simulating", total=len(wanted) * observed.seconds)
        works = [
            Work(
                observed=observed,
                run=run,
                seed=asked.seed,
                track=f"{run.name}, simulated" if drawing and run.bound is Bound.BATCH else None,
            )
            for run in wanted
        ]
        done = do_all(works, asked.jobs or len(os.sched_getaffinity(0)), lambda seconds: progress.advance(task, seconds))
    if drawing is not None:
        drawing.simulated = [each.track for each in done if each.track is not None]
    tell_damages(tape)
    totals = zip(wanted, [each.totals for each in done], strict=True)
    return Told(path=path, read=read, measured=read.measured.totals(observed), outcomes=outcomes(totals))


class _Part(Struct, frozen=True):
    """A time, epoch seconds."""

    begin: float
    end: float

    def of(self, cycles: Iterable[T], wall: Callable[[T], float]) -> Iterator[T]:
        """Yield the cycles that lie in it; those after it are not read."""
        for cycle in cycles:
            if wall(cycle) >= self.end:
                return
            if wall(cycle) >= self.begin:
                yield cycle


_ALL = _Part(-math.inf, math.inf)


def _part(tape: Recording, asked: Asked) -> _Part:
    """Return what is wanted of a recording, counted from its first cycle."""
    first = next(tape.outlines(), None)
    if first is None or (not asked.begin and asked.length is None):
        return _ALL
    begin = first.wall + asked.begin
    return _Part(begin, math.inf if asked.length is None else begin + asked.length)


def _read(tape: Recording, part: _Part, progress: Progress, drawing: Drawing | None) -> Read:
    """Read the recording twice: who is in it, then what they wanted."""
    from qosmanager.record.elapsed import Elapsed  # noqa: PLC0415
    from qosmanager.record.replay import replay  # noqa: PLC0415 - as above
    from qosmanager.whatif.compare import Measured  # noqa: PLC0415
    from qosmanager.whatif.demand import Observer  # noqa: PLC0415
    from qosmanager.whatif.held import held_at  # noqa: PLC0415

    task = progress.add_task("reading", total=2 * tape.size)
    kubernetes, settings, pod_seconds = False, None, 0.0
    total = Elapsed()
    cycles = 0
    for outline in part.of(tape.outlines(), lambda outline: outline.wall):
        pod_seconds += total.add(outline) * outline.pods
        kubernetes |= outline.places.kubelet_owned
        settings = outline.settings
        cycles += 1
        if cycles % _REDRAWN == 0:
            progress.update(task, completed=tape.read)
    if settings is None or cycles < 2:
        where = "it" if part == _ALL else "this part of it"
        raise CannotRunError(f"{tape.path}: there are no two whole cycles in {where}")
    observer = Observer(max(total.seconds / (cycles - 1), _SHORTEST, math.ceil(pod_seconds / _NUMBERS)))
    measured, elapsed = Measured(settings), Elapsed()
    differing = 0
    for number, each in enumerate(part.of(replay(tape.cycles()), lambda each: each.record.wall)):
        seconds = elapsed.add(each.recorded)
        differing += each.difference is not None
        record = replace(each.record, plan=each.recorded.plan)  # the receipts are about what was decided then
        observer.add(elapsed.seconds, record, each.settings, held_at(each.before))
        if seconds:  # all but the first
            cycle = measured.add(elapsed.seconds, seconds, record)
            if drawing is not None:
                follow(drawing.measured, cycle, record.snapshot.node.memory_total or 0)
        if number % _REDRAWN == 0:
            progress.update(task, completed=tape.size + tape.read)
    progress.update(task, completed=2 * tape.size)
    return Read(observed=observer.observed(kubernetes=kubernetes), measured=measured, gaps=elapsed.gaps, differing=differing)


_FIGURES: tuple[tuple[str, str, Figure, str], ...] = (
    ("p99_median_ms", "LS p99 ms, median second", lambda each: None if each.median_p99 is None else each.median_p99 * 1000, ".0f"),
    ("p99_worst_ms", "LS p99 ms, worst second", lambda each: None if each.worst_p99 is None else each.worst_p99 * 1000, ".0f"),
    ("over_slo_seconds", "seconds above an SLO", lambda each: each.over_slo, ".0f"),
    ("within_slo_percent", "pods inside their SLO, percent of the time", lambda each: each.within_slo, ".2f"),
    ("be_core_hours", "BE core-hours", lambda each: each.be_core_hours, ".3g"),
    ("node_use_cores", "node use, cores", lambda each: each.node_use, ".2f"),
    ("evictions", "evictions", lambda each: each.evictions, ".0f"),
    ("oom_kills", "kills by the kernel", lambda each: each.oom_kills, ".0f"),
    ("reversals", "reversals of the BE limit", lambda each: each.reversals, ".0f"),
)


def _show(told: Told) -> None:
    here = console()
    here.print(_head(told), style="bold", highlight=False, markup=False)
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for title in ("measured", *(f"{outcome.name}, simulated" for outcome in told.outcomes)):
        table.add_column(Text(title), justify="right")  # a file may be named like markup
    for row in _rows(told):
        table.add_row(*row)
    here.print(table)
    for line in _notes(told):
        here.print(line, style="dim", highlight=False)


def _head(told: Told) -> str:
    observed = told.read.observed
    return (
        f"{told.path}: {span(observed.seconds)} from {iso(observed.begun)}, {counted(observed.cpus, 'CPU')}, "
        f"{counted(len(observed.pods), 'pod')}, demand in steps of {observed.step:.3g} s"
    )


def _rows(told: Told) -> Iterator[tuple[str, ...]]:
    for key, name, figure, form in _FIGURES:
        # The kernel's own kills are in no recording.
        measured = "-" if key == "oom_kills" else _cell(figure(told.measured), form)
        yield (name, measured, *(_range(outcome, figure, form) for outcome in told.outcomes))


def _notes(told: Told) -> Iterator[str]:
    yield "a to b: over what services and batch may have wanted while they were held back, from the least to the most"
    yield "measured beside `as recorded, simulated`: the model's own error; compare simulated with simulated"
    if told.read.observed.settings_changed:
        yield f"the configuration changed {counted(told.read.observed.settings_changed, 'time')}; `as recorded` is the last one, throughout"
    if told.read.differing:
        yield f"this version decides {told.read.differing} of the cycles otherwise than the one that recorded them (qosmanager replay)"
    if told.measured.be_unmeasured:
        yield f"BE was not measured whole in {span(told.measured.be_unmeasured)}: that time counts like the mean of the rest"
    gaps = told.read.gaps
    if gaps:
        yield f"{gaps} stretch{'es' if gaps > 1 else ''} without a cycle left out: each counts as one period"
    if not told.read.observed.has_slo:
        yield "no service of the recording has both an SLO and a measured p99: what it means for latency is not told"


def _cell(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _range(outcome: Outcome, figure: Figure, form: str) -> str:
    ends = [value for totals in outcome.totals.values() if (value := figure(totals)) is not None]
    if not ends:
        return "-"
    low, high = format(min(ends), form), format(max(ends), form)
    return low if low == high else f"{low} to {high}"


def _document(told: Told) -> dict[str, Any]:
    observed = told.read.observed
    return {
        "recording": str(told.path),
        "begun": iso(observed.begun),
        "seconds": round(observed.seconds, 1),
        "cpus": observed.cpus,
        "pods": len(observed.pods),
        "step_seconds": round(observed.step, 3),
        "configuration_changes": observed.settings_changed,
        "gaps": told.read.gaps,
        "decided_otherwise": told.read.differing,
        "measured": _values(told.measured) | {"oom_kills": None},
        "runs": {outcome.name: {bound.value: _values(totals) for bound, totals in outcome.totals.items()} for outcome in told.outcomes},
    }


def _values(totals: Totals) -> dict[str, Any]:
    return {key: None if value is None else rounded(value) for key, _, figure, _ in _FIGURES for value in [figure(totals)]}
