"""Assessment and plan as the JSON document that `qosmanager plan` prints (specification, section 8).

In: what the engine's step returned. Out: a dict in the order of the specification; scores, points and cores rounded to 4 decimals.
"""

from __future__ import annotations

from typing import Any, assert_never

from qosmanager.model.actions import (
    KINDS,
    Action,
    Evict,
    Plan,
    RestoreBeCpuLimit,
    RestoreBeCpuset,
    RestoreCpuLimit,
    SetBeCpuLimit,
    SetBeCpuset,
    SetCpuLimit,
)
from qosmanager.model.assessment import Assessment, Pressure
from qosmanager.model.qos import Mode


def plan_document(assessment: Assessment, plan: Plan) -> dict[str, Any]:
    """Return the document. An action's `mode` is there only where it is not enforce."""
    return {
        "assessment": {
            "cpu": _pressure(assessment.cpu),
            "memory": {**_pressure(assessment.memory), "oom_risk": assessment.oom.present},
            "io": _pressure(assessment.io),
            "matrix": {"priority": assessment.matrix.priority.value, "action": assessment.matrix.action.value},
            "effective_level": assessment.effective_level.value,
            "slo": assessment.slo.value,
        },
        "actions": [_action(action) for action in plan.actions],
    }


def _pressure(pressure: Pressure) -> dict[str, Any]:
    return {
        "score": round(pressure.score, 4),
        "level": pressure.level.value,
        "factors": {factor.name: round(factor.points, 4) for factor in pressure.factors if factor.points is not None},
    }


def _action(action: Action) -> dict[str, Any]:
    document = {"plugin": action.plugin.value, "kind": KINDS[type(action)], **_subject(action), "reason": action.reason}
    return document if action.mode is Mode.ENFORCE else {**document, "mode": action.mode.value}


def _subject(action: Action) -> dict[str, Any]:
    match action:
        case SetCpuLimit() | RestoreCpuLimit():
            return {"pod": action.pod, "cores": round(action.cores, 4)}
        case SetBeCpuLimit():
            return {"cores": round(action.cores, 4)}
        case SetBeCpuset():
            return {"cpus": action.cpus}
        case Evict():
            return {"pod": action.pod}
        case RestoreBeCpuLimit() | RestoreBeCpuset():
            return {}
        case _:
            assert_never(action)
