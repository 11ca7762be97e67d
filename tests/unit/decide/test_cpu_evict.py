"""CPUEvict (specification, section 5.5)."""

import pytest
from msgspec.structs import replace

from builders import NOW, be, decided, failing_node_qos_resource, ls, of_kind, remembered, rules, slow, snapshot
from qosmanager.config.settings import CpuBurstSettings, CpuEvictSettings, CpuSuppressSettings, Policy, Settings, Smoothing, Trigger
from qosmanager.model.actions import Evict
from qosmanager.model.attribution import Attribution, Suspect
from qosmanager.model.qos import Level, Mode, Plugin, QoS
from qosmanager.model.state import Bucket, Burst, Pending, State

# 16 CPUs in full use: usage 40, ls_ratio 12 / 8 x 30 = 45, load 10: 95, EMERGENCY. LS wants 12 + 3.
TRIED = State(time=NOW - 1, be_limit=4.0, suppress_level=Level.CRITICAL, suppress_since=NOW - 5)
FULL = {"cpu_usage": 16.0, "load1": 16.0}
BATCH = tuple(be(f"b{number}", usage=1.0) for number in range(4))


def full(*batch, service=None, **node):
    service = service or slow(usage=12.0, request=8.0, wait=3.0)
    return snapshot(service, *(batch or BATCH), **{**FULL, **node})


def settings(trigger=Trigger.BOTH, suppress=Mode.ENFORCE, **more):
    return Settings(cpu_evict=CpuEvictSettings(trigger=trigger, **more), cpu_suppress=CpuSuppressSettings(mode=suppress))


def plan(reading=None, state=TRIED, wanted=None):
    return decided(reading or full(), state, wanted)


def victims(*args, **more):
    return [action.pod for action in of_kind(plan(*args, **more), Evict)]


def test_a_service_that_waits_while_suppression_holds_has_batch_evicted():
    # ceil(0.3 x 4) = 2 at most.
    assert victims() == ["batch/b0", "batch/b1"]


def test_the_score_must_be_above_the_threshold():
    assert victims(wanted=settings(evict_threshold=95.0)) == []
    assert victims(wanted=settings(evict_threshold=94.9)) != []


def test_inside_its_slo_nobody_is_evicted():
    assert victims(full(service=slow(usage=12.0, request=8.0, wait=3.0, p99=0.1))) == []


@pytest.mark.parametrize(("evict_threshold", "p99"), [(95.0, 0.3), (90.0, 0.1)])
def test_either_takes_the_score_or_the_violation(evict_threshold, p99):
    reading = full(service=slow(usage=12.0, request=8.0, wait=3.0, p99=p99))
    assert victims(reading, wanted=settings(Trigger.EITHER, evict_threshold=evict_threshold)) != []
    assert victims(reading, wanted=settings(Trigger.BOTH, evict_threshold=evict_threshold)) == []


def test_either_without_score_and_violation_does_nothing():
    reading = full(service=slow(usage=12.0, request=8.0, wait=3.0, p99=0.1))
    assert victims(reading, wanted=settings(Trigger.EITHER, evict_threshold=95.0)) == []


# -- an unknown signal ---------------------------------------------------------------------------------------------------------


def unknown(wait=3.0):
    return full(service=ls(usage=12.0, request=8.0, wait=wait))


@pytest.mark.parametrize(("since", "evicts"), [(None, False), (NOW - 2.9, False), (NOW - 3, True)])
def test_an_unknown_signal_counts_after_three_seconds_above_the_threshold(since, evicts):
    assert bool(victims(unknown(), replace(TRIED, score_above_since=since))) is evicts


def test_an_unknown_signal_counts_only_with_a_shortage():
    # 37.5 + 41.25 + 10 points; LS wants 11 + wait of 16 - 4. At EMERGENCY all of batch would be needed.
    state = replace(TRIED, suppress_level=Level.EMERGENCY, score_above_since=NOW - 9)
    for wait, evicts in ((1.0, False), (1.1, True)):
        reading = full(service=ls(usage=11.0, request=8.0, wait=wait), cpu_usage=15.0)
        assert bool(victims(reading, state, settings(evict_threshold=88.0))) is evicts


def test_the_time_above_the_threshold_is_remembered_and_broken():
    assert remembered(unknown(), TRIED).score_above_since == NOW
    assert remembered(unknown(), replace(TRIED, score_above_since=NOW - 2)).score_above_since == NOW - 2
    calm = snapshot(ls(usage=1.0, request=8.0), cpu_usage=1.0)
    assert remembered(calm, replace(TRIED, score_above_since=NOW - 2)).score_above_since is None


def test_the_time_above_the_threshold_does_not_run_through_a_gap():
    state = replace(TRIED, time=NOW - 7200, score_above_since=NOW - 7200)
    assert victims(unknown(), state) == []


# -- suppression was tried -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "state",
    [
        replace(TRIED, suppress_level=None),
        replace(TRIED, suppress_level=Level.HIGH),
        replace(TRIED, suppress_since=NOW - 4.9),
        replace(TRIED, be_limit=None),
        replace(TRIED, be_limit=3.63),  # BE uses 4, more than 1.1 x 3.63
        State(),
    ],
)
def test_suppression_is_tried_first(state):
    found = plan(state=state)
    assert of_kind(found, Evict) == []
    assert "suppress-first" in rules(found)


@pytest.mark.parametrize(
    "state",
    [
        replace(TRIED, suppress_level=Level.EMERGENCY),
        replace(TRIED, suppress_since=None),  # unknown counts as long enough
        replace(TRIED, be_limit=4 / 1.1),
    ],
)
def test_suppression_that_holds_has_been_tried(state):
    assert victims(state=state) != []


def test_an_observed_limit_is_no_suppression():
    found = plan(state=replace(TRIED, be_observed=True), wanted=settings(suppress=Mode.OBSERVE))
    assert of_kind(found, Evict) == []
    assert "suppress-first" in rules(found)


def test_suppression_switched_off_is_not_waited_for():
    assert victims(state=State(), wanted=settings(suppress=Mode.OFF)) != []


def test_under_cpuset_the_limit_is_in_whole_cpus():
    wanted = Settings(cpu_suppress=CpuSuppressSettings(policy=Policy.CPUSET))
    state = replace(TRIED, be_limit=3.2, be_cpus="0-3")
    assert victims(state=state, wanted=wanted) != []
    halves = full(*(be(f"b{number}", usage=0.5) for number in range(4)))
    assert victims(halves, replace(TRIED, be_limit=1.2, be_cpus="0-1"), wanted) != []
    # Where the quota holds instead, whatever the policy says, its fraction counts.
    assert victims(state=replace(state, be_cpus=None), wanted=wanted) == []


# -- the service itself waits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wait", "evicts"), [(0.24, False), (0.2401, True), (None, False)])
def test_slowness_from_elsewhere_is_not_cured_by_eviction(wait, evicts):
    # 0.02 x 12; at EMERGENCY the need is all that BE uses.
    found = plan(full(service=slow(usage=12.0, request=8.0, wait=wait)))
    assert bool(of_kind(found, Evict)) is evicts
    assert ("slow-elsewhere" in rules(found)) is not evicts


def test_the_one_that_waits_must_be_one_that_is_slow():
    services = (slow("db", usage=6.0, request=4.0, wait=0.0), ls("web", usage=6.0, request=4.0, wait=3.0, p99=0.01, slo=0.1))
    assert victims(snapshot(*services, *BATCH, **FULL)) == []


def test_either_does_not_ask_who_waits():
    reading = full(service=slow(usage=12.0, request=8.0, wait=0.0))
    assert victims(reading, wanted=settings(Trigger.EITHER)) != []


# -- how much ------------------------------------------------------------------------------------------------------------------

# usage 40 x 14/16 = 35, ls_ratio 10 / 8 x 30 = 37.5, load 10 x 14/16: 81.25, CRITICAL: the need is the shortage x 1.2.
MANY = tuple(be(f"b{number:02}", usage=0.4) for number in range(10))


def critical(*batch, wait=2.0, **more):
    return snapshot(slow(usage=10.0, request=8.0, wait=wait), *(batch or MANY), cpu_usage=14.0, load1=14.0, **more)


LOWER = settings(evict_threshold=80.0)


@pytest.mark.parametrize(("wait", "number"), [(2.0, 0), (2.08, 0), (2.09, 1), (2.33, 1), (2.34, 2), (2.66, 2), (2.67, 3), (5.0, 3)])
def test_as_many_as_cover_the_shortage_and_a_fifth(wait, number):
    # LS wants 10 + wait of 16 - 4 that BE uses; 0.4 / 1.2 of a core each, and more than the 0.1 that BE may always have.
    assert len(victims(critical(wait=wait), TRIED, LOWER)) == number


def test_a_service_in_a_burst_lacks_what_it_wants_within_its_raised_limit():
    # 10 + 5, at most 13 of 16 - 4: 1 x 1.2; its own limit of 11 would leave nothing to free.
    service = slow(usage=10.0, request=8.0, wait=5.0, limit=11.0)
    burst = Burst(pod="shop/api", base_limit=11.0, limit=13.0, started=NOW - 1)
    reading = snapshot(service, *MANY, cpu_usage=14.0, load1=14.0)
    assert len(victims(reading, replace(TRIED, bursts=(burst,)), LOWER)) == 3
    assert victims(reading, TRIED, replace(LOWER, cpu_burst=CpuBurstSettings(mode=Mode.OFF))) == []


@pytest.mark.parametrize(
    ("usage", "throttled", "number"),
    [
        (11.0, 0.1, 0),  # 92 percent of its limit of 12, throttled: the limit is what it waits for
        (10.8, 0.1, 0),
        (10.7, 0.1, 2),  # 89 percent
        (11.0, 0.099, 2),  # hardly throttled
        (11.0, None, 2),
    ],
)
def test_a_service_that_waits_for_its_own_limit_has_nobody_evicted(usage, throttled, number):
    service = slow(usage=usage, request=8.0, wait=usage, limit=12.0, throttled=throttled)
    off = Settings(cpu_burst=CpuBurstSettings(mode=Mode.OFF))
    assert len(victims(full(service=service), TRIED, off)) == number
    assert ("slow-elsewhere" in rules(plan(full(service=service), TRIED, off))) == (number == 0)


@pytest.mark.parametrize(("granted", "evicts"), [(13.0, True), (12.0, False)])
def test_in_a_burst_the_raised_limit_is_the_one_it_may_wait_for(granted, evicts):
    # 11.5 is 88 percent of 13 and 96 percent of 12.
    service = slow(usage=11.5, request=8.0, wait=3.0, limit=10.0, throttled=0.2)
    burst = Burst(pod="shop/api", base_limit=10.0, limit=granted, started=NOW - 1)
    wanted = Settings(cpu_burst=CpuBurstSettings(min_node_cpu_idle=0.0))
    assert bool(victims(full(service=service), replace(TRIED, bursts=(burst,)), wanted)) is evicts


def test_nobody_goes_for_what_batch_may_always_have():
    # At its floor of 0.1 BE has 0.1 to give: at EMERGENCY that is the need.
    floor = replace(TRIED, be_limit=0.1)
    assert victims(full(be("a", usage=0.05), be("b", usage=0.05)), floor) == []
    assert victims(full(be("a", usage=0.05), be("b", usage=0.051)), floor) == ["batch/b"]


def test_nothing_to_free_is_told():
    assert "no-need" in rules(plan(critical(), TRIED, LOWER))


def test_at_emergency_all_of_batch_is_needed_within_thirty_percent():
    # No shortage, but EMERGENCY is held: need is 4, three pods of ten at a time.
    assert len(victims(critical(wait=1.0), replace(TRIED, suppress_level=Level.EMERGENCY), LOWER)) == 3


@pytest.mark.parametrize(("pods", "most"), [(1, 1), (3, 1), (4, 2), (6, 2), (7, 3), (10, 3), (11, 4), (20, 6)])
def test_at_most_three_in_ten_at_a_time(pods, most):
    batch = [be(f"b{number:02}", usage=4 / pods) for number in range(pods)]
    assert len(victims(full(*batch))) == most


def test_those_that_may_not_be_evicted_count_among_all():
    # ceil(0.3 x 10), not of the 4 that may go.
    batch = [be(f"b{number}", usage=0.4, critical=number > 3) for number in range(10)]
    assert victims(full(*batch)) == ["batch/b0", "batch/b1", "batch/b2"]


def test_what_is_terminating_already_is_less_to_free():
    # Shortage 2 x 1.2 = 2.4; 2.2 on the way by its mean.
    batch = (be("gone", usage=0.5, usage_mean=2.2, terminating=True), be("a", usage=1.5), be("b", usage=1.5), be("c", usage=0.5))
    assert len(victims(critical(*batch, wait=4.0), TRIED, LOWER)) == 1
    more = (replace(batch[0], cpu=replace(batch[0].cpu, usage_mean=2.4)), *batch[1:])
    assert victims(critical(*more, wait=4.0), TRIED, LOWER) == []


def test_a_victim_that_is_not_gone_yet_counts_as_terminating():
    pending = tuple(Pending(pod=f"batch/b{number}", since=NOW - 70) for number in range(4))
    assert victims(state=replace(TRIED, pending=pending)) == []


def test_a_pod_made_again_is_not_the_one_that_is_pending():
    batch = [replace(pod, uid="new") for pod in BATCH]
    pending = tuple(Pending(pod=f"batch/b{number}", since=NOW - 70, uid="old") for number in range(4))
    assert victims(full(*batch), replace(TRIED, pending=pending)) == ["batch/b0", "batch/b1"]


def test_a_victim_frees_the_larger_of_its_usage_and_its_mean():
    # One pod covers 2.4: its mean is 2.5 although it is held at 1 now.
    batch = (be("a", usage=1.0, usage_mean=2.5), be("b", usage=1.0), be("c", usage=1.0), be("d", usage=1.0))
    found = of_kind(plan(critical(*batch, wait=4.0), TRIED, LOWER), Evict)
    assert [(action.pod, action.cpu) for action in found] == [("batch/a", 2.5)]


def test_one_that_goes_and_is_not_measured_frees_its_mean():
    # 2 x 1.2 - 0.5 = 1.9: one of 1.5 is not enough.
    batch = (be("gone", usage_mean=0.5, terminating=True), be("a", usage=1.5), be("b", usage=1.5), be("c", usage=1.0))
    assert victims(critical(*batch, wait=4.0), TRIED, LOWER) == ["batch/a", "batch/b"]


def test_no_more_is_needed_than_batch_uses():
    # Shortage 18 - 15 = 3, x 1.2, but batch uses 1: one pod, whose mean is 1.5, covers that.
    batch = [be(f"b{number}", usage=0.25, usage_mean=1.5) for number in range(4)]
    reading = snapshot(slow(usage=10.0, request=8.0, wait=8.0), *batch, cpu_usage=11.0, load1=14.0)
    assert victims(reading, TRIED, settings(evict_threshold=70.0)) == ["batch/b0"]


# -- whom ----------------------------------------------------------------------------------------------------------------------


def order(*batch):
    """Return all of batch in the order in which it goes, a round at a time."""
    gone = []
    while len(gone) < len(batch):
        left = [pod for pod in batch if pod.key not in gone]
        chosen = victims(full(*left), replace(TRIED, be_limit=16.0))
        assert chosen
        gone += chosen[:1]
    return [key.partition("/")[2] for key in gone]


def test_lowest_priority_first_then_most_cpu_then_newest_then_name():
    batch = (
        be("f", usage=1.0, priority=2),
        be("e", usage=0.5, priority=1, created=50.0),
        be("d", usage=0.5, priority=1),  # no creation time counts as oldest
        be("c", usage=0.5, priority=1, created=60.0),
        be("b", usage=0.5, priority=1, created=50.0),
        be("a", usage=0.1, usage_mean=0.6, priority=1),
    )
    assert order(*batch) == ["a", "c", "b", "e", "d", "f"]


@pytest.mark.parametrize(
    "figures",
    [
        {"critical": True},
        {"terminating": True},
        {"owner": "DaemonSet"},
        {"owner": "Node"},
        {"labelled": False},
        {"usage": 0.0},
        {"usage": None},
    ],
)
def test_some_are_never_victims(figures):
    other = be("a", **{"usage": 1.0, **figures})
    found = plan(full(other, be("b", usage=3.0)), replace(TRIED, be_limit=16.0))
    assert "batch/a" not in [action.pod for action in of_kind(found, Evict)]
    assert ("batch/a", "no-victim") in [(refusal.pod, refusal.rule) for refusal in found.refusals]


def test_unlabelled_pods_are_evicted_on_request():
    wanted = Settings(evict_unlabelled=True)
    assert victims(full(be("a", usage=4.0, labelled=False)), wanted=wanted) == ["batch/a"]


def test_no_other_class_is_ever_a_victim():
    others = [ls(f"x{qos.value}", qos, usage=1.0, priority=-9) for qos in QoS if qos is not QoS.BE]
    assert victims(full(*others, be("b", usage=1.0)), replace(TRIED, be_limit=16.0)) == ["batch/b"]


# -- rounds and pauses ---------------------------------------------------------------------------------------------------------


def test_a_round_starts_the_cooldown_and_is_counted():
    after = remembered(full(), TRIED)
    assert after.cooldown_until == {"CPUEvict": NOW + 60}
    assert after.evict_rounds == 1
    assert [(victim.pod, victim.since, victim.cpu) for victim in after.pending] == [("batch/b0", NOW, 1.0), ("batch/b1", NOW, 1.0)]


def test_a_victim_is_named_and_remembered_with_all_that_its_end_frees():
    reading = full(
        be("a", uid="u1", usage=2.0, usage_mean=2.5, rss=7), be("b", uid="u2", usage=1.0), be("c", usage=0.5), be("d", usage=0.5)
    )
    assert [(action.pod, action.uid, action.cpu, action.memory) for action in of_kind(plan(reading), Evict)] == [
        ("batch/a", "u1", 2.5, 7),
        ("batch/b", "u2", 1.0, None),
    ]
    assert remembered(reading, TRIED).pending == (
        Pending(pod="batch/a", since=NOW, uid="u1", cpu=2.5, memory=7),
        Pending(pod="batch/b", since=NOW, uid="u2", cpu=1.0, memory=0),
    )


@pytest.mark.parametrize(("until", "evicts"), [(NOW + 0.1, False), (NOW, True), (None, True)])
def test_cooling_down_nobody_is_evicted(until, evicts):
    found = plan(state=replace(TRIED, cooldown_until={"CPUEvict": until}))
    assert bool(of_kind(found, Evict)) is evicts
    assert ("cooldown" in rules(found)) is not evicts


def test_after_two_rounds_without_effect_it_stands_down():
    assert victims(state=replace(TRIED, evict_rounds=1)) != []
    found = plan(state=replace(TRIED, evict_rounds=2))
    assert of_kind(found, Evict) == []
    assert "no-effect" in rules(found)


def test_a_signal_that_has_been_ok_once_ends_the_standing_down():
    healthy = full(service=slow(usage=12.0, request=8.0, wait=3.0, p99=0.1))
    assert remembered(healthy, replace(TRIED, evict_rounds=2)).evict_rounds == 0
    assert remembered(unknown(), replace(TRIED, evict_rounds=2)).evict_rounds == 2


def test_without_any_objective_the_calm_after_the_score_ends_the_standing_down():
    calm = unknown(wait=0.0)
    quiet = settings(evict_threshold=95.0)
    assert remembered(calm, replace(TRIED, evict_rounds=2), quiet).evict_rounds == 0
    # A p99 that is unknown for a moment is no calm: the pod has an objective.
    declared = full(service=ls(usage=12.0, request=8.0, slo=0.1))
    assert remembered(declared, replace(TRIED, evict_rounds=2), quiet).evict_rounds == 2


def test_after_a_failure_nobody_is_evicted():
    found = plan(full(failing_node_qos_resource(), *BATCH))
    assert found.failures
    assert of_kind(found, Evict) == []


def test_observing_reports_a_round_and_changes_nothing_for_the_others():
    wanted = settings(mode=Mode.OBSERVE)
    found = plan(wanted=wanted)
    assert [action.mode for action in of_kind(found, Evict)] == [Mode.OBSERVE, Mode.OBSERVE]
    after = remembered(full(), TRIED, wanted)
    assert (after.pending, after.evict_rounds) == ((), 0)


@pytest.mark.parametrize(
    "wanted",
    [
        Settings(cpu_evict=CpuEvictSettings(mode=Mode.OFF)),
        Settings(plugins=tuple(plugin for plugin in Plugin if plugin is not Plugin.CPU_EVICT)),
    ],
)
def test_switched_off_nobody_is_evicted(wanted):
    assert victims(wanted=wanted) == []


# -- with smoothing, and at once -----------------------------------------------------------------------------------------------


def test_with_smoothing_the_mean_must_be_above_as_well():
    wanted = Settings(smoothing=Smoothing(window=300.0))
    calm = replace(TRIED, smoothing=(Bucket(start=NOW - 60, count=60, cpu=60 * 50.0, memory=0.0),))
    busy = replace(TRIED, smoothing=(Bucket(start=NOW - 60, count=60, cpu=60 * 95.0, memory=0.0),))
    assert victims(state=calm, wanted=wanted) == []
    assert victims(state=busy, wanted=wanted) != []


def at_once(**more):
    """Build 85 percent of CPU, 90 of memory and a latency that rises; LS lacks 13.6 - 12 cores."""
    memory = {"memory_total": 100, "memory_available": 10}
    return snapshot(slow(usage=9.6, request=8.0, wait=4.0, trend=9.0, **more), *BATCH, cpu_usage=13.6, **memory)


def test_evict_be_immediately_waits_neither_for_the_trigger_nor_for_suppression():
    # Score 34 + 36 = 70; need (13.6 - 12) x 1.2 = 1.92.
    assert victims(at_once(), State()) == ["batch/b0", "batch/b1"]


def test_evict_be_immediately_still_respects_cooldown_mode_and_need():
    assert victims(at_once(), State(cooldown_until={"CPUEvict": NOW + 1})) == []
    assert victims(at_once(), State(), Settings(cpu_evict=CpuEvictSettings(mode=Mode.OFF))) == []
    assert {action.mode for action in plan(at_once(), State(), Settings(cpu_evict=CpuEvictSettings(mode=Mode.OBSERVE))).actions} == {
        Mode.ENFORCE,
        Mode.OBSERVE,
    }


def test_the_reason_holds_the_numbers():
    reason = of_kind(plan(), Evict)[0].reason
    for term in ("score 95.0", "violated", "lacks 3", "need 4", "1 of 2", "priority 0", "1 cores"):
        assert term in reason


def suspecting(reading, service, pod, by="cpu", confidence=0.6):
    return replace(reading, attributions=(Attribution(service, (Suspect(pod, by, confidence),)),))


def test_among_pods_that_hold_alike_amounts_the_likely_cause_goes_first():
    alike = (be("a", usage=1.04, created=1.0), be("b", usage=1.0, created=2.0), be("c", usage=1.02, created=3.0), be("d", usage=0.5))
    assert victims(full(*alike)) == ["batch/a", "batch/c"], "by CPU alone"
    reading = suspecting(full(*alike), "shop/api", "batch/b")
    assert victims(reading) == ["batch/b", "batch/a"]
    reasons = [action.reason for action in of_kind(plan(reading), Evict)]
    assert reasons[0].endswith("priority 0, 1 cores, likely what shop/api waits for (confidence 0.60)")
    assert reasons[1].endswith("priority 0, 1.04 cores")


def test_suspicion_comes_after_priority_and_after_what_a_pod_holds():
    batch = (be("a", usage=1.0), be("b", usage=1.2), be("c", usage=1.0, priority=5), be("d", usage=1.0))
    assert victims(suspecting(full(*batch), "shop/api", "batch/c"))[0] == "batch/b"
    assert victims(suspecting(full(*batch), "shop/api", "batch/d")) == ["batch/b", "batch/d"]


def test_only_suspicions_about_cpu_and_of_services_above_their_slo_count():
    assert victims(suspecting(full(), "shop/api", "batch/b3", by="io")) == ["batch/b0", "batch/b1"]
    assert victims(suspecting(full(), "shop/other", "batch/b3")) == ["batch/b0", "batch/b1"]
    assert victims(suspecting(full(), "shop/api", "batch/b3")) == ["batch/b3", "batch/b0"]


@pytest.mark.parametrize(("other", "named"), [(0.5, "shop/api"), (0.6, "shop/api"), (0.7, "shop/web")])
def test_of_two_services_that_suspect_a_pod_the_surer_one_is_named_and_the_first_of_equals(other, named):
    both = snapshot(slow(usage=6.0, request=4.0, wait=1.5), slow("web", usage=6.0, request=4.0, wait=1.5), *BATCH, **FULL)
    suspects = [Attribution(key, (Suspect("batch/b3", "cpu", sure),)) for key, sure in (("shop/api", 0.6), ("shop/web", other))]
    reading = replace(both, attributions=tuple(suspects))
    assert f"likely what {named} waits for" in of_kind(plan(reading), Evict)[0].reason
