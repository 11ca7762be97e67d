"""`qosmanager record`: what a recording holds, and its tables for other programs (docs/record.md)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from qosmanager.cli.errors import CannotRunError
from qosmanager.cli.extras import lacks
from qosmanager.cli.options import output_option
from qosmanager.cli.recording import opened, tell_damages
from qosmanager.cli.screen import span
from qosmanager.documents.quantities import shown_bytes
from qosmanager.model.count import counted
from qosmanager.views.figures import iso

if TYPE_CHECKING:
    from qosmanager.record.reader import Recording
    from qosmanager.record.summary import Summary
    from qosmanager.record.table import Table

_MANY = 600  # cycles; what only the first of a file holds would tell in fewer
_SHOWN = 20  # gaps and evictions that are listed; --output json has all
_CSV, _PARQUET = ".csv", ".parquet"


@click.group(
    epilog="""\b
Examples:
  qosmanager record info /var/lib/qosmanager/record
  qosmanager record export /var/lib/qosmanager/record cycles.csv"""
)
def record() -> None:
    """Look into recordings that `qosmanager run --record` wrote."""


@record.command(
    epilog="""\b
Examples:
  qosmanager record info /var/lib/qosmanager/record
  qosmanager record info 00000007-20261129T200000Z.qosrec --output json | jq .evictions"""
)
@click.argument("recording", type=click.Path(path_type=Path))
@output_option
def info(recording: Path, output: str) -> None:
    """Say what RECORDING holds: its span, cycles, pods, sizes, versions, gaps, evictions.

    Exit code: 0; 2 wrong usage, no recording, or one of another format.
    """
    tape = opened(recording)
    from qosmanager.record.summary import summary  # noqa: PLC0415 - the other commands need no recordings

    found = summary(tape)
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))
        return
    _print(found)
    tell_damages(tape)


@record.command(
    epilog="""\b
Examples:
  qosmanager record export record cycles.csv
  qosmanager record export record pods.parquet --table pods
  qosmanager record export record - --table actions | column -s, -t"""
)
@click.argument("recording", type=click.Path(path_type=Path))
@click.argument("file")
@click.option(
    "--table",
    type=click.Choice(["cycles", "pods", "actions"]),
    default="cycles",
    show_default=True,
    help="A row for each cycle, for each pod in each cycle, or for each action.",
)
def export(recording: Path, file: str, table: str) -> None:
    """Write RECORDING to FILE as a table: CSV for a name in .csv and for `-` (standard output), Parquet for one in .parquet.

    Cores, bytes, seconds and percent; a reading that was not measured is empty. Parquet needs the extra `parquet`.

    Exit code: 0; 1 FILE cannot be written; 2 wrong usage, no recording, or one of another format.
    """
    suffix = Path(file).suffix
    if file != "-" and suffix not in (_CSV, _PARQUET):
        raise CannotRunError(f"{file}: the name says the format; it ends in {_CSV} or {_PARQUET}, or is - for CSV on standard output")
    tape = opened(recording)
    from qosmanager.record.replay import CannotDecideError  # noqa: PLC0415 - as above
    from qosmanager.record.table import TABLES  # noqa: PLC0415

    try:
        rows = _export(tape, TABLES[table], file, suffix)
    except CannotDecideError as error:
        raise CannotRunError(f"{recording}: {error}") from None
    tell_damages(tape)
    click.echo(counted(rows, "row"), err=True)


def _export(tape: Recording, table: Table, file: str, suffix: str) -> int:
    from qosmanager.record.export import write_csv, write_parquet  # noqa: PLC0415 - as above

    if file == "-":
        return write_csv(tape, table, sys.stdout)
    try:
        if suffix == _PARQUET:
            with open(file, "wb") as binary:
                return write_parquet(tape, table, binary)
        with open(file, "w", encoding="utf-8", newline="") as out:
            return write_csv(tape, table, out)
    except ImportError:
        raise CannotRunError(f"{file}: {lacks('Parquet needs', 'parquet')}") from None
    except OSError as error:
        raise CannotRunError(f"{file}: cannot be written: {error.strerror or error}", code=1) from None


def _print(found: Summary) -> None:
    if found.begin is not None and found.end is not None:
        _line("span", f"{iso(found.begin)} to {iso(found.end)} ({span(found.end - found.begin)})")
    _line("cycles", f"{found.cycles}, of {counted(found.settings, 'configuration')}")
    _line("pods", f"{found.pods_least} to {found.pods_most}" if found.pods_least != found.pods_most else str(found.pods_most))
    a_day = f", {shown_bytes(found.bytes_per_day)} a day at this pace" if found.bytes_per_day is not None and found.cycles >= _MANY else ""
    _line("size", f"{shown_bytes(found.bytes)} in {counted(len(found.parts), 'file')}{a_day}")
    _line("version", ", ".join(found.versions) or "-")
    _line("actions", ", ".join(f"{kind} {count}" for kind, count in found.actions.items()) or "none")
    _line("gaps", str(len(found.gaps)))
    for gap in found.gaps[:_SHOWN]:
        click.echo(f"  {iso(gap.after)} to {iso(gap.until)}, cycle {gap.from_cycle} to {gap.to_cycle}")
    _line("evictions", str(len(found.evictions)))
    for each in found.evictions[:_SHOWN]:
        result = each.result or each.mode
        click.echo(f"  {iso(each.wall)} {each.plugin} {each.pod}: {result}, {each.reason}")
    for count in (len(found.gaps), len(found.evictions)):
        if count > _SHOWN:
            click.echo(f"  (the first {_SHOWN} of {count}; --output json has all)")
    _line("files", "")
    for part in found.parts:
        state = "ended" if part.closed else "damaged" if part.damage else "open, or its writer was killed"
        click.echo(f"  {Path(part.path).name}: {counted(part.cycles, 'cycle')}, {shown_bytes(part.size)}, {state}")


def _line(name: str, text: str) -> None:
    click.echo(f"{name:<10} {text}".rstrip())
