"""Who suffers, whether BE may be the cause, how much slack the others have, and the calm that is learned (strategy slo)."""

import math

import pytest
from msgspec.structs import replace

from builders import NOW, be, judged, ls, remembered, snapshot
from qosmanager.assess.suffering import stall
from qosmanager.config.settings import CpuSuppressSettings, Settings, Strategy
from qosmanager.model.qos import Mode
from qosmanager.model.state import Objective, State

SLO = Settings(cpu_suppress=CpuSuppressSettings(strategy=Strategy.SLO))


def fare(*pods, calm=None, used=8.0):
    state = State(time=NOW - 1, objective=Objective(calm=calm or {}))
    return judged(snapshot(*pods, cpu_usage=used), state, SLO).wellbeing


def learned(*pods, calm, seconds=1.0):
    state = State(time=NOW - seconds, objective=Objective(calm=calm))
    return remembered(snapshot(*pods, cpu_usage=8.0), state, SLO).objective.calm


def test_other_strategies_judge_nobody_and_forget():
    state = State(time=NOW - 1, objective=Objective(calm={"shop/api": 0.1}))
    reading = snapshot(ls(usage=1.0, wait=0.5), cpu_usage=1.0)
    assert judged(reading, state).wellbeing is None
    assert remembered(reading, state).objective == Objective()


def test_switched_off_judges_nobody():
    off = Settings(cpu_suppress=CpuSuppressSettings(strategy=Strategy.SLO, mode=Mode.OFF))
    assert judged(snapshot(ls(usage=1.0, wait=0.5), cpu_usage=1.0), None, off).wellbeing is None


def test_a_pod_above_its_slo_that_waits_suffers_by_its_latency():
    (found,) = fare(ls(usage=1.0, wait=0.3, p99=0.15, slo=0.1), be(usage=4.0)).caused
    assert (found.pod, found.measure, found.value, found.bound) == ("shop/api", "p99", 0.15, 0.1)
    assert found.severity == pytest.approx(0.5)


def test_a_pod_inside_its_slo_does_not_suffer_whatever_it_waits():
    found = fare(ls(usage=1.0, wait=0.9, p99=0.045, slo=0.1), be(usage=4.0))
    assert found.suffering == ()
    # 1 - 45 / (0.9 x 100)
    assert found.slack == pytest.approx(0.5)


def test_between_nine_tenths_of_its_slo_and_all_of_it_there_is_no_slack():
    assert fare(ls(usage=1.0, p99=0.095, slo=0.1)).slack == 0.0


# Borne without a known latency: 1.5 x calm + 0.1. Calm 0.1: 0.25.
@pytest.mark.parametrize(("wait", "suffers"), [(0.25, False), (0.26, True)])
def test_a_pod_without_a_known_latency_suffers_by_its_stall_against_its_calm(wait, suffers):
    found = fare(ls(usage=1.0, wait=wait), be(usage=4.0), calm={"shop/api": 0.1})
    assert bool(found.caused) is suffers


def test_what_its_own_limit_withholds_is_not_suffered_from():
    # Waits 60 percent of its running time; in half of its periods its own limit throttled it.
    assert fare(ls(usage=1.0, wait=0.6, throttled=0.5), be(usage=4.0)).suffering == ()


# The sign of waiting: above 1.5 x calm + 0.02. Nothing known: calm 0.05, 0.095.
@pytest.mark.parametrize(("wait", "elsewhere"), [(0.095, True), (0.1, False)])
def test_a_latency_without_a_sign_of_waiting_is_from_elsewhere(wait, elsewhere):
    (found,) = fare(ls(usage=1.0, wait=wait, p99=0.3, slo=0.1), be(usage=4.0)).suffering
    assert bool(found.elsewhere) is elsewhere
    assert elsewhere == ("9.5%" in found.elsewhere)


def test_where_waiting_is_not_measured_a_latency_may_be_bes_doing():
    (found,) = fare(ls(usage=1.0, p99=0.3, slo=0.1), be(usage=4.0)).suffering
    assert found.elsewhere == ""


@pytest.mark.parametrize(
    ("usage", "wait", "throttled", "share"),
    [
        (2.0, 0.5, None, 0.25),
        (2.0, 5.0, 0.4, 0.6),  # it cannot wait more than all the time
        (0.5, 0.1, 0.5, 0.0),
        (0.02, 0.01, None, 0.5),
        (0.019, 0.01, None, None),
        (None, 0.1, None, None),
        (1.0, None, None, None),
    ],
)
def test_a_stall_is_the_share_of_running_time_that_it_waits_for_others(usage, wait, throttled, share):
    assert stall(ls(usage=usage, wait=wait, throttled=throttled)) == (None if share is None else pytest.approx(share))


def test_without_a_time_or_a_past_nothing_is_learned_and_after_a_gap_not_more_than_three_seconds():
    reading = snapshot(ls(usage=1.0, wait=0.0), be(usage=4.0), cpu_usage=5.0)

    def calm(before, now=NOW):
        return remembered(replace(reading, time=now), State(time=before, objective=Objective(calm={"shop/api": 0.1})), SLO).objective.calm

    assert calm(NOW, NOW) == calm(None) == calm(NOW - 1, None) == {"shop/api": 0.1}
    assert calm(NOW - 0.5)["shop/api"] == pytest.approx(0.1 * math.exp(-0.05))
    assert calm(NOW - 600)["shop/api"] == pytest.approx(0.1 * math.exp(-0.3))


def test_a_pod_that_hardly_runs_waits_for_nobody():
    (found,) = fare(ls(usage=0.01, wait=0.01, p99=0.3, slo=0.1), be(usage=4.0)).suffering
    assert found.elsewhere == "it hardly runs: 0.01 cores"


def test_a_pod_with_cpus_of_its_own_does_not_suffer_from_be():
    (found,) = fare(ls(usage=1.0, wait=0.9, exclusive_cpus=(0,)), be(usage=4.0)).suffering
    assert found.elsewhere == "its CPUs are its own"


def test_whom_nothing_tells_of_is_named():
    found = fare(ls("a", usage=1.0), ls("b"), ls("least", usage=0.02), ls("idle", usage=0.019))
    assert found.unjudged == ("shop/a", "shop/b", "shop/least")
    assert (found.suffering, found.slack) == ((), 1.0)


def test_calm_falls_soon_and_rises_only_without_be():
    # 10 s: two thirds of the way down, 1 - 1/e of 0.1. Above its calm beside BE nothing is learned.
    stale = {"calm": {"shop/api": 0.2}, "seconds": 3.0}
    assert learned(ls(usage=1.0, wait=0.1), be(usage=4.0), **stale)["shop/api"] == pytest.approx(0.2 - 0.1 * 0.25918, abs=1e-4)
    assert learned(ls(usage=1.0, wait=0.24), be(usage=4.0), **stale)["shop/api"] == 0.2
    assert learned(ls(usage=1.0, wait=0.24), **stale)["shop/api"] == pytest.approx(0.2 + 0.04 * 0.04877, abs=1e-4)


# 2 percent of 16 CPUs.
@pytest.mark.parametrize(("batch", "rises"), [(0.32, True), (0.33, False)])
def test_beside_next_to_no_batch_calm_rises(batch, rises):
    assert (learned(ls(usage=1.0, wait=0.24), be(usage=batch), calm={"shop/api": 0.2})["shop/api"] > 0.2) is rises


@pytest.mark.parametrize(("p99", "slo", "rises"), [(0.05, 0.1, True), (0.4, 0.5, True), (0.41, 0.5, False), (0.09, 0.1, False)])
def test_what_a_pod_waits_while_it_is_well_is_its_calm(p99, slo, rises):
    found = learned(ls(usage=1.0, wait=0.24, p99=p99, slo=slo), be(usage=4.0), calm={"shop/api": 0.2})["shop/api"]
    assert (found > 0.2) is rises


@pytest.mark.parametrize("figures", [{"usage": 0.01, "wait": 0.0}, {"usage": 1.0}, {}])
def test_a_pod_that_cannot_be_judged_keeps_its_calm(figures):
    assert learned(ls(**figures), be(usage=4.0), calm={"shop/api": 0.2}) == {"shop/api": 0.2}


def test_calm_is_never_above_a_quarter_and_pods_that_are_gone_are_forgotten():
    assert learned(ls(usage=1.0, wait=0.9), calm={"shop/api": 0.25, "shop/gone": 0.1}) == {"shop/api": 0.25}
