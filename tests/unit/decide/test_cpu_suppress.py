"""CPUSuppress under a quota (specification, sections 5.4 and 10)."""

import pytest
from msgspec.structs import replace

from builders import NOW, be, decided, failing_cpu_burst, failing_node_qos_resource, ls, of_kind, remembered, rules, run, snapshot
from qosmanager.config.settings import CpuBurstSettings, CpuSuppressSettings, Settings, Strategy, SuppressRatio, SystemReserved
from qosmanager.model.actions import RestoreBeCpuLimit, SetBeCpuLimit
from qosmanager.model.qos import Level, Mode
from qosmanager.model.state import Burst, Moment, State

# An idle node of 16 CPUs: LOW, target 16 - 4 requested = 12.
IDLE = snapshot(ls(request=4.0, usage=0.0), cpu_usage=0.0)


def settings(**more):
    return Settings(cpu_suppress=CpuSuppressSettings(**more))


def limit(reading=IDLE, state=None, wanted=None):
    """Return the limit written in one cycle; None: no action."""
    actions = of_kind(decided(reading, state, wanted), SetBeCpuLimit)
    return actions[0].cores if actions else None


def held(be_limit, **more):
    return State(**{"time": NOW - 1, "be_limit": be_limit, "suppress_level": Level.LOW, **more})


@pytest.mark.parametrize(
    ("level", "expected"),
    [(Level.LOW, 12.0), (Level.MEDIUM, 9.6), (Level.HIGH, 6.0), (Level.CRITICAL, 3.6), (Level.EMERGENCY, 1.2)],
)
def test_the_first_limit_is_written_at_once_and_is_the_levels_share(level, expected):
    assert limit(state=State(suppress_level=level)) == pytest.approx(expected)


def test_the_ratios_are_settings():
    assert limit(wanted=settings(suppress_ratio=SuppressRatio(low=0.25, medium=0.2, high=0.1, critical=0.1, emergency=0.1))) == 3.0


def test_ls_claims_its_request_or_its_raised_limit():
    burst = Burst(pod="shop/api", base_limit=4.0, limit=6.0, started=NOW - 1)
    reading = snapshot(ls(request=4.0, limit=4.0, usage=3.8), ls("web", request=3.0, usage=1.0), cpu_usage=4.8)
    assert limit(reading, State(bursts=(burst,))) == pytest.approx(7.0)


def test_the_strategy_usage_aims_at_a_utilization():
    reading = snapshot(ls(request=9.0, usage=2.0), be(usage=3.0), cpu_usage=6.0)
    # 16 x 0.65 - 2 - 1 of the system.
    assert limit(reading, wanted=settings(strategy=Strategy.USAGE)) == pytest.approx(7.4)
    assert limit(reading, wanted=settings(strategy=Strategy.USAGE, target_utilization=0.5)) == pytest.approx(5.0)


def test_what_a_burst_grants_is_room_that_batch_does_not_have():
    # Strategy usage aims at 16 - 2.2; a burst of 2 to 3 cores and 0.2 of the other service leave less.
    burst = Burst(pod="shop/api", base_limit=2.0, limit=3.0, started=NOW - 1)
    reading = snapshot(ls(request=1.0, limit=2.0, usage=2.0), ls("web", usage=0.2), cpu_usage=2.2)
    assert limit(reading, State(bursts=(burst,)), settings(strategy=Strategy.USAGE, target_utilization=1.0)) == pytest.approx(12.8)
    # Strategy pressure takes off the 3 as well, and nothing for a service that requests nothing.
    assert limit(reading, State(bursts=(burst,))) == pytest.approx(12.8)


USAGE = settings(strategy=Strategy.USAGE)


def after_seconds_of(*used, **more):
    """The state after cycles one second apart in which LS used so much."""
    past = tuple(Moment(time=NOW - age, cpu_score=0, ls_usage=each) for age, each in zip(range(len(used), 0, -1), used, strict=True))
    return State(time=NOW - 1, recent=past, **more)


def using(cores):
    return snapshot(ls(usage=cores), cpu_usage=cores)


def test_the_strategy_usage_goes_by_the_mean_of_five_seconds():
    # (4 x 2 + 3) / 5 = 2.2; 16 x 0.65 - 2.2. What is six seconds old is no part of it, nor what was not measured.
    assert limit(using(3.0), after_seconds_of(2.0, 2.0, 2.0, 2.0), USAGE) == pytest.approx(8.2)
    assert limit(using(3.0), after_seconds_of(9.0, 9.0, 2.0, 2.0, 2.0, 2.0), USAGE) == pytest.approx(8.2)
    assert limit(using(3.0), after_seconds_of(None, 2.0, None, None), USAGE) == pytest.approx(16 * 0.65 - 2.5)


def test_a_surge_of_more_than_a_tenth_of_the_node_counts_at_once():
    # Mean 2.4, 1.6 less than the present; then 2.42, 1.68 less.
    assert limit(using(4.0), after_seconds_of(2.0, 2.0, 2.0, 2.0), USAGE) == pytest.approx(8.0)
    assert limit(using(4.1), after_seconds_of(2.0, 2.0, 2.0, 2.0), USAGE) == pytest.approx(6.3)


def test_only_the_strategy_usage_remembers_what_ls_used():
    assert remembered(using(3.0), None, USAGE).recent[-1].ls_usage == 3.0
    assert remembered(using(3.0)).recent[-1].ls_usage is None
    assert remembered(snapshot(ls("a", usage=3.0), ls("b"), cpu_usage=3.0), None, USAGE).recent[-1].ls_usage is None


@pytest.mark.parametrize("wanted", [settings(), USAGE], ids=["pressure", "usage"])
def test_the_limit_turns_upwards_a_minute_after_its_last_turn(wanted):
    fell = {"last_move": -1, "reversals": (NOW - 59,)}
    assert limit(using(2.0), held(5.0, **fell), wanted) is None
    assert limit(using(2.0), held(5.0, last_move=-1, reversals=(NOW - 60,)), wanted) == pytest.approx(6.6)
    # A rise goes on; after a fall that was no turn nothing waits.
    assert limit(using(2.0), held(5.0, last_move=1, reversals=(NOW - 1,)), wanted) == pytest.approx(6.6)
    assert limit(using(2.0), held(5.0, last_move=-1), wanted) == pytest.approx(6.6)


def test_a_fall_waits_for_no_turn():
    # 16 - 8 that LS wants.
    rose = {"last_move": 1, "reversals": (NOW - 1,)}
    assert limit(using(8.0), held(9.0, **rose)) == pytest.approx(8.0)
    assert limit(using(2.0), held(9.0, **rose), USAGE) == pytest.approx(8.4)


def test_the_strategy_usage_aims_no_sharper_than_two_percent_of_the_node_or_a_tenth_of_the_limit():
    # Target 16 x 0.65 - 2 = 8.4; 2 percent of 16 are 0.32.
    assert limit(using(2.0), held(8.71), USAGE) is None
    assert limit(using(2.0), held(8.72), USAGE) == pytest.approx(8.4)
    # Target 0.4; a tenth of the limit is less than that.
    assert limit(using(10.0), held(0.44), USAGE) is None
    assert limit(using(10.0), held(0.45), USAGE) == pytest.approx(0.4)
    # It turns upwards for as much.
    assert limit(using(2.0), held(8.09, last_move=-1), USAGE) is None
    assert limit(using(2.0), held(8.08, last_move=-1), USAGE) == pytest.approx(8.4)
    assert limit(using(2.0), held(8.24, last_move=1), USAGE) == pytest.approx(8.4)
    # What does not fit the node beside the services falls by one percent already: 16 - 12 = 4.
    full = settings(strategy=Strategy.USAGE, target_utilization=1.0)
    assert limit(using(12.0), held(4.05), full) == pytest.approx(4.0)


def test_batch_leaves_room_for_what_ls_wants():
    # Demand 6 + 3; 16 - 9 = 7 is less than 16 - 8 requested.
    assert limit(snapshot(ls(request=8.0, usage=6.0, wait=3.0), cpu_usage=6.0)) == pytest.approx(7.0)


def test_batch_leaves_room_for_what_every_ls_pod_wants():
    # 16 - 6 - (3 + 2); at MEDIUM (22.5 + 22.5 points) the request alone would leave 8 x 0.8.
    assert limit(snapshot(ls("a", request=8.0, usage=6.0), ls("b", usage=3.0, wait=2.0), cpu_usage=9.0)) == pytest.approx(5.0)
    # Not a core more than it wants.
    assert limit(snapshot(ls(usage=0.5), cpu_usage=0.5)) == 15.5


def test_what_a_pods_own_limit_withholds_is_not_the_nodes_fault():
    assert limit(snapshot(ls(request=6.0, limit=7.0, usage=5.0, wait=9.0), cpu_usage=5.0)) == pytest.approx(9.0)


def test_demand_is_never_less_than_usage():
    assert limit(snapshot(ls(request=0.0, limit=2.0, usage=3.0, wait=1.0, qos=ls().qos.LSE), cpu_usage=3.0)) == pytest.approx(13.0)


def test_the_largest_demand_of_the_last_three_seconds_counts():
    past = (
        Moment(time=NOW - 3, cpu_score=0, cpu_percent=0, demand={"shop/api": 9.0}),
        Moment(time=NOW - 2.9, cpu_score=0, cpu_percent=0, demand={"shop/api": 7.0}),
    )
    assert limit(snapshot(ls(request=4.0, usage=1.0), cpu_usage=1.0), State(time=NOW - 1, recent=past)) == pytest.approx(9.0)


def test_an_ls_pod_that_is_not_measured_takes_its_request():
    assert limit(snapshot(ls("a"), ls("b", request=5.0), cpu_usage=9.0), wanted=settings(strategy=Strategy.USAGE)) == pytest.approx(10.4)
    assert limit(snapshot(ls("b", request=7.0), cpu_usage=9.0), wanted=settings(strategy=Strategy.USAGE)) == pytest.approx(9.0)


def test_batch_keeps_the_floor_where_ls_takes_the_node():
    assert limit(snapshot(ls(request=20.0, usage=15.9), cpu_usage=15.9)) == 0.1
    assert limit(snapshot(ls(request=20.0, usage=15.9), cpu_usage=15.9), wanted=settings(min_cores=0.5)) == 0.5


@pytest.mark.parametrize(("before", "expected"), [(12.13, 12.0), (12.12, None), (16.0, 12.0)])
def test_a_fall_of_at_least_one_percent_is_written_at_once(before, expected):
    assert limit(state=held(before)) == expected


def test_one_percent_of_the_limit_itself_is_enough():
    # 12 / 0.99: the change is one percent of the limit in force.
    assert limit(state=held(12 / 0.99)) == 12.0


@pytest.mark.parametrize(("before", "expected"), [(11.85, None), (11.84, 12.0), (11.0, 12.0), (10.4, 12.0), (10.0, 11.6), (0.1, 1.7)])
def test_a_rise_is_of_one_percent_of_the_node_and_one_step_a_second(before, expected):
    found = limit(state=held(before))
    assert found == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(("seconds", "expected"), [(0.5, 2.8), (2.0, 5.2), (3.0, 6.8), (3600.0, 6.8), (-5.0, 3.6), (0.0, 3.6)])
def test_a_rise_is_per_second_and_a_gap_or_a_jump_is_no_long_cycle(seconds, expected):
    # From 2, 1.6 a second; a gap counts as the 3 s after which data are stale, a clock that went back as one period.
    assert limit(state=held(2.0, time=NOW - seconds)) == pytest.approx(expected)


def test_the_step_is_a_setting():
    assert limit(state=held(2.0), wanted=settings(relax_step=0.25)) == pytest.approx(6.0)


def test_without_a_time_a_cycle_lasts_one_period():
    assert limit(replace(IDLE, time=None), held(2.0, time=None), Settings(sync_period=2.0)) == pytest.approx(5.2)


def test_a_limit_that_stays_is_no_action():
    assert decided(IDLE, held(12.0)).actions == ()


def test_an_unlimited_group_is_infinity_and_going_to_a_number_is_a_fall():
    assert limit(state=held(float("inf"))) == 12.0


def test_batch_is_not_raised_while_a_pod_is_not_measured():
    reading = snapshot(ls(request=4.0, usage=0.0), be(), cpu_usage=0.0)
    plan = decided(reading, held(2.0))
    assert of_kind(plan, SetBeCpuLimit) == []
    assert "not-measured" in rules(plan)
    assert limit(reading, held(14.0)) == 12.0


def test_a_system_pod_that_is_not_measured_holds_nothing_back():
    assert limit(snapshot(ls(request=4.0, usage=0.0), ls("dns", ls().qos.SYSTEM), cpu_usage=0.0), held(2.0)) == pytest.approx(3.6)


def test_recovery_from_the_floor_needs_no_whole_percent_of_the_limit():
    limits = [state.be_limit for state, _, _ in run([IDLE] * 9, held(0.1))]
    assert limits == [pytest.approx(min(12.0, 0.1 + 1.6 * number)) for number in range(1, 10)]


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.OBSERVE])
def test_no_longer_enforced_the_limit_is_taken_off(mode):
    plan = decided(IDLE, held(9.0), settings(mode=mode))
    restores = of_kind(plan, RestoreBeCpuLimit)
    assert [(action.mode, "9 cores" in action.reason) for action in restores] == [(Mode.ENFORCE, True)]
    after = remembered(IDLE, held(9.0), settings(mode=mode))
    assert (after.be_limit, after.be_observed) == ((None, False) if mode is Mode.OFF else (12.0, True))


@pytest.mark.parametrize("observed", [True, False])
def test_switched_off_nothing_of_the_limit_is_remembered(observed):
    # The moves count from the start again: a rise after it is no reversal.
    before = {"suppress_since": NOW - 9, "below_since": NOW - 2, "floor_since": NOW - 9, "last_move": 1, "be_cpus": "0-8"}
    state = remembered(IDLE, held(9.0, be_observed=observed, **before), settings(mode=Mode.OFF))
    assert (state.be_limit, state.be_cpus, state.be_observed, state.suppress_level) == (None, None, False, None)
    assert (state.suppress_since, state.below_since, state.floor_since, state.last_move) == (None, None, None, 0)


def test_off_without_a_limit_in_force_does_nothing():
    assert decided(IDLE, State(), settings(mode=Mode.OFF)).actions == ()


def test_an_observed_limit_is_reported_once_and_forgotten_when_off():
    wanted = settings(mode=Mode.OBSERVE)
    plan = decided(IDLE, State(), wanted)
    assert [(action.cores, action.mode) for action in plan.actions] == [(12.0, Mode.OBSERVE)]
    after = remembered(IDLE, State(), wanted)
    assert decided(IDLE, after, wanted).actions == ()
    assert decided(IDLE, after, settings(mode=Mode.OFF)).actions == ()


def test_from_observe_to_enforce_the_first_limit_is_written_and_the_clock_begins():
    state = held(3.0, be_observed=True, suppress_level=Level.CRITICAL, suppress_since=NOW - 60)
    plan = decided(IDLE, state)
    assert [(type(action), action.cores, action.mode) for action in plan.actions] == [(SetBeCpuLimit, pytest.approx(3.6), Mode.ENFORCE)]
    after = remembered(IDLE, state)
    assert (after.suppress_level, after.suppress_since, after.be_observed) == (Level.CRITICAL, NOW, False)


def test_after_a_failure_batch_may_only_fall():
    odd = failing_node_qos_resource()
    reading = snapshot(odd, ls(request=4.0, usage=0.0), cpu_usage=0.0)
    plan = decided(reading, held(2.0))
    assert plan.failures
    assert plan.actions == ()
    assert plan.degraded == ("NodeQOSResource_failed",)
    assert limit(reading, held(15.0)) == 12.0
    assert limit(reading, State()) == 12.0


def test_after_a_failure_the_limit_is_not_taken_off_either():
    reading = snapshot(failing_node_qos_resource(), cpu_usage=0.0)
    for mode in (Mode.OFF, Mode.OBSERVE):
        plan = decided(reading, held(2.0), settings(mode=mode))
        assert plan.actions == ()
        assert remembered(reading, held(2.0), settings(mode=mode)).be_limit == 2.0


def test_when_cpu_burst_fails_raised_limits_still_count():
    burst = Burst(pod="shop/api", base_limit=2.0, limit=5.0, started=NOW - 1)
    reading = snapshot(failing_cpu_burst(), ls(limit=2.0, usage=2.0), cpu_usage=3.0)
    # 16 - 5 - 1: what the odd pod uses.
    assert limit(reading, held(15.0, bursts=(burst,))) == pytest.approx(10.0)


def test_starving_is_reported_after_ten_minutes_at_the_floor():
    full = snapshot(ls(request=16.0, usage=0.0), cpu_usage=0.0)
    assert remembered(full, held(0.1)).floor_since == NOW
    assert "starving" not in rules(decided(full, held(0.1, floor_since=NOW - 599)))
    assert "starving" in rules(decided(full, held(0.1, floor_since=NOW - 600)))
    assert remembered(IDLE, held(0.1, floor_since=NOW - 600)).floor_since is None


def test_reversals_are_remembered_both_ways():
    rise = remembered(IDLE, held(2.0, last_move=-1))
    assert (rise.last_move, rise.reversals) == (1, (NOW,))
    fall = remembered(IDLE, held(15.0, last_move=1, reversals=(NOW - 60, NOW - 59)))
    assert (fall.last_move, fall.reversals) == (-1, (NOW - 59, NOW))


def test_a_move_in_the_same_direction_is_no_reversal():
    assert remembered(IDLE, held(2.0, last_move=1)).reversals == ()
    assert remembered(IDLE, held(2.0)).reversals == ()


def reversed_at(*ages):
    return tuple(NOW - age for age in ages)


@pytest.mark.parametrize(
    ("reversals", "oscillating", "expected"),
    [
        (reversed_at(50, 40, 30, 20), False, 3.6),  # four are not too many
        (reversed_at(50, 40, 30, 20, 10), False, 2.8),  # more than four: half a step
        (reversed_at(60, 40, 30, 20, 10), False, 3.6),
        (reversed_at(59), True, 2.8),  # not yet a minute without one
        (reversed_at(60), True, 3.6),
    ],
)
def test_more_than_four_reversals_a_minute_halve_the_step_until_a_minute_is_calm(reversals, oscillating, expected):
    state = held(2.0, last_move=1, reversals=reversals, oscillating=oscillating)
    assert limit(state=state) == pytest.approx(expected)
    assert remembered(IDLE, state).oscillating is (expected == 2.8)


def test_the_reservation_is_not_batchs():
    wanted = Settings(system_reserved=SystemReserved(cpu=2.0), cpu_burst=CpuBurstSettings(mode=Mode.OFF))
    assert limit(wanted=wanted) == 10.0


def test_the_reason_holds_the_terms():
    plan = decided(snapshot(ls(request=4.0, usage=6.0), cpu_usage=7.0), State(suppress_level=Level.HIGH))
    reason = of_kind(plan, SetBeCpuLimit)[0].reason
    for term in ("HIGH", "node 15", "LS claim 4", "x 0.5", "at most 9", "at least 0.1", "target 5.5"):
        assert term in reason
