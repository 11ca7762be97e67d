"""Scenario files: shipped ones by name, others by path. In: a name or path. Out: a `Scenario` and its series, or DocumentError."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from contextlib import nullcontext
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from qosmanager.documents.files import read_text
from qosmanager.documents.names import Names
from qosmanager.documents.problem import DocumentError, Problem, printable
from qosmanager.documents.quantities import ANY, number
from qosmanager.documents.reader import Checks, Grammar, Reader, nearest
from qosmanager.documents.tree import parse
from qosmanager.model.count import counted
from qosmanager.model.qos import QoS
from qosmanager.simulate.scenario import CpuDemand, Event, Expectation, MemoryDemand, Scenario, WorkloadSpec

_SUFFIX = ".yaml"
_MOST = 20  # problems of one CSV file that are told
Points = tuple[tuple[float, float], ...]


class Loaded(Struct, frozen=True, kw_only=True):
    """A scenario, its name, and the points (seconds, cores) of each CSV file that it names."""

    name: str
    scenario: Scenario
    series: dict[str, Points] = {}


def shipped() -> tuple[str, ...]:
    """Return the names of the scenarios that come with the package, sorted."""
    folder = files("qosmanager.simulate") / "scenarios"
    return tuple(sorted(entry.name.removesuffix(_SUFFIX) for entry in folder.iterdir() if entry.name.endswith(_SUFFIX)))


def load(name: str) -> Loaded:
    """Read a shipped scenario by its name, or a file by its path."""
    if name in shipped():
        text = (files("qosmanager.simulate") / "scenarios" / f"{name}{_SUFFIX}").read_text(encoding="utf-8")
        return Loaded(name=name, scenario=load_scenario(text, f"{name}{_SUFFIX}"))
    path = Path(name)
    if not path.exists() and path.suffix == "" and len(path.parts) == 1:
        near = nearest(name, shipped())
        hint = f"did you mean {near}?" if near else f"known are {', '.join(shipped())}"
        raise DocumentError([Problem(source=printable(name), line=None, message="is no shipped scenario and no file", hint=hint)])
    scenario = load_scenario(read_text(path), name)
    named = {workload.cpu.csv for workload in scenario.workloads if workload.cpu.csv is not None}
    series = {file: load_series(path.parent / file) for file in sorted(named)}
    return Loaded(name=path.stem, scenario=scenario, series=series)


def load_scenario(text: str, source: str) -> Scenario:
    """Read a scenario's text. Raises DocumentError with every problem."""
    names = Names()

    def check(reader: Reader, workload: WorkloadSpec, path: str) -> None:
        names.check(reader, workload, path)
        _check_workload(reader, workload, path)

    checks: Checks = {
        WorkloadSpec: check,
        CpuDemand: _check_demand,
        MemoryDemand: _check_memory,
        Expectation: _check_expectation,
        Scenario: _check_scenario,
    }
    reader = Reader(source, Grammar(checks=checks))
    scenario = reader.struct(parse(text, source), Scenario, "")
    reader.finish()
    assert scenario is not None
    return scenario


def load_series(path: Path) -> Points:
    """Read a CSV file with the columns `seconds` (rising) and `cores`, of any length. Raises DocumentError."""
    try:
        # What is no regular file may have no end.
        with path.open(encoding="utf-8-sig", newline="") if path.is_file() else nullcontext(read_text(path).splitlines()) as lines:
            return _series(lines, str(path))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise DocumentError([Problem(source=str(path), line=None, message=f"cannot be read: {reason}")]) from None


def _series(lines: Iterable[str], source: str) -> Points:
    rows = csv.DictReader(lines)
    if not {"seconds", "cores"} <= set(rows.fieldnames or ()):
        raise DocumentError([Problem(source=source, line=1, message="the first line names the columns: seconds,cores")])
    points: list[tuple[float, float]] = []
    problems: list[Problem] = []
    for row in rows:
        if len(problems) >= _MOST:
            break
        try:
            seconds, cores = (number((row[name] or "").strip(), ANY) for name in ("seconds", "cores"))
        except ValueError:
            problems.append(Problem(source=source, line=rows.line_num, message="both are numbers, such as 60,2.5"))
            continue
        if cores < 0 or seconds < 0 or (points and seconds <= points[-1][0]):
            problems.append(Problem(source=source, line=rows.line_num, message="seconds rise from row to row, and nothing is below 0"))
        points.append((seconds, cores))
    if not points and not problems:
        problems.append(Problem(source=source, line=1, message="holds no row"))
    if problems:
        raise DocumentError(problems)
    return tuple(points)


def _check_workload(reader: Reader, workload: WorkloadSpec, path: str) -> None:
    limit, request = workload.limits.cpu, workload.requests.cpu
    if limit == 0:
        reader.refuse(reader.lines[f"{path}.limits.cpu"], f"{path}.limits.cpu", "cores above 0", value="0")
    elif limit is not None and request is not None and request > limit:
        where = f"{path}.requests.cpu"
        reader.refuse(reader.lines[where], where, f"at most limits.cpu, {limit:g}", value=f"{request:g}")
    if workload.cpus and workload.qos is not QoS.LSE:
        reader.refuse(reader.lines[f"{path}.cpus"], f"{path}.cpus", "only an LSE pod has CPUs for itself")
    if workload.service is not None and workload.qos in (QoS.BE, QoS.SYSTEM):
        where = f"{path}.service"
        reader.refuse(reader.lines[where], where, f"a {workload.qos.value} pod has no queue of requests; leave it out")


def _check_demand(reader: Reader, demand: CpuDemand, path: str) -> None:
    given = [name for name in ("constant", "steps", "daily", "csv") if getattr(demand, name) not in (None, ())]
    if len(given) > 1:
        where = f"{path}.{given[1]}"
        reader.refuse(reader.lines[where], where, f"only one of constant, steps, daily and csv; {given[0]} is given already")
    for name, field in (("steps", "at"), ("daily", "hour")):
        moments = [getattr(each, field) for each in getattr(demand, name)]
        if any(later <= earlier for earlier, later in pairwise(moments)):
            where = f"{path}.{name}"
            reader.refuse(reader.lines[where], where, f"each `{field}` is after the one before it")
    for index, burst in enumerate(demand.bursts):
        if burst.every is not None and burst.every < burst.length:
            where = f"{path}.bursts[{index}].every"
            reader.refuse(reader.lines[where], where, f"at least length, {burst.length:g}s", value=f"{burst.every:g}s")


def _check_memory(reader: Reader, memory: MemoryDemand, path: str) -> None:
    if memory.peak is not None and memory.peak < memory.start:
        reader.refuse(reader.lines[f"{path}.peak"], f"{path}.peak", f"at least start, {memory.start}", value=str(memory.peak))


def _check_expectation(reader: Reader, expectation: Expectation, path: str) -> None:
    if expectation.at_least is None and expectation.at_most is None:
        line = reader.lines.get(f"{path}.measure", 1)
        reader.refuse(line, path, "at_least or at_most, or both")
    if expectation.before is not None and expectation.before <= expectation.after:
        reader.refuse(reader.lines[f"{path}.before"], f"{path}.before", f"later than after, {expectation.after:g}s")


def _check_pods(reader: Reader, scenario: Scenario) -> None:
    """Refuse two pods of one name (of a `count` and of a workload), and more CPUs given away than there are."""
    known: set[tuple[str, str]] = set()
    given = 0
    for index, workload in enumerate(scenario.workloads):
        where = f"workloads[{index}]"
        names = {(workload.namespace, name) for name in workload.pods}
        for _, name in sorted(names & known)[:1]:
            reader.refuse(reader.lines[f"{where}.name"], f"{where}.name", f"a pod {name} is there already, of another workload's count")
        known |= names
        before, given = given, given + workload.cpus * workload.count
        if given > scenario.node.cpus >= before:
            line = reader.lines.get(f"{where}.cpus", 1)
            reader.refuse(line, f"{where}.cpus", f"with those before it {counted(given, 'CPU')}, and the node has {scenario.node.cpus:g}")


def _check_scenario(reader: Reader, scenario: Scenario, path: str) -> None:
    del path
    known = {workload.name for workload in scenario.workloads}
    referring: list[tuple[str, Event | Expectation]] = [(f"events[{index}]", event) for index, event in enumerate(scenario.events)]
    referring += [(f"expect[{index}]", each) for index, each in enumerate(scenario.expect)]
    for where, each in referring:
        name = each.workload
        if name is not None and name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near}?" if near else f"known are {', '.join(sorted(known))}"
            line = reader.lines[f"{where}.workload"]
            reader.refuse(line, f"{where}.workload", "the name of a workload", value=printable(name), hint=hint)
    _check_pods(reader, scenario)
    if not scenario.workloads and not reader.refused("workloads"):
        reader.refuse(reader.lines.get("workloads", 1), "workloads", "at least one")
    for index, each in enumerate(scenario.expect):
        if each.after >= scenario.duration:
            where = f"expect[{index}].after"
            reader.refuse(reader.lines[where], where, f"before the end, {scenario.duration:g}s", value=f"{each.after:g}s")
