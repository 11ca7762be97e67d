"""The three troubles, each answer reached by data of its own."""

from __future__ import annotations

from msgspec.structs import replace

from qosmanager.config.settings import CpuBurstSettings, CpuEvictSettings, CpuSuppressSettings, Settings, Smoothing, Thresholds
from qosmanager.doctor.troubles import Live, Trouble, Verdict, troubles
from qosmanager.model.actions import Plan, Refusal, Result
from qosmanager.model.qos import Level, Mode, Plugin, QoS
from qosmanager.model.snapshot import Node, Pod, PodCpu, PodLatency
from qosmanager.views.decisions import Decisions
from qosmanager.views.status import About, status
from records import EVICT_CPU, EVICT_MEMORY, LIMIT, WALL, pressure, receipt, record

ABOUT = About(version="1", pid=1, started=WALL)
FAST = Pod(
    name="api", namespace="shop", qos=QoS.LS, cpu=PodCpu(usage=0.5, limit=2.0, throttled=0.0), latency=PodLatency(p99=0.04, slo=0.05)
)
SLOW = replace(FAST, latency=PodLatency(p99=0.09, slo=0.05))
BATCH = Pod(name="job", namespace="batch", qos=QoS.BE, cpu=PodCpu(usage=0.5))


def live(*pods: Pod, score: float = 70.0, settings: Settings | None = None, history=(), **changes) -> Live:
    """An agent with these pods and this CPU score, after a history of records."""
    decisions = Decisions()
    for each in history:
        decisions.observe(each)
    plain = record(1)
    assessed = replace(plain.assessment, cpu=pressure(score, Level.HIGH))
    snapshot = replace(
        plain.snapshot, pods=pods, node=changes.pop("node", Node(cpus=2.0, cpu_usage=1.5)), paused=changes.pop("paused", False)
    )
    limited = replace(plain.state, bursts=changes.pop("bursts", ()), be_limit=changes.pop("be_limit", 0.6))
    last = replace(plain, wall=WALL + 1000, assessment=assessed, snapshot=snapshot, state=limited, plan=Plan(**changes))
    return Live(status=status(last, settings or Settings(), ABOUT), entries=decisions.last_with_terms(500))


def eviction(seconds_ago: float, action=EVICT_CPU, score: float = 95.0):
    """A cycle that evicted, so many seconds before now."""
    plain = record(int(1000 - seconds_ago), (action,))
    assessed = replace(plain.assessment, cpu=pressure(score, Level.EMERGENCY))
    return replace(
        plain,
        wall=WALL + 1000 - seconds_ago,
        assessment=assessed,
        plan=replace(plain.plan, actions=(action,)),
        receipts=(receipt(0, Result.APPLIED),),
    )


def limiting(seconds_ago: float, score: float):
    return eviction(seconds_ago, LIMIT, score)


def slow(**changes) -> Trouble:
    return troubles(live(SLOW, BATCH, **changes))[0]


def often(**changes) -> Trouble:
    return troubles(live(FAST, BATCH, **changes))[1]


def burst(*pods: Pod, **changes) -> Trouble:
    return troubles(live(*pods, **changes))[2]


def test_services_within_their_slo_are_no_trouble():
    found = troubles(live(FAST, BATCH))[0]
    assert (found.verdict, found.answer) == (Verdict.FINE, "no LS pod is above its SLO")


def test_without_a_latency_nothing_is_known():
    found = troubles(live(replace(FAST, latency=PodLatency(slo=0.05)), BATCH))[0]
    assert found.verdict is Verdict.UNKNOWN
    assert "slo and latency" in found.answer


def test_slow_without_cpu_pressure_is_network_or_disk():
    found = slow(score=59.9, node=Node(cpus=2.0, cpu_usage=0.5, disk_util=93.0, iowait=12.0))
    assert (found.verdict, found.answer) == (Verdict.TROUBLED, "probably not the CPU: look at network and disk")
    assert found.advice == ("disk busy 93%, iowait 12%; and the service's own dependencies",)
    assert found.checks[0].found == "shop/api p99 90 ms of 50"


def test_slow_at_its_own_limit_says_so():
    held = replace(SLOW, cpu=PodCpu(usage=1.9, limit=2.0, throttled=0.2))
    found = troubles(live(held, BATCH, score=10.0))[0]
    assert found.advice == ("its own limit holds shop/api back: see the burst below, or raise the limit",)


def test_slow_under_pressure_with_be_free_is_suppression_not_in_effect():
    for changes, reason, advice in (
        ({"be_limit": None}, "no: no BE limit is in force", "qosmanager explain"),
        ({"be_limit": 0.4}, "no: BE uses 0.50 cores of a limit of 0.40", "qosmanager explain"),
        ({"paused": True}, "no: the agent is paused", "qosmanager resume"),
        (
            {"settings": Settings(cpu_suppress=CpuSuppressSettings(mode=Mode.OBSERVE))},
            "no: CPUSuppress is in mode observe",
            "mode: enforce",
        ),
    ):
        found = slow(**changes)
        assert found.answer == "CPUSuppress may not be in effect: check its configuration"
        assert found.checks[-1].found == reason
        assert advice in found.advice[0]


def test_slow_under_pressure_without_evictions_is_a_threshold_too_high():
    refusal = Refusal(Plugin.CPU_EVICT, None, "suppress-first", "suppression at CRITICAL has not been tried yet")
    found = slow(refusals=(refusal,))
    assert found.answer == "evictThreshold may be too high: lower it"
    assert found.checks[-1].found == "0 rounds in the last 10 minutes, now: suppression at CRITICAL has not been tried yet"
    assert found.advice[0] == "cpuPressure.medium: 50"
    assert found.advice[-1] == "cpuEvict: {mode: enforce, evictThreshold: 85}"


def test_slow_although_all_is_at_work_is_to_act_earlier_and_nothing_is_advised_that_is_so_already():
    settings = Settings(
        cpu_pressure=Thresholds(low=30.0, medium=50.0, high=65.0, critical=80.0), cpu_evict=CpuEvictSettings(evict_threshold=85.0)
    )
    found = slow(settings=settings, history=[eviction(100)])
    assert found.answer.startswith("suppression and eviction are at work")
    assert found.advice == ("cpuSuppress.suppressRatio: smaller ratios (preset latency-first: 0.7, 0.4, 0.2)",)


def test_few_or_old_evictions_are_no_trouble():
    found = often(history=[eviction(900), eviction(890), eviction(880), eviction(400), eviction(100)])
    assert (found.verdict, found.checks[0].found) == (Verdict.FINE, "CPUEvict 2, MemoryEvict 0")


def test_two_rounds_within_a_minute_are_a_threshold_too_low():
    found = often(history=[eviction(140), eviction(100)])
    assert (found.verdict, found.answer) == (Verdict.TROUBLED, "evictThreshold is too low: raise it")
    assert found.advice == ("cpuEvict.evictThreshold: 95", "cpuEvict.evictCooldown: 120s", "smoothing.window: 5m")


def test_observed_evictions_are_none():
    observed = replace(EVICT_CPU, mode=Mode.OBSERVE)
    plain = [eviction(140, observed), eviction(100, observed)]
    assert often(history=[replace(each, receipts=()) for each in plain]).verdict is Verdict.FINE


def test_a_score_that_swings_across_the_threshold_is_to_be_smoothed():
    history = [eviction(300, score=95.0), limiting(280, 80.0), eviction(200, score=95.0), limiting(180, 80.0), eviction(100, score=95.0)]
    found = often(history=history)
    assert found.checks[1].found == "4 times, as far as decisions tell"
    assert found.answer == "the score swings across the threshold: smooth it, or cool down for longer"
    calmer = Settings(cpu_evict=CpuEvictSettings(evict_cooldown=120.0), smoothing=Smoothing(window=300.0))
    assert often(history=history, settings=calmer).advice == ()


def test_evictions_for_memory_are_not_cured_by_thresholds():
    found = often(history=[eviction(140, EVICT_MEMORY), eviction(100, EVICT_MEMORY)])
    assert (found.verdict, found.answer) == (Verdict.TROUBLED, "memory is short, not the CPU: thresholds would only delay it")


HELD = replace(FAST, cpu=PodCpu(usage=1.85, limit=2.0, throttled=0.0))


def test_a_burst_that_nobody_needs_is_no_trouble():
    assert burst(FAST).answer == "no LS pod is held back by its own limit"


def test_burst_switched_off_while_somebody_needs_it():
    off = Settings(cpu_burst=CpuBurstSettings(mode=Mode.OFF))
    assert (burst(HELD, settings=off).verdict, burst(HELD, settings=off).answer) == (Verdict.TROUBLED, "switch it on")
    assert burst(FAST, settings=off).verdict is Verdict.UNKNOWN


def test_burst_without_idle_cpu():
    found = burst(HELD, node=Node(cpus=2.0, cpu_usage=1.7))
    assert (found.verdict, found.answer) == (Verdict.TROUBLED, "minNodeCPUIdle is not met")
    assert found.checks[-1].found == "15% idle, minNodeCPUIdle is 20%"
    assert found.advice == ("cpuBurst.minNodeCPUIdle: 0.1", "or a larger node", "or fewer BE pods")


def test_burst_refused_for_want_of_room():
    refusal = Refusal(Plugin.CPU_BURST, "shop/api", "headroom", "headroom 0 of 2")
    found = burst(HELD, node=Node(cpus=2.0, cpu_usage=1.0), refusals=(refusal,))
    assert (found.verdict, found.checks[-1].found) == (Verdict.TROUBLED, "shop/api: headroom 0 of 2")


def test_burst_that_is_about_to_begin_or_runs_is_fine():
    idle = Node(cpus=2.0, cpu_usage=1.0)
    about_to = burst(HELD, node=idle)
    assert about_to.verdict is Verdict.FINE
    assert about_to.checks[1].found == "1 pod with a limit: 0 bursting, 1 more held back by it"
    running = burst(HELD, node=idle, bursts=record(1).state.bursts)
    assert (running.verdict, running.answer) == (Verdict.FINE, "it works: shop/api")
