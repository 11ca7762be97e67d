"""Simulated and recorded runs as one HTML page (`--report`). Needs the extra `report`."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

from qosmanager.cli.errors import CannotRunError
from qosmanager.cli.extras import lacks
from qosmanager.linux.replace_file import replace_file
from qosmanager.model.actions import KINDS

if TYPE_CHECKING:
    from qosmanager.report.page import Page
    from qosmanager.report.track import Track
    from qosmanager.simulate.run import Cycle

MISSING = lacks("--report needs", "report")


def check_report(path: Path | None) -> None:
    """Say before a long run, not after it, that its page could not be made. Raises CannotRunError."""
    if path is None:
        return
    try:
        import qosmanager.report.page  # noqa: F401, PLC0415 - plotly is an extra, and slow to load
    except ImportError:
        raise CannotRunError(MISSING) from None
    if path.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        raise CannotRunError(f"--report {path}: {'this is a directory' if path.is_dir() else 'its directory cannot be written'}")


def follow(track: Track, cycle: Cycle, memory: int) -> None:
    """Take one cycle into a track; `memory`: of the node, bytes."""
    from qosmanager.report.track import Mark, Moment  # noqa: PLC0415 - as above

    truth, record = cycle.truth, cycle.record
    marks = [Mark(truth.time, what, key) for what, key in truth.happenings]
    scores: dict[str, float] = {}
    if record is not None:
        assessment = record.assessment
        scores = {
            "cpu_score": assessment.cpu.score,
            "memory_score": assessment.memory.score,
            "io_score": assessment.io.score,
            "level": float(record.plan.level.rank),
        }
        marks += [Mark(truth.time, KINDS[type(action)], _reason(action.plugin.value, action)) for action in record.plan.actions]
    track.add(
        Moment(
            time=truth.time,
            node=_number(truth.node_cpu),
            ls=_number(truth.ls_cpu),
            be=_number(truth.be_cpu),
            limit=_number(truth.be_limit),
            memory=math.nan if truth.memory_available is None else float(memory - truth.memory_available),
            p99={service.key: service.p99 for service in truth.services if service.p99 is not None},
            **scores,
        ),
        marks,
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def write_page(page: Page, path: Path) -> None:
    """Write the page. Raises CannotRunError."""
    from qosmanager.report.page import render  # noqa: PLC0415 - as above

    try:
        replace_file(path, render(page).encode(), 0o644)
    except OSError as error:
        raise CannotRunError(f"--report {path}: cannot be written: {error.strerror}", code=1) from None


def _reason(plugin: str, action: object) -> str:
    """Return what a hover box tells of an action: who decided it, about what, and why."""
    about = getattr(action, "pod", None)
    cores = getattr(action, "cores", None)
    to = "" if cores is None else f" to {cores:.4g} cores"
    return f"{plugin}{f' {about}' if about else ''}{to}: {getattr(action, 'reason', '')}"
