"""CPUBurst (specification, section 5.3)."""

import pytest

from builders import NOW, be, decided, failing_node_qos_resource, ls, of_kind, remembered, rules, snapshot
from qosmanager.config.settings import CpuBurstSettings, CpuSuppressSettings, Settings, Strategy, SystemReserved
from qosmanager.model.actions import RestoreCpuLimit, SetBeCpuLimit, SetCpuLimit
from qosmanager.model.qos import Mode, Plugin, QoS
from qosmanager.model.state import Burst, State


def burst(**more):
    return Burst(**{"pod": "shop/api", "base_limit": 2.0, "limit": 3.0, "started": NOW - 5, **more})


def settings(**more):
    return Settings(cpu_burst=CpuBurstSettings(**more))


def granted(plan):
    return {action.pod: action.cores for action in of_kind(plan, SetCpuLimit)}


def restored(plan):
    return {action.pod: action.cores for action in of_kind(plan, RestoreCpuLimit)}


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"usage": 1.8}, {"shop/api": 3.0}),
        ({"usage": 1.79}, {}),
        ({"usage": 0.1, "throttled": 0.051}, {"shop/api": 3.0}),
        ({"usage": 0.1, "throttled": 0.05}, {}),
        ({"throttled": 0.5}, {}),  # usage not measured: nothing to add headroom to
    ],
)
def test_a_pod_at_its_limit_or_throttled_bursts(figures, expected):
    assert granted(decided(snapshot(ls(limit=2.0, **figures), cpu_usage=2.0))) == expected


def test_without_a_limit_there_is_nothing_to_raise():
    assert granted(decided(snapshot(ls(usage=5.0, throttled=0.5), cpu_usage=5.0))) == {}


@pytest.mark.parametrize(("qos", "bursts"), [(QoS.LS, True), (QoS.LSR, True), (QoS.LSE, False), (QoS.BE, False), (QoS.SYSTEM, False)])
def test_only_ls_and_lsr_pods_burst(qos, bursts):
    assert bool(granted(decided(snapshot(ls(qos=qos, limit=2.0, usage=2.0), cpu_usage=2.0)))) is bursts


@pytest.mark.parametrize(
    ("node", "expected"),
    [(11.1, 3.0), (11.2, 2.6), (12.8, 2.6), (12.81, None)],  # idle 30.6, 30, 20, 19.9 percent of 16
)
def test_the_ratio_follows_the_idle_share(node, expected):
    assert granted(decided(snapshot(ls(limit=2.0, usage=2.0), cpu_usage=node))).get("shop/api") == pytest.approx(expected)


def test_a_busy_node_refuses_with_its_numbers():
    plan = decided(snapshot(ls(limit=2.0, usage=2.0), cpu_usage=15.0))
    assert [(refusal.pod, refusal.rule) for refusal in plan.refusals] == [("shop/api", "node-idle")]
    assert "6.2%" in plan.refusals[0].reason


def test_the_new_limit_ends_at_usage_and_headroom():
    # 16 - 1 reserved - 2 - 12.4 = 0.6 of headroom.
    plan = decided(
        snapshot(ls(limit=2.0, usage=2.0), be(usage=12.4), cpu_usage=12.4),
        settings=Settings(system_reserved=SystemReserved(cpu=1.0), cpu_burst=CpuBurstSettings(min_node_cpu_idle=0.1)),
    )
    assert granted(plan) == {"shop/api": pytest.approx(2.6)}


def test_with_a_pod_that_is_not_measured_batch_that_makes_way_is_room_all_the_same():
    # 15 of the 16 are in use: LS 2, BE 12 and at most 1 that nobody knows of. All of BE's but its floor of 0.1 makes way.
    plan = decided(
        snapshot(ls(limit=2.0, usage=2.0), be(usage=12.0), be("blind"), cpu_usage=15.0),
        settings=Settings(cpu_suppress=CpuSuppressSettings(strategy=Strategy.USAGE), cpu_burst=CpuBurstSettings(min_node_cpu_idle=0.1)),
    )
    assert granted(plan) == {"shop/api": pytest.approx(3.0)}


def test_batch_makes_way_down_to_its_floor():
    # 13 of the 16 cores are the system's; LS uses 2, and BE 0.5 of which it gives up 0.4: 3 - 2 - 0.1 are left.
    settings_ = Settings(
        cpu_suppress=CpuSuppressSettings(strategy=Strategy.USAGE), cpu_burst=CpuBurstSettings(min_node_cpu_idle=0.05, burst_ratio=2.0)
    )
    plan = decided(snapshot(ls(limit=2.0, usage=2.0), be(usage=0.5), cpu_usage=15.5), settings=settings_)
    assert granted(plan) == {"shop/api": pytest.approx(2.9)}


@pytest.mark.parametrize(("headroom", "grants"), [(0.0201, True), (0.02, False)])
def test_a_grant_is_worth_more_than_one_percent(headroom, grants):
    plan = decided(snapshot(ls(limit=2.0, usage=2.0), be(usage=14.0 - headroom), cpu_usage=8.0))
    assert bool(granted(plan)) is grants
    assert ("headroom" in rules(plan)) is not grants


def test_headroom_is_given_lsr_first_then_by_priority_then_by_throttling():
    # 2.5 cores of headroom, each pod takes 1 of it: usage 2, limit 2, new limit 3.
    pods = (
        ls("a", limit=2.0, usage=2.0, priority=5, throttled=0.1),
        ls("b", limit=2.0, usage=2.0, priority=5, throttled=0.2),
        ls("c", limit=2.0, usage=2.0, priority=9),
        ls("d", QoS.LSR, limit=2.0, usage=2.0, priority=1),
    )
    plan = decided(snapshot(*pods, be(usage=5.5), cpu_usage=8.0))
    assert list(granted(plan)) == ["shop/d", "shop/c", "shop/b"]
    assert granted(plan)["shop/b"] == pytest.approx(2.5)


def test_a_pod_whose_throttling_is_unknown_comes_after_one_that_is_throttled():
    pods = (ls("a", limit=2.0, usage=2.0), ls("b", limit=2.0, usage=2.0, throttled=0.1))
    assert list(granted(decided(snapshot(*pods, be(usage=11.5), cpu_usage=8.0)))) == ["shop/b"]


def test_each_grant_takes_no_more_than_it_adds_to_the_usage():
    # 1 core of headroom. a is above 1.5 x its limit already and takes none, b takes 0.75 - 0.5: 0.75 are left for c.
    pods = (
        ls("a", limit=1.0, usage=2.0, priority=3),
        ls("b", limit=0.5, usage=0.5, priority=2),
        ls("c", limit=2.0, usage=2.0, priority=1),
    )
    plan = decided(snapshot(*pods, be(usage=10.5), cpu_usage=8.0))
    assert granted(plan) == {"shop/a": 1.5, "shop/b": 0.75, "shop/c": pytest.approx(2.75)}


def test_equal_pods_take_turns_by_name():
    pods = (ls("b", limit=2.0, usage=2.0), ls("a", limit=2.0, usage=2.0))
    assert list(granted(decided(snapshot(*pods, be(usage=11.5), cpu_usage=8.0)))) == ["shop/a"]


def test_a_kept_burst_takes_its_headroom_first():
    # The burst may still take 3 - 1.9 = 1.1 of the 1.3 of headroom: web gets 2 + 0.2.
    pods = (ls(limit=2.0, usage=1.9), ls("web", limit=2.0, usage=2.0))
    plan = decided(snapshot(*pods, be(usage=10.8), cpu_usage=8.0), State(bursts=(burst(),)))
    assert granted(plan) == {"shop/web": pytest.approx(2.2)}


@pytest.mark.parametrize(("usage", "batch"), [(None, 10.5), (3.0, 10.5), (3.1, 10.4)])
def test_a_kept_burst_holds_all_of_its_limit_while_it_is_not_measured_and_nothing_when_it_is_used_up(usage, batch):
    # 16 - 2 - 10.5 = 3.5 less 3; 16 - 3 - 2 - 10.5 = 0.5 less nothing.
    pods = (ls(limit=2.0, usage=usage), ls("web", limit=2.0, usage=2.0))
    plan = decided(snapshot(*pods, be(usage=batch), cpu_usage=8.0), State(bursts=(burst(),)))
    assert granted(plan) == {"shop/web": pytest.approx(2.5)}


def test_a_pod_in_a_burst_gets_no_other():
    plan = decided(snapshot(ls(limit=2.0, usage=2.9), cpu_usage=2.9), State(bursts=(burst(),)))
    assert [type(action) for action in plan.actions] == [SetBeCpuLimit]


@pytest.mark.parametrize(("age", "ends"), [(9.9, False), (10.0, True)])
def test_a_burst_ends_after_its_duration(age, ends):
    reading = snapshot(ls(limit=2.0, usage=2.9), cpu_usage=2.9)
    plan = decided(reading, State(bursts=(burst(started=NOW - age),)))
    assert restored(plan) == ({"shop/api": 2.0} if ends else {})


@pytest.mark.parametrize(
    ("figures", "calm_for", "ends"),
    [
        ({"usage": 1.79}, 3.0, True),
        ({"usage": 1.79}, 2.9, False),
        ({"usage": 1.8}, 3.0, False),
        ({"usage": 1.0, "throttled": 0.05}, 3.0, True),
        ({"usage": 1.0, "throttled": 0.06}, 3.0, False),
        ({}, 3.0, False),
    ],
)
def test_a_burst_ends_when_calm_for_three_seconds(figures, calm_for, ends):
    plan = decided(snapshot(ls(limit=2.0, **figures), cpu_usage=2.0), State(bursts=(burst(calm_since=NOW - calm_for),)))
    assert bool(restored(plan)) is ends


def test_calm_is_measured_against_the_pods_own_limit_and_broken_by_use():
    kept = remembered(snapshot(ls(limit=2.0, usage=1.0), cpu_usage=1.0), State(bursts=(burst(),)))
    assert kept.bursts[0].calm_since == NOW
    broken = remembered(snapshot(ls(limit=2.0, usage=1.9), cpu_usage=1.0), State(bursts=(burst(calm_since=NOW - 2),)))
    assert broken.bursts[0].calm_since is None


def test_calm_does_not_last_through_a_gap():
    state = State(time=NOW - 60, bursts=(burst(started=NOW - 5, calm_since=NOW - 5),))
    assert restored(decided(snapshot(ls(limit=2.0, usage=1.0), cpu_usage=1.0), state)) == {}


@pytest.mark.parametrize(("node", "ends"), [(14.4, False), (14.41, True)])
def test_a_burst_ends_when_idle_is_under_half_of_the_minimum(node, ends):
    assert bool(restored(decided(snapshot(ls(limit=2.0, usage=2.9), cpu_usage=node), State(bursts=(burst(),))))) is ends


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.OBSERVE])
def test_a_burst_ends_when_the_plugin_no_longer_enforces(mode):
    plan = decided(snapshot(ls(limit=2.0, usage=2.9), cpu_usage=2.9), State(bursts=(burst(),)), settings(mode=mode))
    ends = of_kind(plan, RestoreCpuLimit)
    assert [(action.cores, action.mode) for action in ends] == [(2.0, Mode.ENFORCE)]
    assert granted(plan) == {}


def test_a_burst_ends_when_the_pods_own_limit_changes_and_the_new_one_is_written():
    assert restored(decided(snapshot(ls(limit=4.0, usage=2.9), cpu_usage=2.9), State(bursts=(burst(),)))) == {"shop/api": 4.0}


def test_a_pod_whose_burst_ends_gets_no_new_one_in_that_cycle_and_cools_down():
    reading = snapshot(ls(limit=2.0, usage=2.9), cpu_usage=2.9)
    state = State(bursts=(burst(started=NOW - 10),))
    plan = decided(reading, state, settings(burst_cooldown=0.0))
    assert (restored(plan), granted(plan)) == ({"shop/api": 2.0}, {})
    after = remembered(reading, state)
    assert (after.bursts, after.burst_cooldown_until) == ((), {"shop/api": NOW + 30})


@pytest.mark.parametrize(("until", "grants"), [(NOW + 0.1, False), (NOW, True), (NOW - 1, True), (None, True)])
def test_a_cooldown_is_over_at_equality(until, grants):
    state = State(burst_cooldown_until={"shop/api": until})
    plan = decided(snapshot(ls(limit=2.0, usage=2.0), cpu_usage=2.0), state)
    assert bool(granted(plan)) is grants
    assert ("cooldown" in rules(plan)) is not grants


def test_cooldowns_that_are_over_are_forgotten():
    state = State(burst_cooldown_until={"shop/api": NOW - 1, "shop/web": NOW + 9})
    assert remembered(snapshot(cpu_usage=2.0), state).burst_cooldown_until == {"shop/web": NOW + 9}


def test_restores_come_before_grants():
    pods = (ls(limit=2.0, usage=2.9), ls("web", limit=2.0, usage=2.0))
    plan = decided(snapshot(*pods, cpu_usage=5.0), State(bursts=(burst(started=NOW - 10),)))
    assert [type(action) for action in plan.actions] == [RestoreCpuLimit, SetCpuLimit, SetBeCpuLimit]


def test_what_a_burst_gives_back_is_headroom_for_the_next():
    # 16 - 2.9 - 2 - 10.2 = 0.9 of headroom, none of it held by the burst that ends.
    pods = (ls(limit=2.0, usage=2.9), ls("web", limit=2.0, usage=2.0))
    plan = decided(snapshot(*pods, be(usage=10.2), cpu_usage=8.0), State(bursts=(burst(started=NOW - 10),)))
    assert granted(plan) == {"shop/web": pytest.approx(2.9)}


def test_a_burst_of_a_pod_that_is_gone_is_forgotten():
    state = State(bursts=(burst(),))
    assert remembered(snapshot(cpu_usage=1.0), state).bursts == ()
    assert restored(decided(snapshot(cpu_usage=1.0), state)) == {}


def test_a_pod_made_again_under_the_same_name_does_not_inherit_the_burst():
    state = State(bursts=(burst(uid="old"),))
    reading = snapshot(ls(uid="new", limit=2.0, usage=0.5), cpu_usage=1.0)
    assert remembered(reading, state).bursts == ()
    assert decided(reading, state).actions[0] == decided(reading, State()).actions[0]


@pytest.mark.parametrize("uid", ["u1", ""])
def test_a_burst_of_the_same_pod_goes_on(uid):
    # Without a uid (a hand-written state) the name is enough.
    kept = remembered(snapshot(ls(uid="u1", limit=2.0, usage=1.9), cpu_usage=2.0), State(bursts=(burst(uid=uid),)))
    assert kept.bursts == (burst(uid=uid),)


def test_a_pod_that_is_gone_takes_no_other_burst_with_it():
    state = State(bursts=(burst(pod="shop/gone"), burst()))
    assert remembered(snapshot(ls(limit=2.0, usage=1.9), cpu_usage=2.0), state).bursts == (burst(),)


def test_a_new_burst_remembers_whose_it_is():
    assert remembered(snapshot(ls(uid="u1", limit=2.0, usage=2.0), cpu_usage=2.0)).bursts == (
        Burst(pod="shop/api", base_limit=2.0, limit=3.0, uid="u1", started=NOW),
    )


def test_a_burst_whose_start_is_unknown_is_over():
    assert restored(decided(snapshot(ls(limit=2.0, usage=2.9), cpu_usage=2.9), State(bursts=(burst(started=None),)))) == {"shop/api": 2.0}


def test_a_burst_from_before_the_clock_went_back_ends():
    state = State(time=NOW + 3600, bursts=(burst(started=NOW + 3600),))
    assert restored(decided(snapshot(ls(limit=2.0, usage=2.9), cpu_usage=2.9), state)) == {"shop/api": 2.0}


def test_a_pod_that_is_not_measured_makes_no_room():
    # 3 cores are unaccounted for; node use is 14 of 16.
    pods = (ls(limit=2.0, usage=2.0), ls("blind"))
    plan = decided(snapshot(*pods, be(usage=9.0), cpu_usage=14.0), settings=settings(min_node_cpu_idle=0.0))
    assert granted(plan) == {"shop/api": pytest.approx(2.6)}  # 1.3 x 2, inside 2 + (16 - 14)
    plan = decided(snapshot(*pods, be(usage=9.0), cpu_usage=15.7), settings=settings(min_node_cpu_idle=0.0))
    assert granted(plan) == {"shop/api": pytest.approx(2.3)}


def test_what_the_system_uses_is_not_taken_for_a_pod_that_is_not_measured():
    # 15.5 of the node less 1 of the system leave 15 - 14.5 of headroom.
    pods = (ls(limit=2.0, usage=2.0), ls("blind"), be(usage=9.0))
    plan = decided(snapshot(*pods, cpu_usage=15.5), State(time=NOW - 1, system_usage=1.0), settings(min_node_cpu_idle=0.0))
    assert granted(plan) == {"shop/api": pytest.approx(2.5)}


def test_observed_bursts_share_the_headroom_and_are_not_in_force():
    pods = (ls("a", limit=2.0, usage=2.0), ls("b", limit=2.0, usage=2.0))
    reading = snapshot(*pods, be(usage=10.8), cpu_usage=8.0)  # 1.2 of headroom
    plan = decided(reading, settings=settings(mode=Mode.OBSERVE))
    assert granted(plan) == {"shop/a": pytest.approx(3.0), "shop/b": pytest.approx(2.2)}
    assert {action.mode for action in of_kind(plan, SetCpuLimit)} == {Mode.OBSERVE}
    assert all(one.observed for one in remembered(reading, settings=settings(mode=Mode.OBSERVE)).bursts)


def test_an_observed_burst_claims_nothing_from_batch():
    reading = snapshot(ls(limit=2.0, usage=2.0, request=2.0), cpu_usage=2.0)
    off = of_kind(decided(reading, settings=settings(mode=Mode.OFF)), SetBeCpuLimit)
    observed = of_kind(decided(reading, settings=settings(mode=Mode.OBSERVE)), SetBeCpuLimit)
    enforced = of_kind(decided(reading, settings=settings(mode=Mode.ENFORCE)), SetBeCpuLimit)
    assert [action.cores for action in off] == [action.cores for action in observed] == [14.0]
    assert [action.cores for action in enforced] == [13.0]


def test_an_observed_burst_does_not_raise_what_a_pod_may_want():
    reading = snapshot(ls(limit=2.0, usage=2.0, request=2.0, wait=9.0), cpu_usage=2.0)
    observed = of_kind(decided(reading, State(bursts=(burst(observed=True),)), settings(mode=Mode.OBSERVE)), SetBeCpuLimit)
    assert [action.cores for action in observed] == [14.0]


def test_an_observed_burst_is_taken_for_real_once_the_plugin_enforces():
    reading = snapshot(ls(limit=2.0, usage=2.0), cpu_usage=2.0)
    state = State(time=NOW - 1, bursts=(burst(observed=True),))
    first = decided(reading, state)
    assert [action.mode for action in of_kind(first, RestoreCpuLimit)] == [Mode.OBSERVE]
    assert granted(first) == {}


def test_a_raised_limit_is_claimed_from_batch_while_the_burst_lasts():
    state = State(bursts=(burst(),))
    reading = snapshot(ls(limit=2.0, usage=1.9, request=1.0), cpu_usage=2.0)
    # System use 0.1: 15.9 - 3.
    assert [action.cores for action in of_kind(decided(reading, state), SetBeCpuLimit)] == [pytest.approx(12.9)]


def test_after_a_failure_no_burst_is_granted():
    plan = decided(snapshot(failing_node_qos_resource(), ls(limit=2.0, usage=2.0), cpu_usage=2.0))
    assert [failure.plugin for failure in plan.failures] == [Plugin.NODE_QOS_RESOURCE]
    assert granted(plan) == {}
    assert "plugin-failed" in rules(plan)
