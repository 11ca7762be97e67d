"""A judgement as data: scores with their factors and the readings behind them, the matrix, the level, the SLO signal (sections 4 and 8).

In: an `Assessment`. Out: `AssessmentView`, which encodes to JSON; rounded to 4 decimals, not measured is null.
"""

from __future__ import annotations

from msgspec import Struct

from qosmanager.model.assessment import Assessment, Leak, MatrixInputs, Pressure, Wellbeing
from qosmanager.views.figures import rounded


class TermView(Struct, frozen=True, kw_only=True):
    """A factor as counted and the readings it came from; points null: left out, `note` says why."""

    points: float | None
    cap: float
    inputs: dict[str, float | None]
    note: str


class PressureView(Struct, frozen=True, kw_only=True):
    """A score in the shape of section 8, with the terms behind its factors."""

    score: float
    level: str
    factors: dict[str, float]
    terms: dict[str, TermView]
    mean: float | None
    oom_risk: bool | None = None


class AssessmentView(Struct, frozen=True, kw_only=True):
    """The assessment in the shape of section 8. `effective_for`: seconds since which the level is the present one or tighter."""

    cpu: PressureView
    memory: PressureView
    io: PressureView
    matrix: dict[str, str]
    matrix_inputs: MatrixInputs
    raw_level: str
    effective_level: str
    effective_for: float | None
    slo: str
    slo_violated_by: tuple[str, ...]
    latency_rising: tuple[str, ...]
    oom_reasons: tuple[str, ...]
    oom_forecast: float | None
    cpu_without_be: PressureView | None = None  # what decides where BE makes way (strategies usage and slo); null: `cpu` does
    wellbeing: Wellbeing | None = None  # how the LS pods fare (strategy slo): p99 in seconds, stall as a share of the running time
    leaks: tuple[Leak, ...] = ()  # bytes/min, seconds


def assessment_view(assessment: Assessment, held: float | None) -> AssessmentView:
    """Return a judgement as data; `held`: seconds since which the level is the effective one or tighter."""
    return AssessmentView(
        cpu=_pressure(assessment.cpu),
        memory=_pressure(assessment.memory, oom_risk=assessment.oom.present),
        io=_pressure(assessment.io),
        matrix={"priority": assessment.matrix.priority.value, "action": assessment.matrix.action.value},
        matrix_inputs=assessment.matrix.inputs,
        raw_level=assessment.raw_level.value,
        effective_level=assessment.effective_level.value,
        effective_for=rounded(held),
        slo=assessment.slo.value,
        slo_violated_by=assessment.slo_violated_by,
        latency_rising=assessment.latency_rising,
        oom_reasons=assessment.oom.reasons,
        oom_forecast=rounded(assessment.oom.forecast),
        cpu_without_be=None if assessment.guard is None else _pressure(assessment.guard),
        wellbeing=assessment.wellbeing,
        leaks=assessment.leaks,
    )


def _pressure(pressure: Pressure, oom_risk: bool | None = None) -> PressureView:
    return PressureView(
        score=round(pressure.score, 4),
        level=pressure.level.value,
        factors={factor.name: round(factor.points, 4) for factor in pressure.factors if factor.points is not None},
        terms={
            factor.name: TermView(
                points=rounded(factor.points),
                cap=round(factor.cap, 4),
                inputs={name: rounded(value) for name, value in factor.inputs.items()},
                note=factor.note,
            )
            for factor in pressure.factors
        },
        mean=rounded(pressure.mean),
        oom_risk=oom_risk,
    )
