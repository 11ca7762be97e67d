"""Strategy slo: down by what somebody suffers, up by the slack, room for demand, none where the kernel shields, one probing fall."""

import math

import pytest
from msgspec.structs import replace

from builders import NOW, be, decided, failing_node_qos_resource, ls, of_kind, remembered, rules, run, snapshot
from qosmanager.config.settings import CpuSuppressSettings, ForecastSettings, Policy, Settings, Strategy
from qosmanager.model.actions import Evict, RestoreBeCpuLimit, RestoreBeCpuset, SetBeCpuLimit, SetCpuLimit
from qosmanager.model.forecast import Forecast
from qosmanager.model.qos import Mode
from qosmanager.model.state import Objective, State

SLO = Settings(cpu_suppress=CpuSuppressSettings(strategy=Strategy.SLO))
HELD = Objective(wanted=2.0, margin=1.0)


def state(limit, **objective):
    return State(time=NOW - 1, be_limit=limit, objective=replace(HELD, **objective))


def calm(**more):
    # LS uses 2 of 16 cores, the system none; p99 at 45 percent of the SLO: half of the slack.
    return snapshot(ls(usage=2.0, wait=0.0, p99=0.045, slo=0.1), be(usage=more.pop("batch", 8.0)), cpu_usage=10.0, **more)


def hurt(p99=0.2, wait=0.6, batch=8.0):
    return snapshot(ls(usage=2.0, wait=wait, p99=p99, slo=0.1), be(usage=batch), cpu_usage=2.0 + batch)


def shielded(reading):
    return replace(reading, be_shielded=True)


def limit(reading, before, settings=SLO):
    return remembered(reading, before, settings).be_limit


def test_without_a_shield_the_first_limit_is_what_demand_and_a_margin_leave():
    # 16 - 2 - a quarter of 16, for nobody has seen the service surge yet.
    assert limit(calm(), State()) == pytest.approx(10.0)


def test_behind_the_shield_there_is_no_limit():
    assert decided(shielded(calm()), State(), SLO).actions == ()


def test_behind_the_shield_a_limit_of_before_goes_at_once():
    plan = decided(shielded(calm()), state(5.0), SLO)
    assert len(of_kind(plan, RestoreBeCpuLimit)) == 1
    assert limit(shielded(calm()), state(5.0)) is None


def test_behind_the_shield_cpus_go_too():
    before = replace(state(5.0), be_cpus="0-4")
    cpus = Settings(cpu_suppress=CpuSuppressSettings(strategy=Strategy.SLO, policy=Policy.CPUSET))
    plan = decided(shielded(calm()), before, cpus)
    assert (len(of_kind(plan, RestoreBeCpuset)), len(of_kind(plan, RestoreBeCpuLimit))) == (1, 0)


# From min(limit 10, usage 8): SLO / p99 of it, between 0.3 and 0.9.
@pytest.mark.parametrize(("p99", "fallen"), [(0.2, 4.0), (0.105, 7.2), (1.0, 2.4)])
def test_the_limit_falls_by_the_severity_of_what_was_used(p99, fallen):
    assert limit(hurt(p99), state(10.0, suffering_since=NOW - 1)) == pytest.approx(fallen)


def test_suffering_of_a_single_look_is_chance():
    assert limit(hurt(), state(10.0)) == 10.0


def test_the_next_fall_waits_until_the_last_one_can_show():
    assert limit(hurt(), state(10.0, suffering_since=NOW - 5, fell=NOW - 1)) == 10.0
    assert limit(hurt(), state(10.0, suffering_since=NOW - 5, fell=NOW - 2)) == pytest.approx(4.0)


def test_it_never_falls_below_min_cores():
    assert limit(hurt(1.0, batch=0.2), state(0.2, suffering_since=NOW - 5)) == 0.1


def test_batch_that_uses_next_to_nothing_is_not_the_cause():
    assert limit(hurt(batch=0.1), state(10.0, suffering_since=NOW - 5)) == 10.0


def test_behind_the_shield_it_takes_ten_seconds_of_suffering():
    assert limit(shielded(hurt()), state(None, suffering_since=NOW - 9)) is None
    assert limit(shielded(hurt()), state(None, suffering_since=NOW - 10)) == pytest.approx(4.0)


def test_slow_from_elsewhere_takes_nothing_and_is_told():
    reading = hurt(wait=0.0)
    plan = decided(reading, state(10.0, suffering_since=NOW - 60), SLO)
    assert "slow-elsewhere" in rules(plan)
    assert limit(reading, state(10.0, suffering_since=NOW - 60)) >= 10.0


def test_a_fall_after_which_nothing_waits_and_nothing_is_better_is_the_last():
    after = remembered(hurt(wait=0.0), state(4.0, severity=1.0, fell=NOW - 1, suffering_since=NOW - 2, ceiling=8.0), SLO).objective
    assert (after.futile, after.severity, after.ceiling) == (1, None, None)
    assert after.borne_until == NOW + 300
    again = state(4.0, futile=1, borne_until=NOW + 300, borne=1.0, suffering_since=NOW - 2)
    assert limit(hurt(), again) >= 4.0


def test_while_it_is_borne_batch_gets_back_what_nobody_is_helped_by():
    # At the floor for a service that is late whatever batch does; ten seconds after that is known the limit turns.
    borne = replace(state(0.1, futile=1, borne_until=NOW + 60, borne=1.0, suffering_since=NOW - 30, fell=NOW - 30), last_move=-1)
    assert remembered(hurt(batch=0.1), borne, SLO).objective.roomy_since == NOW
    ready = replace(borne, objective=replace(borne.objective, roomy_since=NOW - 10))
    assert limit(hurt(batch=0.1), ready) == pytest.approx(0.1 + 0.16)
    worse = replace(ready, objective=replace(ready.objective, borne=0.5))
    assert remembered(hurt(batch=0.1), worse, SLO).objective.roomy_since is None
    assert limit(hurt(batch=0.1), worse) == 0.1


def test_what_gets_much_worse_is_borne_no_longer():
    before = state(4.0, borne_until=NOW + 300, borne=1.0, suffering_since=NOW - 2)
    # 1.5 times the severity of 1.0 that was borne is a p99 of 250 ms.
    assert limit(hurt(0.25, batch=4.0), before) >= 4.0
    assert limit(hurt(0.26, batch=4.0), before) == pytest.approx(4.0 / 2.6)


def test_at_the_floor_nothing_better_for_ten_seconds_is_no_use():
    before = replace(state(0.1, severity=1.0, suffering_since=NOW - 30, fell=NOW - 20), floor_since=NOW - 9)
    assert remembered(hurt(batch=0.1), before, SLO).objective.futile == 0
    assert remembered(hurt(batch=0.1), replace(before, floor_since=NOW - 10), SLO).objective.futile == 1


# Slack 50 percent: half of relaxStep 0.1 x 16 CPUs in a second; each relapse halves it.
@pytest.mark.parametrize(("relapses", "risen"), [(0.0, 6.8), (1.0, 6.4)])
def test_it_rises_by_the_slack_and_slower_after_relapses(relapses, risen):
    before = state(6.0, relapses=relapses, fell=NOW - 3000)
    assert limit(calm(), replace(before, last_move=1)) == pytest.approx(risen, abs=0.001)


def fallen(relapses=0.0, roomy=None):
    return replace(state(6.0, fell=NOW - 3000, relapses=relapses, roomy_since=roomy), last_move=-1)


def test_it_turns_upwards_when_there_was_room_for_a_while_and_for_longer_after_relapses():
    assert limit(calm(), fallen()) == 6.0
    assert limit(calm(), fallen(roomy=NOW - 9)) == 6.0
    assert limit(calm(), fallen(roomy=NOW - 10)) > 6.0
    assert limit(calm(), fallen(roomy=NOW - 99, relapses=1.0)) == 6.0
    assert limit(calm(), fallen(roomy=NOW - 300, relapses=5.0)) > 6.0


def test_room_ends_when_somebody_suffers_or_demand_leaves_no_more():
    since = NOW - 40
    assert remembered(calm(), fallen(roomy=since), SLO).objective.roomy_since == since
    assert remembered(hurt(), fallen(roomy=since), SLO).objective.roomy_since is None

    def roomy(cores):
        before = replace(fallen(roomy=since), objective=replace(fallen(roomy=since).objective, wanted=cores))
        busy = snapshot(ls(usage=cores, wait=0.0, p99=0.045, slo=0.1), be(usage=6.0), cpu_usage=cores + 6)
        return remembered(busy, before, SLO).objective.roomy_since

    # 16 - 8.1 - margin 1 is 0.9 more than the 6 that are in force; with 8.3 it is 0.7, less than 5 percent of 16.
    assert (roomy(8.1), roomy(8.3)) == (since, None)


def test_a_little_more_room_is_not_worth_a_turn():
    little = replace(fallen(roomy=NOW - 100), be_limit=12.5)
    assert limit(calm(), little) == 12.5
    assert limit(calm(), replace(little, last_move=1)) > 12.5


def test_a_turn_is_a_minute_from_the_one_before():
    before = replace(fallen(roomy=NOW - 80), reversals=(NOW - 59,))
    assert limit(calm(), before) == 6.0
    assert limit(calm(), replace(before, reversals=(NOW - 60,))) > 6.0


def test_the_first_step_upwards_is_small_and_has_to_hold_for_a_minute():
    before = fallen(roomy=NOW - 60)
    assert limit(calm(), before) == pytest.approx(6.16)
    assert limit(calm(), replace(before, last_move=1, reversals=(NOW - 59,))) == 6.0


def test_what_was_too_much_is_not_given_again_soon():
    # 0.9 x 7, and 2 percent of 16 CPUs more for each minute since.
    assert limit(calm(), replace(state(6.0, ceiling=7.0, fell=NOW - 60), last_move=1)) == pytest.approx(6.62)


def test_it_falls_to_what_demand_leaves_and_not_for_the_margin_alone():
    # Room 14. A limit within it stays, one above falls to 16 - 2 - margin 1 (a second of its half-life of 15 min eased).
    assert limit(calm(), state(13.9)) == 13.9
    assert limit(calm(), state(14.2)) == pytest.approx(13.0, abs=0.01)


def wants(cores, p99=0.045):
    return snapshot(ls(usage=cores, wait=0.6 if p99 > 0.1 else 0.0, p99=p99, slo=0.1), be(usage=8.0), cpu_usage=cores + 8)


def test_the_margin_is_the_largest_rise_of_demand():
    after = remembered(wants(3.5), state(13.0), SLO)
    assert (after.objective.wanted, after.objective.margin) == (3.5, 1.5)


def test_a_surge_calls_for_a_margin_of_its_size_though_nobody_suffered_from_it():
    # From 2 to 5 cores: as much may come again, so 16 - 5 - 3.
    after = remembered(wants(5.0), state(13.0), SLO)
    assert (after.objective.wanted, after.objective.margin) == (5.0, 3.0)
    assert after.be_limit == pytest.approx(8.0, abs=0.001)


def test_the_margin_is_at_most_two_fifths_of_the_cpus():
    assert remembered(wants(10.0), state(13.0), SLO).objective.margin == 6.4


def test_what_a_pod_that_is_not_measured_asks_for_is_no_surge():
    begun = snapshot(ls(usage=2.0, wait=0.0, p99=0.045, slo=0.1), ls("new", request=4.0), be(usage=8.0), cpu_usage=10.0)
    after = remembered(begun, state(13.0), SLO)
    assert after.objective.wanted == 6.0
    assert after.objective.margin == pytest.approx(1.0, abs=0.001)
    # There is room for it all the same: 16 - 6 - 1.
    assert after.be_limit == pytest.approx(9.0, abs=0.01)


def test_one_short_look_at_demand_is_chance_and_two_are_a_surge():
    # From 2 cores to 7 of 16, beside a limit of 10, in cycles some of which come early.
    def after(*looks):
        before = State()
        for seconds, cores in looks:
            before = remembered(replace(wants(cores), time=NOW + seconds), before, SLO)
        return before.be_limit, before.objective.wanted

    # The node has 9 beside 7: all limits together fit it in any cycle.
    assert after((0, 2.0), (0.3, 7.0)) == (9.0, 2.0)
    assert 9.0 < after((0, 2.0), (0.3, 7.0), (1, 2.0))[0] <= 10.0, "and it comes back without the rest that follows a fall"
    assert after((0, 2.0), (0.3, 7.0), (0.4, 7.5)) == (16 - 7 - 5, 7.0)
    # A whole period of it needs no second look.
    assert after((0, 2.0), (0.95, 7.0)) == (16 - 7 - 5, 7.0)


def test_a_turn_is_not_for_less_than_what_was_too_much_leaves():
    # Demand leaves 13; 7 cores were too much, so that 6.3 are to be had: less than 5 percent of 16 CPUs more than 6.
    assert remembered(calm(), fallen(roomy=NOW - 100), SLO).objective.roomy_since == NOW - 100
    learned = replace(fallen(roomy=NOW - 100).objective, ceiling=7.0, fell=NOW)
    assert remembered(calm(), replace(fallen(), objective=learned), SLO).objective.roomy_since is None


def test_a_relapse_is_a_fall_that_undoes_a_rise():
    def relapses(last_move, fell):
        return remembered(hurt(), replace(state(10.0, suffering_since=NOW - 5, fell=fell), last_move=last_move), SLO).objective.relapses

    assert relapses(1, NOW - 100) == pytest.approx(1.0)
    assert relapses(-1, NOW - 100) == 0.0
    assert relapses(1, NOW - 1000) == 0.0


@pytest.mark.parametrize("more", [ls("blind"), failing_node_qos_resource()])
def test_nothing_rises_or_goes_while_a_pod_is_not_measured_or_a_plugin_failed(more):
    reading = replace(calm(), pods=(*calm().pods, more))
    assert limit(reading, state(6.0)) == 6.0
    assert limit(shielded(reading), state(6.0)) == 6.0


def test_a_plugin_that_failed_does_not_keep_a_limit_from_falling():
    reading = replace(hurt(), pods=(*hurt().pods, failing_node_qos_resource()))
    assert limit(reading, state(10.0, suffering_since=NOW - 5)) == pytest.approx(4.0)


@pytest.mark.parametrize("kept", [{"node_age": 60.0}, {"paused": True}])
def test_stale_data_and_a_pause_keep_the_limit(kept):
    assert limit(replace(hurt(), **kept), state(10.0, suffering_since=NOW - 5)) == 10.0


def test_in_observe_it_is_decided_and_only_reported():
    observing = Settings(cpu_suppress=CpuSuppressSettings(strategy=Strategy.SLO, mode=Mode.OBSERVE))
    before = replace(state(10.0, suffering_since=NOW - 5), be_observed=True)
    (action,) = of_kind(decided(hurt(), before, observing), SetBeCpuLimit)
    assert (action.mode, action.cores) == (Mode.OBSERVE, pytest.approx(4.0))


OBSERVE = Settings(cpu_suppress=CpuSuppressSettings(strategy=Strategy.SLO, mode=Mode.OBSERVE))


def test_what_is_only_observed_teaches_nothing_of_its_use():
    before = replace(state(10.0, suffering_since=NOW - 5), be_observed=True)
    after = remembered(hurt(), before, OBSERVE)
    assert (after.be_limit, after.objective.severity) == (pytest.approx(4.0), None)


@pytest.mark.parametrize(("observed", "settings"), [(True, SLO), (False, OBSERVE)])
@pytest.mark.parametrize("held", [None, 5.0])
def test_lessons_of_another_mode_are_forgotten(observed, settings, held):
    before = state(held, futile=3, borne_until=NOW + 900, borne=9.0, ceiling=2.0, fell=NOW - 60, relapses=2.0, severity=1.0)
    after = remembered(shielded(hurt()), replace(before, be_observed=observed), settings).objective
    assert (after.futile, after.borne_until, after.ceiling, after.fell, after.relapses, after.severity) == (0, None, None, None, 0.0, None)
    assert after.suffering_since == NOW


def test_a_node_full_of_batch_is_no_emergency_and_a_burst_is_granted():
    full = snapshot(
        ls(usage=1.9, limit=2.0, throttled=0.3, request=2.0), be(usage=14.1), cpu_usage=16.0, load1=40.0, memory_total=1, cpu_trend=0.0
    )
    plan = decided(full, state(14.0), SLO)
    assert plan.level.value == "LOW"
    (burst,) = of_kind(plan, SetCpuLimit)
    assert burst.cores == pytest.approx(3.0)


def test_eviction_waits_until_batch_is_at_its_floor():
    before = replace(state(4.0, suffering_since=NOW - 5), suppress_since=NOW - 60)
    crowded = snapshot(ls(usage=15.0, wait=5.0, p99=0.9, slo=0.1, request=1.0), be(usage=4.0), cpu_usage=16.0, cpu_trend=2.0)
    plan = decided(crowded, before, SLO)
    assert of_kind(plan, Evict) == []
    assert "suppress-first" in rules(plan)


@pytest.mark.parametrize(("since", "refused"), [(4.9, ["BE has been at its floor of 0.1 cores for 4.9 s of 5"]), (5.0, [])])
def test_at_its_floor_eviction_waits_five_seconds(since, refused):
    before = replace(state(0.1, suffering_since=NOW - 30), floor_since=NOW - since, suppress_since=NOW - 60)
    crowded = snapshot(ls(usage=15.5, wait=5.0, p99=0.9, slo=0.1, request=1.0), be(usage=0.11), cpu_usage=15.9, cpu_trend=2.0)
    plan = decided(crowded, before, SLO)
    assert [each.reason for each in plan.refusals if each.rule == "suppress-first"] == refused
    assert (of_kind(plan, Evict) == []) is bool(refused)


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ENFORCE])
def test_what_is_let_go_behind_the_shield_is_of_the_mode_it_was_held_in_and_forgotten(mode):
    settings = Settings(cpu_suppress=CpuSuppressSettings(strategy=Strategy.SLO, policy=Policy.CPUSET, mode=mode))
    before = replace(state(0.5), be_cpus="0-4", be_observed=mode is Mode.OBSERVE)
    plan = decided(shielded(calm()), before, settings)
    assert [(type(action), action.mode) for action in plan.actions] == [(RestoreBeCpuLimit, mode), (RestoreBeCpuset, mode)]
    after = remembered(shielded(calm()), before, settings)
    assert (after.be_limit, after.be_cpus) == (None, None)


def test_a_surge_that_hurt_finds_room_when_it_comes_back():
    # Two cores, for a second five, two again: what was learned leaves room for five for a while.
    limits = [after.be_limit for after, _, _ in run([wants(2.0), wants(5.6, p99=0.2), *[wants(2.0)] * 30], None, SLO)]
    assert limits[0] == pytest.approx(10.0)
    assert max(limits[1:]) < 16 - 5


def test_suffering_from_before_a_gap_has_not_lasted():
    before = replace(state(10.0, suffering_since=NOW - 60), time=NOW - 30)
    assert limit(hurt(), before) == 10.0
    assert remembered(hurt(), before, SLO).objective.suffering_since == NOW


def test_what_did_not_fit_for_a_moment_before_a_gap_is_forgotten():
    # 16 - 9 leaves 7: 3 fits, if without the whole margin of 5, and the 8 of a minute ago are nobody's any more.
    before = replace(state(3.0, wanted=9.0, margin=5.0, unsure=8.0), time=NOW - 60)
    assert limit(snapshot(ls(usage=9.0, wait=0.0, p99=0.01, slo=0.1), be(usage=2.0), cpu_usage=11.0), before) == 3.0


# 2 cores in use and 0.6 waited for: all of that counts from 80 percent of the SLO on, half of it at 40, and where no latency is known.
@pytest.mark.parametrize(("p99", "wanted"), [(0.16, 2.6), (0.08, 2.6), (0.04, 2.3), (None, 2.6)])
def test_waiting_counts_as_demand_by_how_near_the_latency_is_to_its_objective(p99, wanted):
    waits = snapshot(ls(usage=2.0, wait=0.6, p99=p99, slo=0.1), be(usage=8.0), cpu_usage=10.0)
    assert remembered(waits, None, SLO).objective.wanted == pytest.approx(wanted)


# -- what a fall leaves behind, and what is said of it -------------------------------------------------------------------------------------


def suffers(limit, **learned):
    return state(limit, suffering_since=NOW - 60, **learned)


def test_a_fall_is_remembered_with_what_it_was_for_and_what_was_too_much():
    after = remembered(hurt(), suffers(10.0), SLO)
    assert (after.objective.severity, after.objective.ceiling, after.objective.fell, after.last_move) == (1.0, 8.0, NOW, -1)
    # The first of several falls says how bad it was without them.
    assert remembered(hurt(), suffers(10.0, severity=0.5), SLO).objective.severity == 0.5


def test_behind_the_shield_only_what_comes_back_with_batch_is_its_doing():
    assert remembered(shielded(hurt()), suffers(None), SLO).objective.ceiling is None
    again = remembered(shielded(hurt()), replace(suffers(None), last_move=1), SLO)
    assert (again.objective.relapses, again.objective.ceiling) == (1.0, 8.0)


def test_a_fall_goes_at_least_to_what_demand_and_its_margin_leave():
    # 0.9 x 8 would be 7.2; 16 - 6 - 4, a second of each eased.
    assert limit(hurt(0.105), suffers(10.0, wanted=6.0, margin=4.0)) == pytest.approx(6.114, abs=0.001)


def test_a_fall_for_a_service_forgets_what_did_not_fit_for_a_moment():
    assert remembered(hurt(), suffers(10.0, unsure=14.0), SLO).objective.unsure is None


def test_while_some_pod_is_not_measured_batch_uses_all_that_nobody_else_does():
    # 12 - LS 2 - system 1, of which half is left.
    reading = snapshot(ls(usage=2.0, wait=0.6, p99=0.2, slo=0.1), be(usage=4.0), be("blind"), cpu_usage=12.0)
    assert limit(reading, replace(suffers(10.0), system_usage=1.0)) == pytest.approx(4.5)


def test_a_fall_by_less_than_a_hundredth_is_none():
    assert limit(hurt(), suffers(0.1005)) == 0.1005
    assert limit(hurt(), suffers(0.105)) == 0.1


@pytest.mark.parametrize(("moved", "ago", "relapses"), [(0, 100, 0.0), (1, 900, 0.0), (1, 899, 1.0)])
def test_what_undoes_a_rise_within_fifteen_minutes_is_a_relapse(moved, ago, relapses):
    assert remembered(hurt(), replace(suffers(10.0, fell=NOW - ago), last_move=moved), SLO).objective.relapses == pytest.approx(relapses)


def test_behind_the_shield_a_fall_has_five_seconds_to_help():
    def futile(ago):
        before = suffers(4.0, fell=NOW - ago, severity=1.0)
        return remembered(shielded(hurt()), before, SLO).objective.futile

    assert (futile(4), futile(5)) == (0, 1)


def test_what_is_half_again_as_bad_as_what_was_borne_is_borne_no_longer():
    def falls(borne):
        return limit(hurt(), suffers(10.0, borne_until=NOW + 60, borne=borne)) < 10.0

    # The severity is 1.
    assert (falls(0.66), falls(0.67)) == (True, False)


def test_a_hundred_seconds_of_room_are_enough_after_one_relapse():
    assert limit(calm(), fallen(roomy=NOW - 100, relapses=1.0)) > 6.0


def test_half_of_a_margin_is_forgotten_in_fifteen_minutes_down_to_a_fiftieth_of_the_cpus():
    assert remembered(calm(), state(6.0), SLO).objective.margin == pytest.approx(0.32 + 0.68 * 0.5 ** (1 / 900), abs=1e-9)


@pytest.mark.parametrize(("relapses", "wanted"), [(0.0, 2 + 4 * math.exp(-1 / 30)), (2.0, 2 + 4 * math.exp(-1 / 120))])
def test_demand_that_falls_is_believed_in_half_a_minute_and_later_after_relapses(relapses, wanted):
    assert remembered(calm(), state(6.0, wanted=6.0, relapses=relapses), SLO).objective.wanted == pytest.approx(wanted, abs=1e-9)


def test_without_a_time_nothing_that_was_learned_is_forgotten():
    after = remembered(replace(calm(), time=None), state(6.0, wanted=6.0), SLO).objective
    assert (after.wanted, after.margin) == (6.0, 1.0)


@pytest.mark.parametrize(("relapses", "after"), [(1.0, 0.5 ** (1 / 900)), (0.01, 0.0)])
def test_half_of_the_relapses_are_forgiven_in_fifteen_minutes(relapses, after):
    assert remembered(calm(), state(6.0, relapses=relapses), SLO).objective.relapses == pytest.approx(after, abs=1e-9)


def test_room_is_what_remembered_demand_and_the_margin_leave():
    assert limit(calm(), state(None, wanted=6.0)) == pytest.approx(16 - 2 - 4 * math.exp(-1 / 30) - 1, abs=0.001)
    assert limit(wants(0.5), State()) == 11.5, "half a core is half a core"


def test_room_is_less_by_what_is_foretold():
    foretold = replace(calm(), forecasts=(Forecast("shop/api", ("shop/api",), cores=5.0),))
    enforced = replace(SLO, forecast=ForecastSettings(mode=Mode.ENFORCE))
    assert limit(foretold, State(), enforced) == 16 - 5 - 4


def test_a_small_limit_fits_where_there_is_room_for_it():
    assert limit(wants(15.2), state(0.5, wanted=15.2)) == 0.5
    assert limit(wants(15.95), state(0.1005, wanted=15.95)) == 0.1005
    after = remembered(wants(15.95), state(0.105, wanted=15.95), SLO)
    assert (after.be_limit, after.objective.fell) == (0.1, NOW)


def test_a_limit_that_fits_is_not_remembered_as_one_that_did_not():
    assert remembered(calm(), state(6.0), SLO).objective.unsure is None
    assert remembered(wants(7.0), state(9.0, unsure=10.0), SLO).objective.unsure is None


def test_behind_the_shield_a_limit_rises_to_none_and_then_nothing_is_too_much_any_more():
    rising = replace(state(5.0, fell=NOW - 3000, ceiling=18.0), last_move=1)
    assert limit(shielded(calm()), rising) == pytest.approx(5.8)
    after = remembered(shielded(calm()), replace(rising, be_limit=15.9), SLO)
    assert (after.be_limit, after.objective.ceiling, after.last_move) == (None, None, 1)


def test_a_rise_of_less_than_a_hundredth_of_the_cpus_is_none():
    assert limit(calm(), state(12.9)) == 12.9
    assert (limit(calm(), state(12.8)), remembered(calm(), state(12.8), SLO).last_move) == (pytest.approx(13.0, abs=0.001), 1)


def test_what_gets_better_forgives_one_fall_of_no_use_and_a_little_better_nothing():
    def left(reading, futile=2):
        after = remembered(reading, suffers(4.0, severity=1.0, futile=futile, fell=NOW - 60), SLO).objective
        return after.severity, after.futile, after.suffering_since

    assert left(calm()) == (None, 1, None)
    assert left(calm(), futile=0) == (None, 0, None)
    # Half above the SLO instead of twice.
    assert left(hurt(0.15)) == (1.0, 2, NOW - 60)
    # Half as bad as it was is better, though a fall has had its time.
    assert remembered(shielded(hurt()), suffers(4.0, severity=2.0, futile=2, fell=NOW - 60), SLO).objective.futile == 2


def test_room_is_counted_from_its_first_cycle():
    assert remembered(calm(), state(6.0), SLO).objective.roomy_since == NOW


@pytest.mark.parametrize(("futile", "relapses", "seconds"), [(0, 0.0, 300), (1, 0.5, 600), (2, 1.0, 1200), (9, 3.0, 3600)])
def test_a_fall_of_no_use_is_borne_for_twice_as_long_each_time_an_hour_at_most(futile, relapses, seconds):
    before = suffers(4.0, severity=1.0, futile=futile, fell=NOW - 5, relapses=relapses, ceiling=8.0)
    after = remembered(shielded(hurt()), before, SLO).objective
    assert (after.severity, after.ceiling, after.futile) == (None, None, futile + 1)
    assert (after.borne, after.borne_until) == (1.0, NOW + seconds)
    assert after.relapses == pytest.approx(max(0.0, relapses * 0.5 ** (1 / 900) - 1))


def test_what_was_too_much_comes_back_half_as_fast_after_a_relapse_and_is_no_bound_above_what_fits():
    once = replace(state(6.3, ceiling=7.0, fell=NOW - 60, relapses=1.0), last_move=1)
    assert limit(calm(), once) == pytest.approx(6.3 + 0.32 * 0.5 ** (0.5 ** (1 / 900)), abs=1e-6)
    assert limit(calm(), replace(state(12.8, ceiling=20.0, fell=NOW - 60), last_move=1)) == pytest.approx(13.0, abs=0.001)


def test_a_pod_that_is_slow_from_elsewhere_is_named():
    plan = decided(hurt(wait=0.0), state(10.0, suffering_since=NOW - 60), SLO)
    (refusal,) = [each for each in plan.refusals if each.rule == "slow-elsewhere"]
    assert refusal.pod == "shop/api"
    assert refusal.reason.startswith(WHY)


def said(reading, before):
    plan = decided(reading, before, SLO)
    return [action.reason for action in plan.actions] + [f"{each.rule}: {each.reason}" for each in plan.refusals]


WHY = "shop/api has p99 200 ms, 100% above its SLO of 100 ms"


@pytest.mark.parametrize(
    ("reading", "before", "words"),
    [
        (
            hurt(),
            suffers(10.0),
            f"{WHY}: min(limit 10, BE usage 8) x 0.50, at most 12.4 (node 16 - LS demand 2.6 - margin 0.9995), at least 0.1: falls to 4",
        ),
        (shielded(hurt()), suffers(None), f"{WHY}: BE usage 8 x 0.50, at least 0.1: falls to 4"),
        (
            calm(),
            State(),
            "node 16 - LS demand 2 - margin 4, at least 0.1; no limit was in force",
        ),
        (
            calm(),
            state(None, wanted=6.0),
            "node 16 - LS demand 5.869 - margin 0.9995, at least 0.1; no limit was in force",
        ),
        (
            calm(),
            state(14.2),
            "node 16 - LS demand 2 - margin 0.9995, at least 0.1: 13; falls at once from 14.2, there is no room for 14.2 beside LS demand",
        ),
        (
            calm(),
            state(11.0),
            (
                "no LS pod suffers from BE, slack 50%, 0 relapses; "
                "at most 13 (node 16 - LS demand 2 - margin 0.9995); from 11 one step to 11.8"
            ),
        ),
        (
            calm(),
            replace(state(6.3, ceiling=7.0, fell=NOW - 60), last_move=1),
            "no LS pod suffers from BE, slack 50%, 0 relapses; at most 6.62 (7 was too much 1.0 min ago); from 6.3 one step to 6.62",
        ),
        (
            shielded(calm()),
            state(5.0),
            "no LS pod has suffered from BE, and the kernel puts it behind all others: no limit instead of 5 cores",
        ),
        (
            shielded(calm()),
            replace(state(15.9, fell=NOW - 3000), last_move=1),
            "no LS pod suffers from BE any more, and the kernel puts it behind all others: no limit instead of 15.9 cores",
        ),
        (
            snapshot(*calm().pods, *(be(f"b{number}") for number in range(4)), cpu_usage=10.0),
            state(5.0),
            "not-measured: BE is not raised while the CPU usage of some pod is unknown: batch/b0, batch/b1, batch/b2",
        ),
        (
            snapshot(*calm().pods, failing_node_qos_resource(), cpu_usage=10.0),
            state(5.0),
            "plugin-failed: a plugin failed in this cycle: nothing is relaxed",
        ),
    ],
)
def test_it_says_why_in_numbers(reading, before, words):
    assert said(reading, before) == [words]
