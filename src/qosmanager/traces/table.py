"""A table of usage, one row a workload and moment. In: CSV text with a header. Out: a `Trace`.

Columns: `seconds` (any beginning), `workload`, `cores`; and if wanted `qos` (LS without it), `request` and `limit` in cores, `memory` in
bytes, of which a workload's first row counts. The table is gone through twice, row by row: when it begins is known only at its end.
"""

from __future__ import annotations

import csv
import math
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from msgspec import Struct

from qosmanager.documents.files import open_data
from qosmanager.documents.names import ALLOWED as ALLOWED_NAME
from qosmanager.documents.names import is_name
from qosmanager.documents.problem import DocumentError, Problem, printable
from qosmanager.documents.quantities import plain
from qosmanager.model.qos import QoS
from qosmanager.traces.trace import Part, Span, Trace, Usage

NEEDED = ("seconds", "workload", "cores")
ALLOWED = (*NEEDED, "qos", "request", "limit", "memory")
_MOST = 20  # problems told


class _Told(Struct):
    qos: QoS
    request: float | None
    limit: float | None
    memory: float | None
    first: float  # seconds of its rows
    last: float


def read(path: Path, cpus: int, memory: int, span: Span) -> Trace:
    """Read a table. Raises DocumentError with the lines that are wrong."""
    told: dict[str, _Told] = {}
    try:
        with _rewindable(path) as file:
            _check(path, file, told)
            # Seconds count from the first row, wherever its own clock began.
            first = min((each.first for each in told.values()), default=0.0)
            span = Span(first + span.begin, span.length)
            file.seek(0)
            cut = _cut(file, span)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise DocumentError([Problem(source=str(path), line=None, message=f"cannot be read: {reason}")]) from None
    workloads = tuple(
        Usage(
            name=name,
            qos=each.qos,
            points=cut[name].points,
            request=each.request,
            limit=each.limit,
            memory=None if each.memory is None else round(each.memory),
        )
        for name, each in sorted(told.items())
        if name in cut and cut[name].points
    )
    if not workloads:
        raise DocumentError([Problem(source=str(path), line=None, message="holds no row in the wanted span")])
    last = max(each.last for each in told.values()) - span.begin
    return Trace(
        about=f"Imported from {printable(path.name)}.",
        cpus=cpus,
        memory=memory,
        duration=span.length or max(60.0, last),
        workloads=workloads,
    )


@contextmanager
def _rewindable(path: Path) -> Iterator[TextIO]:
    """Open a file to be gone through twice; what comes through a pipe is put into one first."""
    with open(open_data(path), encoding="utf-8-sig", newline="") as file:
        if file.seekable():
            yield file
            return
        with tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as copy:
            shutil.copyfileobj(file, copy)
            copy.seek(0)
            yield copy


def _check(path: Path, file: TextIO, told: dict[str, _Told]) -> None:
    """Go through all rows, and take in what is told of each workload. Raises DocumentError."""
    problems: list[Problem] = []
    rows = csv.DictReader(file)
    _check_header(path, rows.fieldnames)
    try:
        for row in rows:
            problems += _take(row, told, str(path), rows.line_num)
            if len(problems) >= _MOST:
                break
    except (UnicodeDecodeError, csv.Error) as error:
        problems.append(Problem(source=str(path), line=None, message=f"cannot be read: {error}"))
    if problems:
        raise DocumentError(problems)


def _cut(file: TextIO, span: Span) -> dict[str, Part]:
    """Return what is wanted of each workload, by its name, of rows that were checked."""
    parts: dict[str, Part] = defaultdict(lambda: Part(span))
    for row in csv.DictReader(file):
        try:
            parts[row["workload"].strip()].add(plain(row["seconds"].strip()), plain(row["cores"].strip()))
        except (ValueError, AttributeError):
            raise csv.Error("it was changed meanwhile") from None
    return parts


def _check_header(path: Path, names: object) -> None:
    found = list(names) if isinstance(names, list) else []
    if len(found) == 1 and ";" in found[0]:
        raise DocumentError([Problem(source=str(path), line=1, message="columns are separated by commas, decimals by a dot")])
    missing = [name for name in NEEDED if name not in found]
    unknown = [printable(str(name)) for name in found if name not in ALLOWED]
    if missing or unknown:
        wrong = [f"column {', '.join(missing)} is missing"] if missing else []
        wrong += [f"unknown column {', '.join(unknown)}"] if unknown else []
        message = f"{' and '.join(wrong)}; allowed are {', '.join(ALLOWED)}"
        raise DocumentError([Problem(source=str(path), line=1, message=message)])


def _take(row: dict[str | None, Any], told: dict[str, _Told], source: str, line: int) -> Iterator[Problem]:
    """Take one row in; yield what is wrong with it."""
    name = (row["workload"] or "").strip()
    if not is_name(name):
        yield Problem(source=source, line=line, path="workload", value=f'"{printable(name)}"', message=ALLOWED_NAME)
        return
    if None in row:
        yield Problem(source=source, line=line, message="more columns than the first line names; decimals are written with a dot")
        return
    numbers: dict[str, float | None] = {}
    for column in ("seconds", "cores", "request", "limit", "memory"):
        text = (row.get(column) or "").strip()
        try:
            numbers[column] = _number(text) if text or column in NEEDED else None
        except ValueError:
            yield Problem(source=source, line=line, path=column, value=printable(text or "nothing"), message="a number, 0 or more")
            return
    seconds = numbers["seconds"]
    assert seconds is not None
    if name not in told:
        text = (row.get("qos") or "LS").strip().upper()
        if text not in QoS.__members__:
            allowed = ", ".join(QoS.__members__)
            yield Problem(source=source, line=line, path="qos", value=printable(text), message=f"one of {allowed}")
            return
        request, limit = numbers["request"], numbers["limit"]
        if request and limit and request > limit:
            yield Problem(source=source, line=line, path="request", value=f"{request:g}", message=f"at most limit, {limit:g}")
            return
        told[name] = _Told(QoS[text], numbers["request"], numbers["limit"], numbers["memory"], seconds, seconds)
    elif seconds <= told[name].last:
        message = f"after the row before it of {printable(name)}, {told[name].last:g}"
        yield Problem(source=source, line=line, path="seconds", value=f"{seconds:g}", message=message)
        return
    told[name].last = seconds


def _number(text: str) -> float:
    value = plain(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError
    return value
