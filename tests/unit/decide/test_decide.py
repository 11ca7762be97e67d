"""One plan: stale data, pause, failures, modes (specification, section 2)."""

import pytest
from msgspec.structs import replace

from builders import GIB, NOW, be, decided, failing_cpu_burst, failing_node_qos_resource, ls, of_kind, remembered, slow, snapshot
from qosmanager.config.settings import (
    CpuBurstSettings,
    CpuEvictSettings,
    CpuSuppressSettings,
    MemoryEvictSettings,
    NodeQosResourceSettings,
    Settings,
    SystemQosResourceSettings,
    SystemReserved,
)
from qosmanager.decide.decide import ORDER
from qosmanager.model.actions import Evict, Resources, RestoreCpuLimit, SetBeCpuLimit, SetCpuLimit, Standing
from qosmanager.model.qos import Level, Mode, Plugin, QoS
from qosmanager.model.state import Burst, State

# Everything at once: a burst that runs, a service at its limit, batch over its limit, eviction due, memory short.
PODS = (
    slow(usage=11.0, request=8.0, limit=12.0, wait=3.0),
    ls("web", usage=1.0, limit=1.0),
    ls("trade", QoS.LSE, usage=0.0, exclusive_cpus=(3,)),
    be("etl", usage=4.0, rss=GIB),
)
READING = snapshot(*PODS, cpu_usage=16.0, load1=16.0, memory_total=100 * GIB, memory_available=GIB)
BURST = Burst(pod="shop/web", base_limit=1.0, limit=1.5, started=NOW - 4, calm_since=NOW - 2)
STATE = State(
    time=NOW - 1,
    be_limit=4.0,
    suppress_level=Level.CRITICAL,
    suppress_since=NOW - 60,
    below_since=NOW - 60,
    score_above_since=NOW - 60,
    bursts=(BURST,),
)
STANDING = Standing(be_weight=True, oom_score_adj=1000, exclusive_cpus=(3,))


def kinds(plan):
    return [type(action) for action in plan.actions]


def test_the_order_of_the_plugins_is_that_of_the_enumeration():
    assert tuple(plugin for plugin, _ in ORDER) == tuple(Plugin)


def test_with_fresh_data_all_of_it_is_decided():
    assert {RestoreCpuLimit, SetBeCpuLimit, Evict} <= set(kinds(decided(READING, STATE)))


# -- stale ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age", "period", "stale"),
    [(3.0, 1.0, False), (3.1, 1.0, True), (3.1, 2.0, False), (6.1, 2.0, True), (3.0, 0.1, False), (3.1, 0.1, True)],
)
def test_a_sample_is_stale_after_three_seconds_or_three_periods(age, period, stale):
    plan = decided(replace(READING, node_age=age), STATE, Settings(sync_period=period))
    assert (plan.degraded == ("node_stale",)) is stale


def test_an_old_sample_of_memory_is_none_of_this_moment():
    known = replace(READING, node=replace(READING.node, memory_total=64 << 30, memory_available=9 << 30))
    assert remembered(known, STATE).recent[-1].memory_available == 9 << 30
    assert remembered(replace(known, node_age=2.0), STATE).recent[-1].memory_available is None


OLD = replace(READING, node_age=4.0)
BLIND = replace(READING, node=replace(READING.node, cpu_usage=None))


@pytest.mark.parametrize(("reading", "reason"), [(OLD, "node_stale"), (BLIND, "node_cpu_not_measured")])
def test_without_a_fresh_node_sample_nothing_changes(reading, reason):
    plan = decided(reading, STATE)
    assert plan.degraded == (reason,)
    assert plan.actions == ()
    assert plan.level is Level.CRITICAL
    after = remembered(reading, STATE)
    assert (after.be_limit, after.suppress_level, after.suppress_since) == (4.0, Level.CRITICAL, NOW - 60)
    assert after.recent == ()


@pytest.mark.parametrize(("age", "expected"), [(9.9, []), (10.0, [RestoreCpuLimit])])
def test_on_stale_data_bursts_end_in_time(age, expected):
    state = replace(STATE, bursts=(replace(BURST, started=NOW - age),))
    assert kinds(decided(OLD, state)) == expected
    assert bool(remembered(OLD, state).bursts) is not bool(expected)


def test_on_stale_data_bursts_end_when_the_plugin_is_switched_off():
    assert kinds(decided(OLD, STATE, Settings(cpu_burst=CpuBurstSettings(mode=Mode.OFF)))) == [RestoreCpuLimit]


def test_stale_data_break_what_must_last():
    after = remembered(OLD, STATE)
    assert (after.below_since, after.score_above_since, after.bursts[0].calm_since) == (None, None, None)


def test_the_first_cycle_after_stale_data_is_one_period_long():
    idle = snapshot(cpu_usage=0.0)
    state = State(time=NOW - 60, be_limit=2.0, suppress_level=Level.LOW)
    state = remembered(replace(idle, node_age=9.0), state)
    found = of_kind(decided(replace(idle, time=NOW + 1), state), SetBeCpuLimit)
    assert [action.cores for action in found] == [pytest.approx(3.6)]


@pytest.mark.parametrize(("ago", "kept"), [(0.0, True), (0.5, True), (3.0, True), (3.1, False), (-0.5, False)])
def test_what_must_last_lasts_through_cycles_that_follow_each_other(ago, kept):
    # Missing cycles, or a clock that went back, are a break; score 0 at LOW's bound, so that a fall stays possible.
    state = State(time=NOW - ago, suppress_level=Level.HIGH, suppress_since=NOW - 60, below_since=NOW - 1)
    assert remembered(snapshot(cpu_usage=0.0), state).below_since == (NOW - 1 if kept else NOW)


def test_without_a_decision_the_resources_are_those_of_the_configuration():
    settings = Settings(system_reserved=SystemReserved(cpu=2.0, memory=3 * GIB))
    assert decided(OLD, STATE, settings).resources == Resources(
        cpus=16.0,
        node_available=14.0,
        system_reserved=2.0,
        system_usage=None,
        ls_request=0.0,
        exclusive_cpus=0.0,
        be_allowance=0.0,
        memory_total=100 * GIB,
        memory_reserved=3 * GIB,
    )


@pytest.mark.parametrize("reading", [READING, OLD])
def test_the_plan_names_the_pods_whose_limit_is_raised(reading):
    busy = replace(reading, pods=(ls("web", usage=1.4, limit=1.0), ls("other", usage=0.1)))
    bursts = (BURST, replace(BURST, pod="shop/other", base_limit=3.0, observed=True))
    plan = decided(replace(busy, node=replace(busy.node, cpu_usage=2.0)), State(time=NOW - 1, bursts=bursts))
    assert plan.raised == ("shop/web",)


# -- paused --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reading", [READING, OLD])
def test_paused_bursts_end_and_nothing_else_changes(reading):
    plan = decided(replace(reading, paused=True), STATE)
    assert [(type(action), action.pod, action.cores) for action in plan.actions] == [(RestoreCpuLimit, "shop/web", 1.0)]
    assert plan.degraded[-1] == "paused"
    after = remembered(replace(reading, paused=True), STATE)
    assert (after.be_limit, after.suppress_level, after.bursts, after.below_since) == (4.0, Level.CRITICAL, (), None)
    assert decided(replace(reading, paused=True), after).actions == ()


def test_a_pod_may_burst_again_after_the_pause_and_its_cooldown():
    state = remembered(replace(READING, paused=True), STATE)
    web = snapshot(ls("web", usage=1.0, limit=1.0), cpu_usage=1.0)
    assert of_kind(decided(replace(web, time=NOW + 29), state), SetCpuLimit) == []
    assert of_kind(decided(replace(web, time=NOW + 30), state), SetCpuLimit) != []


def test_paused_the_burst_of_a_pod_that_is_not_seen_ends_at_the_limit_it_began_at():
    state = replace(STATE, bursts=(replace(BURST, pod="shop/unseen"),))
    plan = decided(replace(READING, paused=True), state)
    assert [(type(action), action.pod, action.cores) for action in plan.actions] == [(RestoreCpuLimit, "shop/unseen", 1.0)]


# -- standing properties -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reading",
    [
        READING,
        OLD,
        BLIND,
        replace(READING, paused=True),
        replace(READING, pods=(*PODS, failing_node_qos_resource())),
        replace(READING, node=replace(READING.node, memory_total=None)),
    ],
    ids=["fresh", "stale", "blind", "paused", "failed", "memory not measured"],
)
def test_standing_properties_hold_whatever_a_cycle_decides(reading):
    assert decided(reading, STATE).standing == STANDING


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.OBSERVE])
def test_each_standing_property_stands_with_its_plugin(mode):
    def standing(**plugins):
        return decided(READING, STATE, Settings(**plugins)).standing

    node, suppress = NodeQosResourceSettings(mode=mode), CpuSuppressSettings(mode=mode)
    assert standing(node_qos_resource=node) == replace(STANDING, be_weight=False)
    assert standing(memory_evict=MemoryEvictSettings(mode=mode)) == replace(STANDING, oom_score_adj=None)
    assert standing(node_qos_resource=node, cpu_suppress=suppress) == replace(STANDING, be_weight=False, exclusive_cpus=())
    assert standing(memory_evict=MemoryEvictSettings(oom_score_adjust=500)).oom_score_adj == 500


# -- failures ------------------------------------------------------------------------------------------------------------------


def test_a_plugin_that_fails_is_named_and_the_others_run():
    plan = decided(snapshot(failing_cpu_burst(), cpu_usage=1.0))
    assert [(failure.plugin, "TypeError" in failure.error) for failure in plan.failures] == [(Plugin.CPU_BURST, True)]
    assert plan.degraded == ("CPUBurst_failed",)
    assert kinds(plan) == [SetBeCpuLimit]


def test_a_failure_evicts_nobody_even_with_oom_risk():
    plan = decided(replace(READING, pods=(*PODS, failing_node_qos_resource())), STATE)
    assert of_kind(plan, Evict) == []
    assert of_kind(plan, SetCpuLimit) == []


def test_when_cpu_burst_fails_an_observed_burst_claims_nothing():
    burst = replace(BURST, pod="shop/free", limit=9.0, observed=True)
    reading = snapshot(failing_cpu_burst(), ls("free", usage=1.0), cpu_usage=2.0)
    assert [action.cores for action in of_kind(decided(reading, State(bursts=(burst,))), SetBeCpuLimit)] == [14.0]


def test_a_failure_lasts_for_its_cycle():
    state = remembered(replace(READING, pods=(*PODS, failing_node_qos_resource())), STATE)
    assert of_kind(decided(replace(READING, time=NOW + 1), state), Evict) != []


# -- observing -----------------------------------------------------------------------------------------------------------------

ALL = {
    "node_qos_resource": NodeQosResourceSettings,
    "system_qos_resource": SystemQosResourceSettings,
    "cpu_burst": CpuBurstSettings,
    "cpu_suppress": CpuSuppressSettings,
    "cpu_evict": CpuEvictSettings,
    "memory_evict": MemoryEvictSettings,
}
PLUGIN = dict(zip(ALL, Plugin, strict=True))


@pytest.mark.parametrize("name", [name for name in ALL if name != "cpu_suppress"])
def test_a_plugin_that_observes_leaves_the_others_as_if_it_were_off(name):
    fresh = replace(STATE, bursts=())

    def others(mode):
        plan = decided(READING, fresh, Settings(**{name: ALL[name](mode=mode)}))
        return [action for action in plan.actions if action.plugin is not PLUGIN[name]]

    assert others(Mode.OBSERVE) == others(Mode.OFF)


def test_all_observing_acts_on_nothing():
    settings = Settings(**{name: kind(mode=Mode.OBSERVE) for name, kind in ALL.items()})
    plan = decided(READING, State(time=NOW - 1), settings)
    assert plan.actions
    assert {action.mode for action in plan.actions} == {Mode.OBSERVE}
    assert plan.standing == Standing()
    assert remembered(READING, State(time=NOW - 1), settings).pending == ()


def test_all_off_decides_nothing():
    settings = Settings(**{name: kind(mode=Mode.OFF) for name, kind in ALL.items()})
    plan = decided(READING, State(time=NOW - 1), settings)
    assert (plan.actions, plan.standing) == ((), Standing())


def test_plugins_left_out_of_the_list_do_nothing():
    plan = decided(READING, State(time=NOW - 1), Settings(plugins=()))
    assert (plan.actions, plan.standing) == ((), Standing())
