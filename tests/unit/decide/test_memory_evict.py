"""MemoryEvict (specification, section 5.6)."""

import pytest
from msgspec.structs import replace

from builders import GIB, MB, NOW, be, decided, failing_node_qos_resource, ls, of_kind, remembered, rules, slow, snapshot
from qosmanager.config.settings import CpuEvictSettings, MemoryEvictSettings, Settings, Smoothing, VictimOrder
from qosmanager.model.actions import Evict
from qosmanager.model.qos import Level, Mode, Plugin, QoS
from qosmanager.model.state import Bucket, Moment, Pending, State

# 100 GiB, 9 of them available: under minAvailable. relief = 100 x 0.2 - 9 = 11.
BATCH = (be("a", rss=4 * GIB), be("b", rss=6 * GIB), be("c", rss=5 * GIB))


def node(*pods, available=9 * GIB, total=100 * GIB, **more):
    return snapshot(*pods, cpu_usage=1.0, memory_total=total, memory_available=available, **more)


def settings(**more):
    return Settings(memory_evict=MemoryEvictSettings(**more))


def victims(reading, state=None, wanted=None):
    return [action.pod.partition("/")[2] for action in of_kind(decided(reading, state, wanted), Evict)]


# -- triggers ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("available", "short", "expected"), [(10, False, False), (9.9, False, True), (15, True, True), (15.1, True, False)]
)
def test_memory_is_short_under_a_tenth_until_above_one_and_a_half_tenths(available, short, expected):
    reading = node(*BATCH, available=int(available * GIB))
    assert bool(victims(reading, State(memory_short=short))) is expected
    assert remembered(reading, State(memory_short=short)).memory_short is expected


def test_min_available_is_a_setting():
    assert victims(node(*BATCH, available=19 * GIB), wanted=settings(min_available=0.2)) == ["b"]
    assert victims(node(*BATCH), wanted=settings(min_available=0.0)) == []


# With swap: usage 89 x 0.35 = 31.15, growth 25, reclaim 20, swap 90 x 0.2 = 18: 94.15.
PRESSED = {"ls_memory_growth": 20.0, "pgscan_direct": 5000.0, "pgscan_kswapd": 0.0, "swap_total": 10 * GIB, "swap_used": 9 * GIB}


def test_a_score_above_the_threshold_is_a_trigger():
    reading = node(*BATCH, available=11 * GIB, **PRESSED)
    assert victims(reading, wanted=settings(evict_threshold=94.0)) == ["b"]
    assert victims(reading, wanted=settings(evict_threshold=94.15, min_available=0.01)) == ["b"]  # LS grows, and the score is above 80


@pytest.mark.parametrize(("growth", "expected"), [(5.1, ["b"]), (5.0, [])])
def test_a_high_score_with_abnormal_growth_is_a_trigger(growth, expected):
    # 31.15 + 5.1 x 1.25 + 20 + 18 = 75.5, above a `high` of 75; the threshold itself is out of reach.
    wanted = Settings(
        memory_pressure=replace(Settings().memory_pressure, high=75.0, medium=70.0), memory_evict=MemoryEvictSettings(evict_threshold=99.0)
    )
    assert victims(node(*BATCH, available=11 * GIB, **{**PRESSED, "ls_memory_growth": growth}), wanted=wanted) == expected


def test_with_smoothing_the_mean_must_be_above_as_well():
    wanted = Settings(smoothing=Smoothing(window=300.0))
    reading = node(*BATCH, available=11 * GIB, **PRESSED)
    calm = State(time=NOW - 1, smoothing=(Bucket(start=NOW - 60, count=60, cpu=0.0, memory=60 * 50.0),))
    busy = State(time=NOW - 1, smoothing=(Bucket(start=NOW - 60, count=60, cpu=0.0, memory=60 * 95.0),))
    assert victims(reading, calm, wanted) == []
    assert victims(reading, busy, wanted) == ["b"]


def test_who_could_not_be_evicted_is_passed_over_for_the_termination_timeout():
    refused = State(unfit_since={"batch/b": NOW - 29.9})
    assert victims(node(*BATCH), refused) == ["c"]
    assert [r.reason for r in decided(node(*BATCH), refused).refusals if r.pod == "batch/b"] == ["it could not be evicted 30 s ago"]
    assert remembered(node(*BATCH), refused).unfit_since == {"batch/b": NOW - 29.9}
    over = State(unfit_since={"batch/b": NOW - 30})
    assert victims(node(*BATCH), over) == ["b"]
    assert remembered(node(*BATCH), over).unfit_since == {}


def test_that_a_pod_could_not_be_evicted_says_nothing_of_its_successor():
    refused = State(unfit_since={"old": NOW - 5})
    assert victims(node(be("b", rss=6 * GIB, uid="old")), refused) == []
    assert victims(node(be("b", rss=6 * GIB, uid="new")), refused) == ["b"]


def test_enough_memory_evicts_nobody():
    assert decided(node(*BATCH, available=50 * GIB)).refusals == ()
    assert victims(node(*BATCH, available=50 * GIB)) == []


def test_memory_that_is_not_measured_evicts_nobody_and_keeps_what_was_known():
    reading = snapshot(*BATCH, cpu_usage=1.0)
    assert victims(reading, State(memory_short=True)) == []
    assert remembered(reading, State(memory_short=True)).memory_short


@pytest.mark.parametrize(
    "wanted",
    [
        settings(mode=Mode.OFF),
        Settings(plugins=tuple(plugin for plugin in Plugin if plugin is not Plugin.MEMORY_EVICT)),
    ],
)
def test_switched_off_nobody_is_evicted(wanted):
    assert victims(node(*BATCH, available=GIB), wanted=wanted) == []
    assert remembered(node(*BATCH), State(memory_short=True), wanted).memory_short is False


def test_after_a_failure_nobody_is_evicted():
    plan = decided(node(failing_node_qos_resource(), *BATCH, available=GIB))
    assert plan.failures
    assert of_kind(plan, Evict) == []


# -- how much ------------------------------------------------------------------------------------------------------------------


def test_one_at_a_time_largest_first():
    plan = decided(node(*BATCH))
    (action,) = of_kind(plan, Evict)
    assert (action.pod, action.memory, action.grace, action.leaking, action.growth) == ("batch/b", 6 * GIB, None, False, None)
    assert "11.00 GiB" in plan.actions[-1].reason


def need(reading, wanted=None):
    """Return what is needed in GiB, as the reason says it."""
    (action,) = of_kind(decided(reading, None, wanted), Evict)
    return float(action.reason.partition("need ")[2].partition(" GiB")[0])


def test_the_need_is_the_relief_or_what_ls_has_asked_for_and_not_yet_taken():
    # outstanding 20 - 1; 1.3 x (19 - 9) = 13 against a relief of 11. Who is not measured or holds more than its request counts 0.
    services = (ls("x", memory_request=20 * GIB, rss=GIB), ls("y", memory_request=9 * GIB), ls("z", memory_request=GIB, rss=9 * GIB))
    assert need(node(*services, *BATCH)) == 13.0
    assert need(node(*BATCH)) == 11.0


def test_the_relief_follows_the_target():
    assert need(node(*BATCH), settings(target_utilization=0.7)) == 21.0


def test_what_is_terminating_is_less_to_free_and_holds_the_next_back():
    going = be("gone", rss=2 * GIB, terminating=True)
    found = decided(node(*BATCH, going))
    assert of_kind(found, Evict) == []
    assert "pending-release" in rules(found)


@pytest.mark.parametrize(("since", "expected"), [(NOW - 29.9, []), (NOW - 30, ["b"])])
def test_one_that_does_not_end_in_time_no_longer_holds_the_next_back(since, expected):
    state = State(time=NOW - 1, memory_short=True, terminating_since={"batch/gone": since})
    assert victims(node(*BATCH, be("gone", rss=2 * GIB, terminating=True)), state) == expected


@pytest.mark.parametrize(("since", "expected"), [(NOW - 29.9, []), (NOW - 30, ["b"])])
def test_what_is_on_its_way_covers_the_need_until_its_time_to_end_is_over(since, expected):
    state = State(time=NOW - 1, terminating_since={"batch/gone": since})
    assert victims(node(*BATCH, be("gone", rss=11 * GIB, terminating=True)), state) == expected


def test_a_victim_of_ours_holds_the_next_back_until_it_is_gone():
    state = remembered(node(*BATCH))
    assert [(one.pod, one.memory) for one in state.pending] == [("batch/b", 6 * GIB)]
    assert state.terminating_since == {"batch/b": NOW}
    later = replace(node(*BATCH), time=NOW + 29)
    assert victims(later, state) == []
    assert victims(replace(later, time=NOW + 30), remembered(later, state)) == ["c"]


def test_a_victim_is_named_and_remembered_with_all_that_its_end_frees():
    pods = (be("b", uid="u1", usage=0.5, rss=6 * GIB), be("c", uid="u2", rss=5 * GIB))
    reading = node(*pods, available=2 * GIB)
    assert [(action.pod, action.uid, action.cpu, action.memory) for action in of_kind(decided(reading), Evict)] == [
        ("batch/b", "u1", 0.5, 6 * GIB),
        ("batch/c", "u2", None, 5 * GIB),
    ]
    assert remembered(reading).pending == (
        Pending(pod="batch/b", since=NOW, uid="u1", cpu=0.5, memory=6 * GIB),
        Pending(pod="batch/c", since=NOW, uid="u2", cpu=0.0, memory=5 * GIB),
    )


def test_without_a_time_one_that_terminates_holds_the_next_back():
    assert victims(node(*BATCH, be("gone", rss=2 * GIB, terminating=True), time=None)) == []
    state = State(terminating_since={"batch/gone": 0.0})
    assert victims(node(*BATCH, be("gone", rss=2 * GIB, terminating=True), time=None), state) == ["b"]


@pytest.mark.parametrize("time", [NOW, None])
def test_whom_cpu_evict_chose_frees_memory_too(time):
    # As in the tests of CPUEvict: 95 points, EMERGENCY; x goes for its CPU, so memory waits.
    state = State(be_limit=4.0, suppress_level=Level.CRITICAL)
    pods = (slow(usage=12.0, request=8.0, wait=3.0), be("x", usage=4.0, rss=GIB), be("y", usage=0.0, rss=6 * GIB))
    reading = replace(node(*pods, cpus=16.0), time=time)
    reading = replace(reading, node=replace(reading.node, cpu_usage=16.0, load1=16.0))
    assert victims(reading, state) == ["x"]
    # When CPUEvict only observes, nothing of that is on its way.
    wanted = Settings(cpu_evict=CpuEvictSettings(mode=Mode.OBSERVE))
    assert [(action.pod, action.mode) for action in of_kind(decided(reading, state, wanted), Evict)] == [
        ("batch/x", Mode.OBSERVE),
        ("batch/y", Mode.ENFORCE),
    ]


# -- OOM risk ------------------------------------------------------------------------------------------------------------------


def test_with_oom_risk_as_many_go_at_once_as_it_takes():
    # relief 20 - 2 = 18, more than the 15 there are; 2 are on their way already.
    assert victims(node(*BATCH, available=2 * GIB)) == ["b", "c", "a"]
    # relief 10: b and c cover it.
    wanted = settings(target_utilization=0.88)
    assert victims(node(*BATCH, available=2 * GIB), wanted=wanted) == ["b", "c"]
    assert victims(node(*BATCH, be("gone", rss=4 * GIB, terminating=True), available=2 * GIB), wanted=wanted) == ["b"]


@pytest.mark.parametrize(("seconds", "grace"), [(40, 20.0), (4, 2.0)])
def test_the_grace_is_at_most_half_the_forecast(seconds, grace):
    found = of_kind(decided(node(*BATCH, memory_available_trend=-9 * GIB / seconds)), Evict)
    assert [action.grace for action in found] == pytest.approx([grace] * len(found))
    assert found


@pytest.mark.parametrize(
    ("ago", "before", "grace"),
    # 1 GiB is left: at 2 GiB in a second for half a second, at 1 GiB in two for two, at 3 in three for one; what lies further back, or took
    # no time, or was less, says nothing, and a fall of an eighth of what is left is jitter.
    [
        (1.0, 3 * GIB, 0.25),
        (2.0, 2 * GIB, 1.0),
        (3.0, 4 * GIB, 0.5),
        (3.1, 4 * GIB, None),
        (0.0, 3 * GIB, None),
        (1.0, GIB, None),
        (0.1, GIB + GIB // 8, None),
    ],
)
def test_where_memory_falls_right_now_the_grace_is_half_of_what_it_lasts(ago, before, grace):
    past = (Moment(time=NOW - ago, cpu_score=1.0, memory_available=before),)
    found = of_kind(decided(node(*BATCH, available=GIB), State(recent=past)), Evict)
    assert [action.grace for action in found] == [grace] * 3


def test_without_a_forecast_the_grace_is_the_pods_own():
    assert {action.grace for action in of_kind(decided(node(*BATCH, available=GIB)), Evict)} == {None}


def test_without_oom_risk_a_forecast_shortens_nothing():
    assert {action.grace for action in of_kind(decided(node(*BATCH, memory_available_trend=-1.0)), Evict)} == {None}


def test_oom_risk_does_not_evict_when_enough_is_left():
    # 25 of 100 GiB in 50 s: risk, but nobody has asked for it and 80 percent are not reached.
    found = decided(node(*BATCH, available=25 * GIB, memory_available_trend=-GIB / 2))
    assert of_kind(found, Evict) == []
    assert "no-need" in rules(found)


# -- leaks ---------------------------------------------------------------------------------------------------------------------


def leaking(name, rss, growth=5.1 * MB, **more):
    return be(name, rss=rss, growth=growth, **more)


def test_a_leaking_pod_that_holds_a_tenth_of_the_need_goes_first():
    found = of_kind(decided(node(*BATCH, leaking("l", int(1.1 * GIB) + 1))), Evict)
    assert [(action.pod, action.leaking, action.growth) for action in found] == [("batch/l", True, 5.1 * MB)]
    assert victims(node(*BATCH, leaking("l", int(1.1 * GIB) - 1))) == ["b"]


@pytest.mark.parametrize(("growth", "first"), [(5 * MB, "b"), (5 * MB + 1, "l"), (None, "b")])
def test_leaking_is_growth_above_the_threshold(growth, first):
    assert victims(node(*BATCH, leaking("l", 2 * GIB, growth))) == [first]


def test_a_pod_that_warms_up_is_no_leaking_victim():
    # 10 MB/min from window to window on average, 15 and then 5: its growth has fallen to less than half.
    warm = leaking("l", 2 * GIB, 10 * MB)
    warm = replace(warm, memory=replace(warm.memory, growth_before=15.0 * MB))
    assert victims(node(*BATCH, warm)) == ["b"]


def test_the_leak_threshold_is_a_setting():
    assert victims(node(*BATCH, leaking("l", 2 * GIB)), wanted=settings(memory_growth_threshold=6.0)) == ["b"]


ENOUGH = {"available": 25 * GIB, "memory_available_trend": -float(GIB)}


def test_with_nothing_to_free_the_first_leaking_pod_goes():
    assert victims(node(*BATCH, leaking("k", GIB), leaking("l", 2 * GIB), **ENOUGH)) == ["l"]


def test_with_nothing_to_free_no_leaking_pod_goes_while_one_terminates():
    pods = (*BATCH, leaking("l", 2 * GIB), be("gone", rss=1, terminating=True))
    assert victims(node(*pods, **ENOUGH), State(terminating_since={"batch/gone": NOW - 99})) == []


def test_an_ls_pod_above_its_request_has_asked_for_nothing():
    # x has asked for the 20 GiB that are left, to the byte: nothing is needed.
    services = (ls("x", memory_request=21 * GIB, rss=GIB), ls("z", memory_request=GIB, rss=GIB + 1))
    assert victims(node(*services, *BATCH, available=20 * GIB, memory_available_trend=-float(GIB))) == []


def test_a_need_of_exactly_nothing_is_none():
    assert victims(node(*BATCH, available=20 * GIB, memory_available_trend=-float(GIB))) == []


# -- whom ----------------------------------------------------------------------------------------------------------------------


def order(*batch, wanted=None):
    """Return all of batch in the order in which it goes with OOM risk."""
    return victims(node(*batch, available=GIB, total=1000 * GIB), wanted=wanted)


ORDERED = (
    be("e", rss=2 * GIB, priority=1),
    be("d", rss=3 * GIB, priority=2),
    be("c", rss=3 * GIB, priority=1),
    be("b", rss=3 * GIB, priority=1, created=5.0),
    be("a", rss=3 * GIB, priority=1, created=6.0),
    leaking("l", 20 * GIB, priority=9),
)


def test_leaks_then_most_memory_then_lowest_priority_then_newest():
    assert order(*ORDERED) == ["l", "a", "b", "c", "d", "e"]


def test_order_priority_puts_priority_before_memory():
    assert order(*ORDERED, wanted=settings(order=VictimOrder.PRIORITY)) == ["l", "a", "b", "c", "e", "d"]


def test_equal_pods_go_by_name():
    assert order(be("b", rss=GIB), be("a", rss=GIB)) == ["a", "b"]


@pytest.mark.parametrize(
    "figures",
    [
        {"critical": True},
        {"terminating": True},
        {"owner": "DaemonSet"},
        {"owner": "Node"},
        {"labelled": False},
        {"rss": 0},
        {"rss": None},
    ],
)
def test_some_are_never_victims(figures):
    found = decided(node(be("x", **{"rss": 9 * GIB, **figures}), be("y", rss=GIB), available=GIB))
    assert [action.pod for action in of_kind(found, Evict)] == ["batch/y"]
    assert "batch/x" in {refusal.pod for refusal in found.refusals}


def test_no_other_class_is_ever_a_victim():
    others = [ls(f"x{qos.value}", qos, rss=9 * GIB) for qos in QoS if qos is not QoS.BE]
    found = decided(node(*others, available=GIB))
    assert of_kind(found, Evict) == []
    assert "no-victim" in rules(found)


# -- observing -----------------------------------------------------------------------------------------------------------------


def test_observing_reports_a_victim_once_per_termination_timeout():
    wanted = settings(mode=Mode.OBSERVE)
    reading, state = node(*BATCH), State()
    assert [action.mode for action in of_kind(decided(reading, state, wanted), Evict)] == [Mode.OBSERVE]
    after = remembered(reading, state, wanted)
    assert (after.pending, after.terminating_since) == ((), {})
    assert victims(replace(reading, time=NOW + 29), after, wanted) == []
    assert victims(replace(reading, time=NOW + 30), after, wanted) == ["b"]


def test_a_victim_that_was_only_reported_holds_nobody_back_once_it_enforces():
    after = remembered(node(*BATCH), State(), settings(mode=Mode.OBSERVE))
    assert victims(replace(node(*BATCH), time=NOW + 1), after) == ["b"]


# -- whose time it is ----------------------------------------------------------------------------------------------------------


def test_a_pod_made_again_is_not_on_its_way_out():
    state = State(time=NOW - 1, pending=(Pending(pod="batch/b", since=NOW - 9, uid="old"),))
    assert victims(node(be("b", rss=6 * GIB, uid="new")), state) == ["b"]


def test_a_successor_that_is_chosen_at_once_has_its_own_time_to_end():
    before = remembered(node(be("b", rss=6 * GIB, uid="old", terminating=True), time=NOW - 40))
    assert before.terminating_since == {"old": NOW - 40}
    chosen = remembered(node(be("b", rss=6 * GIB, uid="new"), be("c", rss=5 * GIB)), before)
    assert chosen.terminating_since == {"new": NOW}
    assert victims(node(be("b", rss=6 * GIB, uid="new"), be("c", rss=5 * GIB), time=NOW + 1), chosen) == []


def test_since_when_one_terminates_is_remembered_before_memory_is_short():
    assert remembered(node(*BATCH, be("gone", terminating=True), available=50 * GIB)).terminating_since == {"batch/gone": NOW}


def test_the_time_of_one_that_is_gone_is_forgotten():
    state = State(time=NOW - 1, terminating_since={"batch/gone": NOW - 9})
    assert remembered(node(*BATCH, available=50 * GIB), state).terminating_since == {}
