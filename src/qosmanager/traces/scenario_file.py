"""A trace written as a scenario: a folder with scenario.yaml and one CSV file for each workload. All of it is there, or nothing."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from qosmanager.documents.problem import DocumentError, Problem
from qosmanager.documents.quantities import shown_duration
from qosmanager.model.qos import QoS, is_latency_sensitive
from qosmanager.traces.trace import Trace, Usage

SCENARIO = "scenario.yaml"
_LONGEST = 366 * 86400.0  # seconds


class Serving(Struct, frozen=True):
    """What no trace of usage tells of the services: CPU of one request, and the objective for p99, in seconds."""

    time: float = 0.01
    slo: float = 0.1


def write(trace: Trace, serving: Serving, folder: Path) -> Path:
    """Write the folder and return the scenario's path. Raises DocumentError when it is there already or cannot be made."""
    if trace.duration > _LONGEST:
        message = (
            f"a scenario lasts at most {shown_duration(_LONGEST)}, and this would be {trace.duration / 3600:.0f}h: --length says how much"
        )
        raise DocumentError([Problem(source=str(folder), line=None, message=message)])
    try:
        parent = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise _refused(folder, error) from None
    try:
        for number, usage in enumerate(trace.workloads):
            with (parent / _series(number, usage)).open("w", encoding="utf-8") as file:
                file.write("seconds,cores\n")
                file.writelines(f"{time:.15g},{cores:.6f}\n" for time, cores in usage.points)
        text = yaml.safe_dump(_document(trace, serving), sort_keys=False, allow_unicode=True, width=120)
        (parent / SCENARIO).write_text(text, encoding="utf-8")
        parent.chmod(0o755)
        # Onto an empty folder or none: what a person has there stays.
        os.rename(parent, folder)
    except OSError as error:
        shutil.rmtree(parent, ignore_errors=True)
        raise _refused(folder, error) from None
    return folder / SCENARIO


def _refused(folder: Path, error: OSError) -> DocumentError:
    there = error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
    message = "is there already and not an empty folder; nothing was written" if there else f"cannot be made: {error.strerror}"
    return DocumentError([Problem(source=str(folder), line=None, message=message)])


def _document(trace: Trace, serving: Serving) -> dict[str, Any]:
    node: dict[str, Any] = {"cpus": trace.cpus, "memory": trace.memory}
    if trace.system_cpu:
        node["system_cpu"] = trace.system_cpu
    workloads = [_workload(number, usage, serving) for number, usage in enumerate(trace.workloads)]
    return {"about": trace.about, "duration": shown_duration(trace.duration), "node": node, "workloads": workloads}


def _workload(number: int, usage: Usage, serving: Serving) -> dict[str, Any]:
    serves = is_latency_sensitive(usage.qos)
    document: dict[str, Any] = {"name": usage.name, "qos": usage.qos.value, "priority": 5000 if usage.qos is QoS.BE else 9000}
    if usage.count > 1:
        document["count"] = usage.count
    requests = {"cpu": usage.request, "memory": usage.memory_request}
    if known := {name: value for name, value in requests.items() if value}:
        document["requests"] = known
    if usage.limit:
        document["limits"] = {"cpu": usage.limit}
    if serves:
        document["slo"] = {"p99": shown_duration(serving.slo)}
        document["service"] = {"time": shown_duration(serving.time)}
    document["cpu"] = {"csv": _series(number, usage)}
    if usage.memory:
        document["memory"] = {"start": usage.memory}
    return document


def _series(number: int, usage: Usage) -> str:
    """Return a file name: the number keeps apart what only differs in characters that no file name should have."""
    safe = "".join(character if character.isascii() and (character.isalnum() or character in "-.") else "-" for character in usage.name)
    return f"{number:03d}-{safe[:80]}.csv"
