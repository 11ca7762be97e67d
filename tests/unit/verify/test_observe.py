"""What became of earlier actions (specification, section 10)."""

import pytest
from msgspec.structs import replace

from builders import NOW, be, ls, snapshot
from qosmanager.model.actions import Verdict
from qosmanager.model.state import Pending, State, Watch
from qosmanager.verify import observe

LIMIT = Watch(plugin="CPUSuppress", kind="set_be_cpu_limit", target="BE", since=NOW, value=2.0)
BURST = Watch(plugin="CPUBurst", kind="set_cpu_limit", target="shop/api", since=NOW, value=3.0, before=0.2)
GONE = Watch(plugin="CPUEvict", kind="evict", target="batch/etl", since=NOW, value=5.0, before=40.0)
FREED = replace(GONE, plugin="MemoryEvict")


def verdict(watch, *pods, after=1.0, **node):
    """Return the verdict and whether the watch goes on."""
    reading = snapshot(*pods, cpu_usage=3.0, time=NOW + after, **node)
    state, outcomes = observe(State(watches=(watch,)), reading)
    return [outcome.verdict for outcome in outcomes], bool(state.watches)


EFFECTIVE = ([Verdict.EFFECTIVE], False)
PENDING = ([Verdict.PENDING], True)
INEFFECTIVE = ([Verdict.INEFFECTIVE], False)
ENDED = ([Verdict.GONE], False)


@pytest.mark.parametrize(
    ("usage", "after", "expected"),
    [(2.2, 1, EFFECTIVE), (2.21, 1, PENDING), (2.21, 2.9, PENDING), (2.21, 3, INEFFECTIVE), (2.2, 9, EFFECTIVE)],
)
def test_a_be_limit_holds_when_batch_keeps_to_it_within_three_seconds(usage, after, expected):
    assert verdict(LIMIT, be(usage=usage), after=after) == expected


@pytest.mark.parametrize(("after", "expected"), [(1, PENDING), (3, EFFECTIVE)])
def test_batch_that_is_not_measured_is_not_taken_for_idle(after, expected):
    assert verdict(LIMIT, be("a", usage=0.1), be("b"), after=after) == expected


@pytest.mark.parametrize(
    ("throttled", "after", "expected"),
    [(0.1, 1, EFFECTIVE), (0.2, 1, PENDING), (0.2, 3, INEFFECTIVE), (0.0, 1, EFFECTIVE), (None, 1, PENDING), (None, 3, EFFECTIVE)],
)
def test_a_burst_helps_when_throttling_falls(throttled, after, expected):
    assert verdict(BURST, ls(usage=2.0, throttled=throttled), after=after) == expected


def test_a_burst_of_a_pod_that_never_was_throttled_is_effective():
    assert verdict(replace(BURST, before=0.0), ls(usage=2.0, throttled=0.0)) == EFFECTIVE


@pytest.mark.parametrize("pods", [(), (ls(uid="another", throttled=0.9),)])
def test_a_burst_of_a_pod_that_ended_or_was_made_again_is_gone(pods):
    assert verdict(BURST, *pods) == ENDED
    assert verdict(replace(BURST, kind="restore_cpu_limit"), *pods) == ENDED


def test_a_value_that_was_put_back_is_effective():
    assert verdict(replace(BURST, kind="restore_cpu_limit"), ls(throttled=0.9)) == EFFECTIVE
    assert verdict(replace(LIMIT, kind="restore_be_cpu_limit", value=None), be(usage=9.0)) == EFFECTIVE


@pytest.mark.parametrize(("after", "expected"), [(59, PENDING), (60, INEFFECTIVE)])
def test_a_victim_has_a_minute_to_go(after, expected):
    assert verdict(GONE, be(), after=after) == expected


@pytest.mark.parametrize("uid", ["", "u1"])
def test_a_victim_on_its_way_has_all_the_time_that_its_grace_period_gives_it(uid):
    watch, victim = replace(GONE, uid=uid), Pending(pod="batch/etl", since=NOW, uid=uid, cpu=5.0)
    state, outcomes = observe(State(watches=(watch,), pending=(victim,)), snapshot(be(uid=uid), cpu_usage=3.0, time=NOW + 119))
    assert [outcome.verdict for outcome in outcomes] == [Verdict.PENDING]
    assert state == State(watches=(replace(watch, pending=True),), pending=(victim,))
    _, (outcome,) = observe(state, snapshot(cpu_usage=3.0, time=NOW + 120))
    assert (outcome.verdict, outcome.since) == (Verdict.EFFECTIVE, NOW)


def test_that_another_victim_is_on_its_way_gives_it_no_more_time():
    other = Pending(pod="batch/etl", since=NOW, uid="another")
    _, (outcome,) = observe(State(watches=(GONE,), pending=(other,)), snapshot(be(), cpu_usage=3.0, time=NOW + 60))
    assert (outcome.verdict, outcome.detail) == (Verdict.INEFFECTIVE, "still here after 60 s")


def test_a_victim_that_is_gone_is_effective():
    assert verdict(GONE) == EFFECTIVE


def test_a_victim_made_again_under_its_name_is_gone():
    assert verdict(replace(GONE, uid="old"), be(uid="new"), after=99) == EFFECTIVE


@pytest.mark.parametrize(
    ("watch", "available", "after", "expected"),
    [
        (FREED, 41, 1, EFFECTIVE),
        (FREED, 40, 1, PENDING),
        (FREED, 40, 60, INEFFECTIVE),
        (FREED, None, 1, EFFECTIVE),
        (GONE, 30, 1, EFFECTIVE),
    ],
)
def test_who_goes_for_memory_must_leave_more_of_it(watch, available, after, expected):
    assert verdict(watch, after=after, memory_total=100, memory_available=available) == expected


def test_pending_is_told_once():
    reading = snapshot(be(usage=9.0), cpu_usage=9.0, time=NOW + 1)
    state, first = observe(State(watches=(LIMIT,)), reading)
    _, second = observe(state, reading)
    assert ([outcome.verdict for outcome in first], second) == ([Verdict.PENDING], ())


def test_an_outcome_names_its_action_and_the_numbers():
    _, (outcome,) = observe(State(watches=(LIMIT,)), snapshot(be(usage=1.5), cpu_usage=2.0))
    assert (outcome.plugin.value, outcome.kind, outcome.target, outcome.since) == ("CPUSuppress", "set_be_cpu_limit", "BE", NOW)
    assert "1.5 of 2 cores" in outcome.detail


VICTIM = Pending(pod="batch/etl", since=NOW - 5, uid="u1", cpu=1.0)


def test_a_victim_is_pending_until_it_is_gone():
    here = snapshot(be(uid="u1"), cpu_usage=1.0)
    assert observe(State(pending=(VICTIM,)), here)[0] == State(pending=(VICTIM,))


@pytest.mark.parametrize("pods", [(), (be(uid="u2"),), (be("other", uid="u1"),)])
def test_a_victim_that_is_gone_or_made_again_is_no_longer_pending(pods):
    state, _ = observe(State(pending=(VICTIM,)), snapshot(*pods, cpu_usage=1.0))
    assert (state.pending, state.victim_ended) == ((), NOW)


def test_the_end_of_one_victim_does_not_restart_the_time_of_another_that_terminates():
    before = State(pending=(VICTIM,), terminating_since={"batch/other": NOW - 25})
    state, _ = observe(before, snapshot(be("other", terminating=True), cpu_usage=1.0))
    assert state.terminating_since == {"batch/other": NOW - 25}
