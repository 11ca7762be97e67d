"""One machine of the Alibaba cluster trace of 2018. In: its files, without headers. Out: a `Trace`; containers are LS, batch instances BE.

The trace does not say of what a container's CPU percent is; here it is of its request. Memory is told relative to the largest machine.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import os
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from msgspec import Struct

from qosmanager.documents.problem import DocumentError, Problem, printable
from qosmanager.model.qos import QoS
from qosmanager.traces.trace import Points, Span, Trace, Usage, shared

COLUMNS = {"machine_usage": 9, "container_meta": 8, "container_usage": 11, "batch_instance": 14}
_INVALID = (-1.0, 101.0)  # what the trace writes for a value that is none
_SHORT, _NO_NUMBER, _MARKED, _NO_TIME = "too few columns", "no number", "marked invalid (-1 or 101)", "no start or end"


class Wanted(Struct, frozen=True, kw_only=True):
    """Which machine, and what the trace does not tell: its CPUs and memory, and in how many BE pods the batch work lies."""

    machine: str
    span: Span = Span()
    cpus: int = 96
    memory: int = 512 << 30
    batch_pods: int = 4


class _Container(Struct):
    """A container's declarations (cores, share of the machine's memory), then its readings."""

    request: float
    limit: float
    memory: float
    points: Points = []
    held: list[float] = []


class _Rows:
    """Reads the files of one trace, row by row, and counts what cannot be used."""

    def __init__(self, folder: Path, machine: str) -> None:
        self.left_out: Counter[str] = Counter()
        self._folder = folder
        self._machine = machine
        self.others: dict[str, None] = {}  # a few other machines, for whoever has mistyped one

    def of(self, table: str, column: int) -> Iterator[list[str]]:
        """Rows of a table whose `column` is the machine; none when the file is not there. Raises DocumentError when it is no text."""
        path = self._path(table)
        if path is None:
            return
        with _opened(path) as file:
            try:
                for row in csv.reader(file):
                    if len(row) < COLUMNS[table]:
                        self.left_out[f"{table}: {_SHORT}"] += 1
                    elif row[column] == self._machine:
                        yield row
                    elif len(self.others) < 5:
                        self.others[row[column]] = None
            except (UnicodeDecodeError, csv.Error, EOFError, OSError, zlib.error) as error:
                raise DocumentError([Problem(source=str(path), line=None, message=f"cannot be read: {error}")]) from None

    def numbers(self, table: str, row: list[str], *columns: int) -> list[float] | None:
        """Return some columns as numbers; None, counted, when one is no valid number."""
        found = []
        for column in columns:
            try:
                value = float(row[column])
            except ValueError:
                self.left_out[f"{table}: {_NO_NUMBER}"] += 1
                return None
            if not math.isfinite(value) or value in _INVALID or value < 0:
                self.left_out[f"{table}: {_MARKED}"] += 1
                return None
            found.append(value)
        return found

    def _path(self, table: str) -> Path | None:
        paths = (self._folder / f"{table}{suffix}" for suffix in (".csv", ".csv.gz"))
        return next((path for path in paths if os.path.isfile(path)), None)  # also where there can be no file of such a name

    def missing(self) -> list[str]:
        """Return the tables that are not there."""
        return [table for table in COLUMNS if self._path(table) is None]


def read(folder: Path, wanted: Wanted) -> Trace:
    """Read one machine. Raises DocumentError: no such folder, no table, or nothing of this machine in the span."""
    rows = _Rows(folder, wanted.machine)
    missing = rows.missing()
    if "container_usage" in missing and "batch_instance" in missing:
        allowed = ", ".join(f"{table}.csv" for table in COLUMNS)
        message = f"holds no container_usage.csv and no batch_instance.csv (or .csv.gz); a trace has {allowed}"
        raise DocumentError([Problem(source=str(folder), line=None, message=message)])
    containers = _containers(rows, wanted)
    batch = wanted.span.cut(_batch(rows))
    used = wanted.span.cut(_machine(rows, wanted.cpus))
    workloads = [usage for name in sorted(containers) if (usage := _usage(name, containers[name], wanted))]
    if batch:
        workloads.append(Usage(name="batch", qos=QoS.BE, count=wanted.batch_pods, points=shared(batch, wanted.batch_pods)))
    if not workloads:
        near = f"machines in it are {', '.join(printable(name) for name in rows.others)} ..." if rows.others else ""
        message = f"holds nothing of machine {printable(wanted.machine)} in the wanted span"
        raise DocumentError([Problem(source=str(folder), line=None, message=message, hint=near)])
    last = max(points[-1][0] for points in (*(usage.points for usage in workloads), used) if points)
    duration = wanted.span.length or max(60.0, last)
    without = f", without {', '.join(missing)}" if missing else ""
    return Trace(
        about=f"Machine {printable(wanted.machine)} of the Alibaba cluster trace of 2018{without}.",
        cpus=wanted.cpus,
        memory=wanted.memory,
        duration=duration,
        workloads=tuple(workloads),
        system_cpu=_rest(used, workloads, duration),
        left_out=dict(sorted(rows.left_out.items())),
    )


def _containers(rows: _Rows, wanted: Wanted) -> dict[str, _Container]:
    found: dict[str, _Container] = {}
    for row in rows.of("container_meta", 1):
        numbers = rows.numbers("container_meta", row, 5, 6, 7)
        if numbers is not None:
            found[row[0]] = _Container(numbers[0] / 100, numbers[1] / 100, numbers[2] / 100, [], [])
    for row in rows.of("container_usage", 1):
        numbers = rows.numbers("container_usage", row, 2, 3)
        container = found.get(row[0])
        if container is None:
            rows.left_out["container_usage: its container is not in container_meta"] += 1
        elif numbers is not None:
            time, percent = numbers
            container.points.append((time, percent / 100 * container.request))
            held = rows.numbers("container_usage", row, 4)
            if held is not None and time >= wanted.span.begin:
                container.held.append(held[0] / 100 * container.memory)
    return found


def _usage(name: str, container: _Container, wanted: Wanted) -> Usage | None:
    points = wanted.span.cut(_rising(container.points))
    if not points:
        return None
    limit = container.limit or None
    held = sum(container.held) / len(container.held) if container.held else None
    return Usage(
        name=name.lower().replace("_", "-"),
        qos=QoS.LS,
        points=points,
        request=min(container.request, limit) if limit else container.request,
        limit=limit,
        memory=None if held is None else round(held * wanted.memory),
        memory_request=round(container.memory * wanted.memory),
    )


def _batch(rows: _Rows) -> Points:
    """Return the batch instances' CPU together: each takes its mean from its start to its end."""
    changes: defaultdict[float, float] = defaultdict(float)
    for row in rows.of("batch_instance", 7):
        numbers = rows.numbers("batch_instance", row, 5, 6, 10)
        if numbers is None:
            continue
        begin, end, cores = numbers[0], numbers[1], numbers[2] / 100
        if end < begin or end == 0:
            rows.left_out[f"batch_instance: {_NO_TIME}"] += 1
            continue
        changes[begin] += cores
        changes[max(end, begin + 1)] -= cores
    cores, points = 0.0, []
    for time in sorted(changes):
        cores = max(0.0, cores + changes[time])
        points.append((time, round(cores, 6)))
    return points


def _machine(rows: _Rows, cpus: int) -> Points:
    found = []
    for row in rows.of("machine_usage", 0):
        numbers = rows.numbers("machine_usage", row, 1, 2)
        if numbers is not None:
            found.append((numbers[0], numbers[1] / 100 * cpus))
    return _rising(found)


def _rising(points: Points) -> Points:
    """Sort by time; of two at one moment the larger counts."""
    return sorted(dict(sorted(points)).items())


def _rest(used: Points, workloads: list[Usage], duration: float) -> float:
    """Return what the machine used beside its workloads, in cores, on average; 0 where it is not told."""
    if not used:
        return 0.0
    known = sum(_mean(usage.points, duration) * usage.count for usage in workloads)
    return round(max(0.0, _mean(used, duration) - known), 3)


def _mean(points: Points, duration: float) -> float:
    ends = [time for time, _ in points[1:]] + [max(duration, points[-1][0])]
    return sum(cores * (end - time) for (time, cores), end in zip(points, ends, strict=True)) / max(duration, 1e-9)


@contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    try:
        raw = gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise DocumentError([Problem(source=str(path), line=None, message=f"cannot be read: {error.strerror}")]) from None
    with raw, io.TextIOWrapper(raw, encoding="utf-8", newline="") as text:
        yield text
