import json

from qosmanager.model.actions import (
    Evict,
    Plan,
    RestoreBeCpuLimit,
    RestoreBeCpuset,
    RestoreCpuLimit,
    SetBeCpuLimit,
    SetBeCpuset,
    SetCpuLimit,
)
from qosmanager.model.assessment import Assessment, Factor, Matrix, MatrixInputs, OomRisk, Pressure
from qosmanager.model.qos import Level, MatrixAction, Mode, Plugin, Slo
from qosmanager.views.plan import plan_document

ASSESSMENT = Assessment(
    cpu=Pressure(
        score=59.00004999,
        level=Level.MEDIUM,
        factors=(
            Factor(name="usage", points=20.0, cap=40, inputs={"cpu_percent": 50.0}),
            Factor(name="ls_ratio", points=24.0, cap=60, inputs={}),
            Factor(name="trend", points=10.0, cap=20, inputs={}),
            Factor(name="load", points=5.00006, cap=20, inputs={}),
        ),
    ),
    memory=Pressure(
        score=0.0,
        level=Level.LOW,
        factors=(
            Factor(name="usage", points=0.0, cap=43.75, inputs={}),
            Factor(name="swap", points=None, cap=20, inputs={}, note="no swap device"),
        ),
    ),
    io=Pressure(score=0.0, level=Level.LOW, factors=(Factor(name="stall", points=None, cap=40, inputs={}, note="not measured"),)),
    matrix=Matrix(
        Level.LOW,
        MatrixAction.RELAX_BE_LIMIT,
        MatrixInputs(cpu_percent=50.0, memory_percent=0.0, cpu_trend=0.5, latency_rising=False),
    ),
    raw_level=Level.MEDIUM,
    steady_level=Level.MEDIUM,
    effective_level=Level.MEDIUM,
    slo=Slo.VIOLATED,
    oom=OomRisk(present=False),
)


def test_the_assessment_has_the_documented_shape_and_order():
    document = plan_document(ASSESSMENT, Plan())
    assert json.dumps(document) == json.dumps(
        {
            "assessment": {
                "cpu": {"score": 59.0, "level": "MEDIUM", "factors": {"usage": 20.0, "ls_ratio": 24.0, "trend": 10.0, "load": 5.0001}},
                "memory": {"score": 0.0, "level": "LOW", "factors": {"usage": 0.0}, "oom_risk": False},
                "io": {"score": 0.0, "level": "LOW", "factors": {}},
                "matrix": {"priority": "LOW", "action": "RELAX_BE_LIMIT"},
                "effective_level": "MEDIUM",
                "slo": "violated",
            },
            "actions": [],
        }
    )


def test_every_kind_of_action_has_its_documented_keys_in_order():
    burst, suppress, evict = Plugin.CPU_BURST, Plugin.CPU_SUPPRESS, Plugin.CPU_EVICT
    plan = Plan(
        actions=(
            SetCpuLimit(plugin=burst, reason="r", pod="shop/cart-0", cores=2.99999, base=2.0),
            RestoreCpuLimit(plugin=burst, reason="r", pod="shop/cart-1", cores=2.0),
            SetBeCpuLimit(plugin=suppress, reason="r", cores=7.123456),
            RestoreBeCpuLimit(plugin=suppress, reason="r"),
            SetBeCpuset(plugin=suppress, reason="r", cpus="0-3"),
            RestoreBeCpuset(plugin=suppress, reason="r"),
            Evict(plugin=evict, reason="r", pod="batch/rec-3", uid="u", cpu=3.0, leaking=True),
        )
    )
    assert json.dumps(plan_document(ASSESSMENT, plan)["actions"]) == json.dumps(
        [
            {"plugin": "CPUBurst", "kind": "set_cpu_limit", "pod": "shop/cart-0", "cores": 3.0, "reason": "r"},
            {"plugin": "CPUBurst", "kind": "restore_cpu_limit", "pod": "shop/cart-1", "cores": 2.0, "reason": "r"},
            {"plugin": "CPUSuppress", "kind": "set_be_cpu_limit", "cores": 7.1235, "reason": "r"},
            {"plugin": "CPUSuppress", "kind": "restore_be_cpu_limit", "reason": "r"},
            {"plugin": "CPUSuppress", "kind": "set_be_cpuset", "cpus": "0-3", "reason": "r"},
            {"plugin": "CPUSuppress", "kind": "restore_be_cpuset", "reason": "r"},
            {"plugin": "CPUEvict", "kind": "evict", "pod": "batch/rec-3", "reason": "r"},
        ]
    )


def test_mode_is_told_only_where_nothing_is_enforced():
    plan = Plan(actions=(Evict(plugin=Plugin.CPU_EVICT, reason="r", pod="a/b", mode=Mode.OBSERVE),))
    assert plan_document(ASSESSMENT, plan)["actions"] == [
        {"plugin": "CPUEvict", "kind": "evict", "pod": "a/b", "reason": "r", "mode": "observe"}
    ]
