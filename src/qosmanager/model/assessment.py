"""What the readings mean: scores with their terms, the matrix, OOM risk, the SLO signal (specification, section 4)."""

from __future__ import annotations

from msgspec import Struct

from qosmanager.model.qos import Level, MatrixAction, Slo


class Factor(Struct, frozen=True, kw_only=True):
    """One term of a score. `points` as counted, after the cap and any scaling; None: left out, `note` says why.

    `inputs` are the readings it was computed from (None: not measured).
    """

    name: str
    points: float | None
    cap: float
    inputs: dict[str, float | None]
    note: str = ""


class Pressure(Struct, frozen=True, kw_only=True):
    """A score 0 to 100, its level and the factors that sum up to it; `mean` is the smoothed score, None without smoothing."""

    score: float
    level: Level
    factors: tuple[Factor, ...]
    mean: float | None = None


class MatrixInputs(Struct, frozen=True, kw_only=True):
    """Usage percents (not scores), the CPU trend in points per minute, and whether some LS pod's latency rises."""

    cpu_percent: float
    memory_percent: float
    cpu_trend: float
    latency_rising: bool


class Matrix(Struct, frozen=True):
    """First matching row of the decision matrix, and what it was matched with."""

    priority: Level
    action: MatrixAction
    inputs: MatrixInputs


class OomRisk(Struct, frozen=True, kw_only=True):
    """Whether memory is about to run out; `reasons` names each condition that holds, `forecast` is seconds until it is gone."""

    present: bool
    reasons: tuple[str, ...] = ()
    forecast: float | None = None


class Assessment(Struct, frozen=True, kw_only=True):
    """The whole judgement of one snapshot.

    `raw_level` is that of this moment, `steady_level` the one a rise goes to (medians of 3 s below CRITICAL), `effective_level`
    the one BE is held at.
    """

    cpu: Pressure
    memory: Pressure
    io: Pressure
    matrix: Matrix
    raw_level: Level
    steady_level: Level
    effective_level: Level
    slo: Slo
    oom: OomRisk
    latency_rising: tuple[str, ...] = ()  # keys of the LS pods whose latency rises
    slo_violated_by: tuple[str, ...] = ()  # keys of the LS pods above their SLO
