"""`qosmanager replay`: a recording decided again, and one cycle of it explained (docs/record.md)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import Progress

from qosmanager.cli.errors import CannotRunError
from qosmanager.cli.recording import opened, tell_damages
from qosmanager.cli.screen import span
from qosmanager.documents.quantities import time
from qosmanager.model.count import counted
from qosmanager.views.decisions import Decisions, runs
from qosmanager.views.explain_text import decision_text
from qosmanager.views.figures import iso
from qosmanager.views.plan_text import Step, plan_text

if TYPE_CHECKING:
    from qosmanager.record.reader import Recording
    from qosmanager.record.replay import Replayed

_LATER = 60.0  # seconds in which the outcome of an action is looked for
_TIMES = "a time such as 2026-11-29T20:15:03Z, 20:15:03 (UTC, on the recording's first day) or a number of seconds since 1970"


@click.command(
    short_help="Decide what was recorded again.",
    epilog="""\b
Examples:
  qosmanager replay /var/lib/qosmanager/record           all of it: are the plans the same?
  qosmanager replay 00000007-20261129T200000Z.qosrec     one file
  qosmanager replay record --at 2026-11-29T20:15:03Z     that cycle, explained""",
)
@click.argument("recording", type=click.Path(path_type=Path))
@click.option("--at", metavar="TIME", help="Explain the cycle that was in force at this time, instead of comparing.")
def replay(recording: Path, at: str | None) -> None:
    """Decide RECORDING again, a file or a directory that `qosmanager run --record` wrote, and compare the plans byte for byte.

    Nothing on this machine is measured or changed. A file that ends too early or is damaged is read as far as it is whole, and said so.

    Exit code: 0 every plan is the same; 1 one is not, the first difference is shown, or there is no cycle at --at; 2 wrong usage, no
    recording, or one of another format.
    """
    from qosmanager.record.replay import CannotDecideError  # noqa: PLC0415 - the other commands need no recordings

    tape = opened(recording)
    try:
        code = _compare(tape) if at is None else _explain(tape, at)
    except CannotDecideError as error:
        raise CannotRunError(f"{recording}: {error}") from None
    raise SystemExit(code)


def _compare(tape: Recording) -> int:
    from qosmanager.record.replay import replay as again  # noqa: PLC0415

    first = last = None
    count = 0
    for each in _shown(again(tape.cycles()), tape):
        first, last, count = first or each, each, count + 1
        if each.difference is not None:
            _tell_difference(each, count)
            return 1
    tell_damages(tape)
    if first is None or last is None:
        raise CannotRunError(f"{tape.path}: there is no whole cycle in it")
    long = span(last.record.wall - first.record.wall)
    files = counted(len(tape.parts), "file")
    cycles = counted(count, "cycle")
    click.echo(f"{cycles} in {files}, {iso(first.record.wall)} to {iso(last.record.wall)} ({long}): every plan is the same")
    return 0


def _shown(cycles: Iterable[Replayed], tape: Recording) -> Iterator[Replayed]:
    """Show on a terminal how far it is."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("deciding again", total=tape.size)
        for number, each in enumerate(cycles):
            if number % 100 == 0:
                progress.update(task, completed=tape.read)
            yield each


def _tell_difference(each: Replayed, count: int) -> None:
    from qosmanager.engine.step import RULES  # noqa: PLC0415 - as above

    difference = each.difference
    assert difference is not None
    click.echo(f"cycle {each.record.number} at {iso(each.record.wall)}: {difference.field} is not the same")
    click.echo(f"  recorded  {difference.recorded}")
    click.echo(f"  now       {difference.now}")
    click.echo(f"{counted(count - 1, 'cycle')} before it came out the same; `--at {iso(each.record.wall)}` explains this one")
    if each.recorded.rules != RULES:
        click.echo(
            f"it was recorded under rules {each.recorded.rules} (qosmanager {each.recorded.version}) and is decided by rules {RULES} now: "
            "a difference is no fault (docs/record.md)"
        )


def _explain(tape: Recording, at: str) -> int:
    """Print the last cycle that began at or before a time, with what came of its actions in the minute after it."""
    from qosmanager.record.replay import replay as again  # noqa: PLC0415

    moment = _moment(at, tape.begun)
    part = tape.since(moment)
    decisions = Decisions()
    found: Replayed | None = None
    for each in _shown(again(part.cycles()), part):
        wall = each.record.wall
        # Times are shown in milliseconds; a cycle is to be found by its own.
        if round(wall, 3) <= round(moment, 3):
            found, decisions = each, Decisions()
        elif found is None or wall > moment + _LATER:
            break
        decisions.observe(each.record)
    tell_damages(part)
    if found is None:
        click.echo(f"no cycle was recorded at or before {iso(moment)}; the recording begins at {iso(tape.begun)}", err=True)
        return 1
    _print(found, decisions)
    late = moment - found.record.wall
    if late > found.settings.stale_after:
        click.echo(f"\nThis is the last cycle before {iso(moment)}, {span(late)} before it; none is recorded between them.")
    return 0


def _print(found: Replayed, decisions: Decisions) -> None:
    record = found.record
    click.echo(f"cycle {record.number} at {iso(record.wall)}, recorded by qosmanager {found.recorded.version}\n")
    step = Step(
        before=found.before,
        after=record.state,
        snapshot=record.snapshot,
        assessment=record.assessment,
        plan=record.plan,
        settings=found.settings,
    )
    click.echo(plan_text(step), nl=False)
    entries = [entry for entry in decisions.last_with_terms(500) if entry.cycle == record.number and entry.type == "action"]
    if entries:
        click.echo("\nWhat was done, and what came of it")
        for run in runs(entries):
            for entry in run:
                click.echo(decision_text([entry]))


def _moment(text: str, first: float) -> float:
    """Return epoch seconds. Raises CannotRunError."""
    day = datetime.fromtimestamp(first, UTC).date().isoformat()
    for candidate in (text, f"{text}Z", f"{day}T{text}", f"{day}T{text}Z"):
        with contextlib.suppress(ValueError, OverflowError, OSError):
            moment = time(candidate)
            iso(moment)  # refuses what no calendar has
            return moment
    raise CannotRunError(f"--at {text}: {_TIMES} is needed")
