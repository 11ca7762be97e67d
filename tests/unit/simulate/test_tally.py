"""A run added up, and compared with what was expected."""

import math

import pytest
from msgspec.structs import replace

from qosmanager.config.settings import (
    CpuIsolation,
    CpuSuppressSettings,
    IsolationSettings,
    NodeQosResourceSettings,
    Settings,
    Strategy,
)
from qosmanager.model.actions import Receipt, Result
from qosmanager.model.qos import Mode
from qosmanager.model.state import State
from qosmanager.simulate.expect import check
from qosmanager.simulate.run import Cycle, ServiceTruth, Truth
from qosmanager.simulate.scenario import Agent
from qosmanager.simulate.tally import Tally, most_within
from records import EVICT_CPU, record
from simulated import scenario

SLO = 0.1
DEFAULTS = Settings()


def loaded(*expected):
    listed = "\n".join(f"- {{{each}}}" for each in expected)
    return scenario(
        "name: api, qos: LS, count: 2, slo: {p99: 100ms}, service: {}",
        "name: be, qos: BE",
        duration="6s",
        more=f"expect:\n{listed}\n" if expected else "",
    )


def truth(time, p99s, **changes):
    services = tuple(ServiceTruth(f"default/api-{place}", p99, SLO) for place, p99 in enumerate(p99s))
    fields = {
        "node_cpu": 2.0,
        "ls_cpu": 1.0,
        "be_cpu": 1.0,
        "be_pods": 1,
        "be_limit": None,
        "memory_available": 1,
        "bursts": {},
        "given_up": 1.5,
    }
    told = replace(record(), state=State(reversals=changes.pop("reversals", ())))
    happened = changes.pop("happenings", ())
    return Cycle(truth=Truth(time=time, seconds=1.0, services=services, happenings=happened, **{**fields, **changes}), record=told)


def tally(cycles, *expected):
    made = Tally(loaded(*expected), Settings())
    for cycle in cycles:
        made.add(cycle)
    return made


SIX = [
    truth(1.0, (0.05, 0.06), be_limit=2.0),
    truth(2.0, (0.15, 0.06), be_limit=1.0, happenings=(("oom-killed", "default/be"),)),
    truth(3.0, (0.15, 0.25), be_limit=1.005, bursts={"default/api-0": 3.0}),
    truth(4.0, (0.05, 0.06), be_limit=1.5, bursts={"default/api-0": 3.5}, reversals=(1003.9,)),
    truth(5.0, (None, 0.11), be_limit=1.2, reversals=(1003.9, 1004.9)),
    truth(6.0, (None, None), be_limit=1.2, be_cpu=3.0, reversals=(1003.9, 1004.9)),
]


def test_totals_are_those_of_the_whole_run():
    totals = tally(SIX).totals(has_slo=True)
    assert totals.worst_p99 == pytest.approx(0.25)
    assert totals.median_p99 == pytest.approx(0.11)  # of 0.06, 0.15, 0.25, 0.06, 0.11
    assert totals.over_slo == 3
    assert totals.within_slo == pytest.approx(100 * (1 - 4 / 9))
    assert totals.be_core_hours == pytest.approx(8 / 3600)
    assert totals.node_use == 2
    assert totals.oom_kills == 1
    assert (totals.reversals, totals.most_reversals) == (2, 2)
    assert totals.given_up == 9


def test_an_eviction_counts_when_it_took_place():
    made = tally([])
    for second, result in enumerate((Result.REFUSED, Result.APPLIED, Result.GONE), 1):
        told = record(actions=(EVICT_CPU,), receipts=(Receipt(target="batch/crunch", result=result, action=0),))
        made.add(Cycle(truth=truth(float(second), (0.05,)).truth, record=told))
    assert made.happenings == [(2.0, "evicted", "batch/crunch")]


def test_a_reversal_before_the_first_cycle_or_of_a_limit_that_is_only_observed_is_none_of_the_run():
    before = [truth(1.0, (0.05,), be_limit=2.0, reversals=(990.0,)), truth(2.0, (0.05,), be_limit=2.0, reversals=(990.0,))]
    assert tally(before).reversals == []
    assert tally([truth(1.0, (0.05,)), truth(2.0, (0.05,), reversals=(1001.9,))]).reversals == []


def test_a_burst_that_still_runs_at_the_end_counts_and_ends_there():
    running = [truth(1.0, (0.05,)), *(truth(time, (0.05,), bursts={"default/api-0": 3.0}) for time in (2.0, 3.0, 4.0))]
    assert tally(running).bursts == [(2.0, 4.0, "default/api-0", 3.0)]


def test_what_is_not_measured_counts_like_the_mean_of_the_rest():
    totals = tally([truth(1.0, ()), truth(2.0, (), be_cpu=None, node_cpu=None), truth(3.0, (), be_cpu=2.0)]).totals(has_slo=False)
    assert totals.be_core_hours == pytest.approx(1.5 * 3 / 3600)
    assert (totals.node_use, totals.be_unmeasured) == (2.0, 1.0)
    never = tally([truth(1.0, (), be_cpu=None, node_cpu=None)]).totals(has_slo=False)
    assert (never.be_core_hours, never.node_use, never.be_unmeasured) == (None, None, 1.0)


def test_without_an_slo_there_is_no_time_above_it():
    assert tally(SIX).totals(has_slo=False).over_slo is None


def test_moments_within_a_minute_are_counted_in_any_minute():
    assert most_within([0, 30, 59, 60, 61, 200], 60.0) == 4
    assert most_within([], 60.0) == 0


def value(measure, **more):
    rest = "".join(f", {key}: {each}" for key, each in more.items())
    expectation = f"measure: {measure}, at_least: 0{rest}"
    made = tally(SIX, expectation)
    (found,) = check(loaded(expectation).scenario, Settings(), {Agent.ON: made, Agent.OFF: made})
    return found.value


@pytest.mark.parametrize(
    ("measure", "more", "expected"),
    [
        ("over_slo", {}, 3),
        ("over_slo", {"after": "2s", "before": "4s"}, 1),
        ("longest_over_slo", {}, 2),
        ("within_slo", {"workload": "api"}, 55.5556),
        ("worst_p99", {"before": "2s"}, 150),
        ("median_p99", {}, 110),
        ("p99_ratio", {}, 1),
        ("be_cores", {}, 8 / 6),
        ("be_limit", {"after": "3s"}, 1.3),
        ("least_be_limit", {}, 1),
        ("node_use", {}, 50),
        ("idle_cores", {}, 2),
        ("oom_kills", {}, 1),
        ("oom_kills", {"workload": "api"}, 0),
        ("reversals", {}, 2),
        ("bursts", {"workload": "api"}, 1),
        ("bursts", {"workload": "be"}, 0),
        ("burst_limit", {}, 3.5),
        ("longest_burst", {}, 2),
    ],
)
def test_a_measure_is_what_its_name_says(measure, more, expected):
    assert value(measure, **more) == pytest.approx(expected, abs=0.001)


def findings(*expected, settings=DEFAULTS, agents=(Agent.ON,)):
    return check(loaded(*expected).scenario, settings, {agent: tally(SIX) for agent in agents})


def test_a_bound_at_equality_is_met_and_beyond_it_is_not():
    assert [each.met for each in findings("measure: over_slo, at_most: 3", "measure: over_slo, at_most: 2.9")] == [True, False]


def test_a_claim_that_is_not_reached_is_shown_and_not_demanded():
    (found,) = findings("measure: over_slo, at_most: 0, claim: true")
    assert (found.met, found.value) == (None, 3)


def test_what_never_happened_meets_nothing():
    (found,) = findings("measure: leak_named, workload: be, at_most: 6")
    assert (found.met, found.value) == (False, None)


def test_only_what_is_about_a_run_that_was_made_and_its_strategy_is_looked_at():
    expected = (
        "measure: over_slo, at_most: 9, agent: without",
        "measure: over_slo, at_most: 9, strategy: usage",
        "measure: p99_ratio, at_most: 2",
    )
    assert findings(*expected) == ()
    assert (
        len(findings(*expected, settings=Settings(cpu_suppress=CpuSuppressSettings(strategy=Strategy.USAGE)), agents=(Agent.ON, Agent.OFF)))
        == 3
    )


@pytest.mark.parametrize(
    ("settings", "bounds"),
    [
        (Settings(), ["at most 1", "at most 3"]),
        (Settings(isolation=IsolationSettings(cpu=CpuIsolation.IDLE)), ["at most 1", "at most 3"]),
        (Settings(isolation=IsolationSettings(cpu=CpuIsolation.OFF)), ["at most 2", "at most 3"]),
        (Settings(node_qos_resource=NodeQosResourceSettings(mode=Mode.OFF)), ["at most 2", "at most 3"]),
        (Settings(node_qos_resource=NodeQosResourceSettings(mode=Mode.OBSERVE)), ["at most 2", "at most 3"]),
    ],
    ids=["as by default", "idle", "no isolation", "off", "observed"],
)
def test_what_is_expected_of_batch_behind_the_weights_is_not_expected_without_them(settings, bounds):
    expected = ("at_most: 1, weights: with", "at_most: 2, weights: without", "at_most: 3")
    found = findings(*(f"measure: reversals, {each}" for each in expected), settings=settings)
    assert [each.bounds for each in found] == bounds


def test_a_cycle_without_a_limit_is_no_number():
    assert math.isnan(tally([truth(1.0, (0.05,))]).limit[0])
