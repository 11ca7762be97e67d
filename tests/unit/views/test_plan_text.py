import pytest
from msgspec.structs import replace

from qosmanager.config.settings import CpuSuppressSettings, Settings
from qosmanager.model.actions import Evict, Plan, PluginFailure, Refusal, Resources, SetBeCpuLimit
from qosmanager.model.assessment import Assessment, Factor, Matrix, MatrixInputs, OomRisk, Pressure
from qosmanager.model.qos import Level, MatrixAction, Mode, Plugin, QoS, Slo
from qosmanager.model.snapshot import Node, Pod, PodCpu, PodLatency, PodMemory, Snapshot
from qosmanager.model.state import State
from qosmanager.views.plan_text import Step, plan_text
from qosmanager.views.prose import WIDTH

SNAPSHOT = Snapshot(
    node=Node(cpus=16, cpu_usage=8, cpu_trend=0.5, load1=8, memory_total=64 << 30, memory_available=48 << 30),
    pods=(
        Pod(
            name="api",
            namespace="shop",
            qos=QoS.LS,
            cpu=PodCpu(request=4, usage=3.2),
            latency=PodLatency(p99=0.15, slo=0.1),
        ),
        Pod(name="etl", namespace="batch", qos=QoS.BE, cpu=PodCpu(usage=2.0), memory=PodMemory(rss=1 << 30)),
        Pod(name="new", namespace="batch", qos=QoS.BE),
    ),
    missing={
        "node.io_psi_some": "no PSI in this kernel",
        "node.steal": "no PSI in this kernel",
        "pods.shop/api.cpu.wait": "first cycle",
        "pods.batch/new.cpu.usage": "first cycle",
        "pods.batch/new.cpu.wait": "first cycle",
    },
)
CPU = Pressure(
    score=59.0,
    level=Level.MEDIUM,
    factors=(
        Factor(name="usage", points=20.0, cap=40, inputs={"cpu_percent": 50.0}),
        Factor(name="ls_ratio", points=24.0, cap=60, inputs={"ls_usage": 3.2, "ls_request": 4.0}),
        Factor(name="trend", points=10.0, cap=20, inputs={"cpu_trend": 0.5}),
        Factor(name="load", points=5.0, cap=20, inputs={"load1": 8.0, "cpus": 16.0}),
    ),
)
MEMORY = Pressure(
    score=10.9,
    level=Level.LOW,
    factors=(
        Factor(name="usage", points=10.9375, cap=43.75, inputs={"memory_percent": 25.0}),
        Factor(name="swap", points=None, cap=20, inputs={"swap_total": None}, note="no swap device"),
    ),
)
IO = Pressure(
    score=0.0, level=Level.LOW, factors=(Factor(name="stall", points=None, cap=40, inputs={"io_psi_some": None}, note="not measured"),)
)
MATRIX = Matrix(
    Level.LOW,
    MatrixAction.RELAX_BE_LIMIT,
    MatrixInputs(cpu_percent=50.0, memory_percent=25.0, cpu_trend=0.5, latency_rising=False),
)
ASSESSMENT = Assessment(
    cpu=CPU,
    memory=MEMORY,
    io=IO,
    matrix=MATRIX,
    raw_level=Level.MEDIUM,
    steady_level=Level.MEDIUM,
    effective_level=Level.MEDIUM,
    slo=Slo.VIOLATED,
    oom=OomRisk(present=False),
    slo_violated_by=("shop/api",),
)
PLAN = Plan(
    actions=(
        SetBeCpuLimit(plugin=Plugin.CPU_SUPPRESS, reason="MEDIUM: target 7.2", cores=7.2),
        Evict(plugin=Plugin.MEMORY_EVICT, reason="it leaks", pod="batch/etl", memory=1 << 30, cpu=2.0, leaking=True, mode=Mode.OBSERVE),
    ),
    refusals=(Refusal(Plugin.CPU_EVICT, None, "slo", "the SLO is met"), Refusal(Plugin.CPU_BURST, "shop/api", "headroom", "no room")),
    failures=(PluginFailure(Plugin.CPU_BURST, "division by zero"),),
    resources=Resources(cpus=16, node_available=14, system_reserved=2, system_usage=2, ls_request=4, exclusive_cpus=0, be_allowance=10),
)
STEP = Step(before=State(be_limit=9.0), snapshot=SNAPSHOT, settings=Settings(), after=State(), assessment=ASSESSMENT, plan=PLAN)


def level_line(step):
    text = " ".join(plan_text(step).split())
    return text[text.index("the higher of the two is") :].partition(" Actions ")[0].partition("; ")[2]


def held(raw, before, level, **after):
    assessment = replace(ASSESSMENT, raw_level=raw, effective_level=level)
    return level_line(replace(STEP, assessment=assessment, before=State(suppress_level=before), after=State(**after)))


def test_a_limit_that_was_only_observed_is_not_in_force():
    text = plan_text(replace(STEP, before=replace(STEP.before, be_observed=True)))
    assert "the others not measured; the limit observed is 9\n" in text


def test_the_whole_explanation():
    assert (
        plan_text(STEP)
        == """\
Node
  16 CPUs, 8 cores in use; kept for the system 2, for pods 14
  memory 64Gi, 48Gi available
  1 LS pod, 3.2 cores in use, 4 requested; above their SLO: shop/api (p99 150 ms, SLO 100 ms)
  2 BE pods, 2 cores in use by 1, the others not measured; the limit in force is 9

CPU pressure 59.0: MEDIUM
  usage      20.0 of 40.00   node CPU 50.0 percent
  ls_ratio   24.0 of 60.00   LS usage 3.2 cores, LS request counts as 4 cores
  trend      10.0 of 20.00   CPU without BE +0.50 points a minute
  load        5.0 of 20.00   load 8, 16 CPUs

Memory pressure 10.9: LOW
  usage      10.9 of 43.75   memory in use 25.0 percent
  left out: swap (no swap device), the others are scaled up

I/O pressure unknown, counts as 0: LOW
  left out: stall (not measured)

Level MEDIUM
  the CPU score 59.0 is MEDIUM (thresholds 40/60/75/90)
  the decision matrix says LOW, RELAX_BE_LIMIT: CPU 50.0 percent, memory 25.0 percent, trend 0.50,
    no LS latency known to rise
  the higher of the two is MEDIUM; no level was held before, so it holds

Actions
  1. CPUSuppress: hold all BE at 7.2 cores (now 9), because MEDIUM: target 7.2
  2. MemoryEvict: evict batch/etl (frees 2 cores and 1Gi of memory); it leaks, so a person decides
     whether it comes back (observe: only reported), because it leaks
  CPUBurst failed (division by zero): the rest only tightens and evicts nobody

Not done
  - CPUEvict: the SLO is met [slo]
  - CPUBurst shop/api: no room [headroom]

Not measured
  no PSI in this kernel: node.io_psi_some
  first cycle: cpu.usage (batch/new), cpu.wait (shop/api)
"""
    )


def test_no_line_is_wider_than_the_page():
    reason = "a word " * 60
    plan = replace(PLAN, actions=(SetBeCpuLimit(plugin=Plugin.CPU_SUPPRESS, reason=reason, cores=1.0),))
    lines = plan_text(replace(STEP, plan=plan)).splitlines()
    assert max(len(line) for line in lines) <= WIDTH
    assert sum("a word" in line for line in lines) >= 4


@pytest.mark.parametrize(
    ("raw", "before", "level", "why"),
    [
        (Level.HIGH, Level.LOW, Level.HIGH, "it rises from LOW at once"),
        (Level.LOW, Level.HIGH, Level.MEDIUM, "a fall has been possible for 3s, so BE goes one level down from HIGH"),
        (Level.HIGH, Level.MEDIUM, Level.MEDIUM, "one noisy sample does not count: the median of 3 s leaves BE at MEDIUM"),
        (Level.HIGH, Level.HIGH, Level.HIGH, "BE stays at HIGH"),
    ],
)
def test_why_the_level_is_what_it_is(raw, before, level, why):
    assert held(raw, before, level) == why


def test_a_level_that_waits_to_fall_says_what_for():
    waits = held(Level.LOW, Level.HIGH, Level.HIGH, below_since=5.0)
    assert waits == "BE stays at HIGH until a fall has been possible for 3s without a break"
    would_return = held(Level.LOW, Level.HIGH, Level.HIGH)
    assert would_return.startswith("BE stays at HIGH: with a margin of 3 points and what BE would use at the next lower level")


def test_a_degraded_cycle_gives_no_other_reason_for_its_level():
    assessment = replace(ASSESSMENT, raw_level=Level.HIGH, effective_level=Level.MEDIUM)
    step = replace(STEP, assessment=assessment, before=State(suppress_level=Level.MEDIUM), plan=replace(PLAN, degraded=("node_stale",)))
    assert level_line(step) == "nothing is relaxed in this cycle (node_stale): MEDIUM stays"


def test_without_suppression_no_level_is_held():
    settings = Settings(cpu_suppress=CpuSuppressSettings(mode=Mode.OFF))
    assert level_line(replace(STEP, settings=settings)) == "CPUSuppress is off, so that nothing is held"


def test_what_is_not_measured_is_never_shown_as_zero():
    node = Node(cpus=16)
    pods = (Pod(name="api", qos=QoS.LS),)
    text = plan_text(replace(STEP, snapshot=Snapshot(node=node, pods=pods), assessment=replace(ASSESSMENT, slo=Slo.UNKNOWN)))
    assert "16 CPUs, use not measured; " in text
    assert "1 LS pod, use not measured, " in text
    assert "CPU not measured, memory not measured, trend not measured" in " ".join(text.split())


def test_nothing_to_do_is_said():
    assert "Actions\n  none: every limit stays as it is\n" in plan_text(replace(STEP, plan=Plan()))


def test_memory_that_runs_out_is_said_with_its_reasons():
    oom = OomRisk(present=True, reasons=("available 1 GiB is under the floor of 2 GiB",), forecast=5.0)
    assert "  memory is about to run out: available 1 GiB is under the floor of 2 GiB\n" in plan_text(
        replace(STEP, assessment=replace(ASSESSMENT, oom=oom))
    )
