"""What receipts mean for the state (specification, sections 9 and 10)."""

import pytest
from msgspec.structs import replace

from builders import NOW, be, ls, snapshot
from qosmanager.model.actions import (
    Evict,
    Plan,
    Receipt,
    RestoreBeCpuLimit,
    RestoreBeCpuset,
    RestoreCpuLimit,
    Result,
    SetBeCpuLimit,
    SetBeCpuset,
    SetCpuLimit,
    Verdict,
)
from qosmanager.model.qos import Level, Mode, Plugin
from qosmanager.model.state import Burst, Pending, State, Watch
from qosmanager.verify import observe, settle

READING = snapshot(
    ls(uid="u1", usage=2.0, limit=2.0, throttled=0.25), be(uid="u2", usage=1.0, rss=5), cpu_usage=3.0, memory_total=100, memory_available=40
)
BURST = Burst(pod="shop/api", base_limit=2.0, limit=3.0, started=NOW, uid="u1")
VICTIM = Pending(pod="batch/etl", since=NOW, uid="u2", cpu=1.0, memory=5)

RAISE = SetCpuLimit(plugin=Plugin.CPU_BURST, reason="1", pod="shop/api", cores=3.0, base=2.0)
LOWER = RestoreCpuLimit(plugin=Plugin.CPU_BURST, reason="1", pod="shop/api", cores=2.0)
HOLD = SetBeCpuLimit(plugin=Plugin.CPU_SUPPRESS, reason="1", cores=3.5)
LIFT = RestoreBeCpuLimit(plugin=Plugin.CPU_SUPPRESS, reason="1")
PIN = SetBeCpuset(plugin=Plugin.CPU_SUPPRESS, reason="1", cpus="0-3,8")
UNPIN = RestoreBeCpuset(plugin=Plugin.CPU_SUPPRESS, reason="1")
EVICT = Evict(plugin=Plugin.CPU_EVICT, reason="1", pod="batch/etl", uid="u2", cpu=1.0, memory=5)

NOT_DONE = [Result.FAILED, Result.REFUSED, Result.RECORDED]
DONE = [Result.APPLIED, Result.UNCHANGED]


def settled(before, planned, action, *results, target="file", pod=None):
    receipts = tuple(Receipt(target=target, result=result, action=0, pod=pod) for result in results)
    return settle(before, planned, Plan(actions=(action,)), receipts, READING)


@pytest.mark.parametrize("result", NOT_DONE)
def test_a_burst_that_could_not_be_written_did_not_begin(result):
    state, _ = settled(State(), State(bursts=(BURST,)), RAISE, Result.APPLIED, result)
    assert (state.bursts, state.watches) == ((), ())


def test_a_burst_of_a_pod_that_has_gone_did_not_begin():
    assert settled(State(), State(bursts=(BURST,)), RAISE, Result.GONE)[0].bursts == ()


@pytest.mark.parametrize("result", NOT_DONE)
def test_a_burst_that_could_not_be_ended_is_still_in_force(result):
    state, _ = settled(State(bursts=(BURST,)), State(), LOWER, result)
    assert state.bursts == (BURST,)


@pytest.mark.parametrize("result", NOT_DONE)
@pytest.mark.parametrize("action", [HOLD, LIFT, PIN, UNPIN])
def test_a_be_limit_that_could_not_be_written_leaves_the_old_one_in_force(action, result):
    before = State(be_limit=4.0, be_cpus="0-3")
    state, _ = settled(before, State(be_limit=3.5, be_cpus="0-3"), action, result)
    assert (state.be_limit, state.be_cpus) == (4.0, "0-3")


@pytest.mark.parametrize("action", [HOLD, PIN])
def test_what_could_not_be_written_has_not_been_tried(action):
    before = State(be_limit=4.0, suppress_level=Level.CRITICAL, suppress_since=NOW - 9)
    planned = replace(before, be_limit=0.1, suppress_since=NOW - 9, floor_since=NOW)
    state, _ = settled(before, planned, action, Result.REFUSED)
    assert (state.suppress_level, state.suppress_since, state.floor_since) == (Level.CRITICAL, NOW, None)
    free, _ = settled(State(), planned, action, Result.RECORDED)
    assert (free.suppress_since, free.floor_since) == (NOW - 9, None)


@pytest.mark.parametrize("result", NOT_DONE)
def test_a_victim_that_was_not_evicted_is_not_pending_and_nothing_cools_down(result):
    planned = State(pending=(VICTIM,), cooldown_until={"CPUEvict": NOW + 60}, evict_rounds=1)
    assert settled(State(), planned, EVICT, result)[0] == State(unfit_since={"u2": NOW})


def test_a_victim_that_cannot_be_ended_after_all_is_one_no_more():
    before = State(pending=(VICTIM,), cooldown_until={"CPUEvict": NOW + 60})
    failed = Receipt(target="batch/etl", result=Result.FAILED, pod="batch/etl")
    state, _ = settle(before, before, Plan(), (failed,), READING)
    assert state == State(cooldown_until={"CPUEvict": NOW + 60}, unfit_since={"u2": NOW})
    of_a_file = replace(failed, target="cpu:/batch/etl/cpu.cfs_quota_us")
    assert settle(before, before, Plan(), (of_a_file,), READING)[0] == before


def later(state, *receipts):
    """What comes of a state when receipts arrive that no action of the cycle asked for."""
    told = tuple(Receipt(target=pod, result=result, pod=pod) for pod, result in receipts)
    return settle(state, state, Plan(), told, READING)[0]


@pytest.mark.parametrize("result", [Result.GONE, Result.FAILED])
def test_the_end_of_a_victim_says_nothing_of_its_successor(result):
    before = State(pending=(VICTIM,), watches=(Watch(plugin="MemoryEvict", kind="evict", target="batch/etl", since=NOW, uid="u2"),))

    def after(uid):
        told = Receipt(target="batch/etl", result=result, pod="batch/etl", uid=uid)
        return settle(before, before, Plan(), (told,), READING)

    assert after("u1") == (before, ())
    # Recordings of older versions do not say whose end it was.
    assert after("u2") == after("")
    assert after("u2")[0].pending == ()


ROUND = State(
    pending=(VICTIM,),
    watches=(Watch(plugin="CPUEvict", kind="evict", target="batch/etl", since=NOW, uid="u2"),),
    cooldown_until={"CPUEvict": NOW + 60, "MemoryEvict": NOW + 30},
    evict_rounds=1,
)
OTHER = replace(VICTIM, pod="batch/other", uid="u3")


def test_when_nobody_of_a_round_goes_after_all_nothing_cools_down():
    state = later(ROUND, ("batch/etl", Result.FAILED))
    assert (state.cooldown_until, state.evict_rounds) == ({"MemoryEvict": NOW + 30}, 0)


def test_the_cooldown_stays_while_another_of_the_round_is_on_its_way():
    state = later(replace(ROUND, pending=(VICTIM, OTHER)), ("batch/etl", Result.FAILED))
    assert (state.cooldown_until["CPUEvict"], state.evict_rounds) == (NOW + 60, 1)


def test_the_cooldown_of_a_later_round_stays_when_a_victim_of_an_earlier_one_cannot_be_ended():
    state = later(replace(ROUND, pending=(VICTIM, replace(OTHER, since=NOW + 61)), evict_rounds=2), ("batch/etl", Result.FAILED))
    assert (state.cooldown_until["CPUEvict"], state.evict_rounds) == (NOW + 60, 2)


def test_the_cooldown_stays_when_another_of_the_round_has_gone_before():
    state = later(replace(ROUND, victim_ended=NOW), ("batch/etl", Result.FAILED))
    assert (state.cooldown_until["CPUEvict"], state.evict_rounds) == (NOW + 60, 1)


def test_a_victim_of_memory_evict_that_stays_ends_no_cooldown():
    watch = replace(ROUND.watches[0], plugin="MemoryEvict")
    state = later(replace(ROUND, watches=(watch,)), ("batch/etl", Result.FAILED))
    assert (state.cooldown_until["CPUEvict"], state.evict_rounds) == (NOW + 60, 1)


def test_cpus_that_could_not_be_set_are_remembered_until_they_can():
    before = State(be_limit=4.0)
    state, _ = settled(before, State(be_limit=3.5, be_cpus="0-3,8"), PIN, Result.REFUSED)
    assert state == State(be_limit=4.0, cpuset_refused=NOW, suppress_since=NOW)
    assert settled(state, replace(state, be_cpus="0-3,8"), PIN, Result.APPLIED)[0].cpuset_refused is None


def test_a_burst_whose_group_was_made_anew_is_over():
    before = State(bursts=(BURST, replace(BURST, pod="shop/web")))
    gone = Receipt(target="cpu:/api/cpu.cfs_quota_us", result=Result.GONE, pod="shop/api")
    state, _ = settle(before, before, Plan(), (gone,), READING)
    assert [burst.pod for burst in state.bursts] == ["shop/web"]


def test_the_cooldown_stays_when_another_of_the_round_went():
    other = replace(VICTIM, pod="batch/other")
    planned = State(pending=(VICTIM, other), cooldown_until={"CPUEvict": NOW + 60}, evict_rounds=1)
    state, _ = settled(State(), planned, EVICT, Result.REFUSED)
    assert (state.pending, state.cooldown_until, state.evict_rounds) == ((other,), {"CPUEvict": NOW + 60}, 1)


def test_a_victim_of_an_earlier_round_does_not_count_for_this_one():
    old = replace(VICTIM, pod="batch/old")
    planned = State(pending=(old, VICTIM), cooldown_until={"CPUEvict": NOW + 60}, evict_rounds=2)
    state, _ = settled(State(pending=(old,), evict_rounds=1), planned, EVICT, Result.REFUSED)
    assert (state.pending, state.cooldown_until, state.evict_rounds) == ((old,), {}, 1)


@pytest.mark.parametrize("result", DONE)
@pytest.mark.parametrize(
    ("action", "watch"),
    [
        (RAISE, Watch(plugin="CPUBurst", kind="set_cpu_limit", target="shop/api", since=NOW, uid="u1", value=3.0, before=0.25)),
        (LOWER, Watch(plugin="CPUBurst", kind="restore_cpu_limit", target="shop/api", since=NOW, uid="u1", value=2.0)),
        (HOLD, Watch(plugin="CPUSuppress", kind="set_be_cpu_limit", target="BE", since=NOW, value=3.5)),
        (PIN, Watch(plugin="CPUSuppress", kind="set_be_cpuset", target="BE", since=NOW, value=5.0)),
        (LIFT, Watch(plugin="CPUSuppress", kind="restore_be_cpu_limit", target="BE", since=NOW)),
        (EVICT, Watch(plugin="CPUEvict", kind="evict", target="batch/etl", since=NOW, uid="u2", value=5.0, before=40.0)),
    ],
)
def test_what_was_done_is_watched(action, watch, result):
    assert settled(State(), State(), action, result)[0].watches == (watch,)


def test_a_burst_is_watched_by_wait_where_throttling_is_not_measured():
    reading = snapshot(ls(usage=2.0, wait=0.5), cpu_usage=2.0)
    state, _ = settle(State(), State(), Plan(actions=(RAISE,)), (Receipt(target="f", result=Result.APPLIED, action=0),), reading)
    assert state.watches[0].before == 0.25


def test_the_newest_action_of_a_kind_on_a_target_is_the_one_watched():
    old = Watch(plugin="CPUSuppress", kind="set_be_cpu_limit", target="BE", since=NOW - 1, value=9.0)
    other = Watch(plugin="CPUBurst", kind="set_cpu_limit", target="shop/web", since=NOW - 1)
    state, _ = settled(State(), State(watches=(old, other)), HOLD, Result.APPLIED)
    assert [(watch.target, watch.value) for watch in state.watches] == [("shop/web", None), ("BE", 3.5)]


def test_without_a_receipt_nothing_is_watched():
    assert settled(State(), State(be_limit=3.5), HOLD)[0] == State(be_limit=3.5)


def test_what_is_observed_needs_no_receipt_and_is_not_watched():
    observed = replace(HOLD, mode=Mode.OBSERVE)
    assert settled(State(), State(be_limit=3.5, be_observed=True), observed, Result.FAILED)[0].be_limit == 3.5


def test_a_foreign_value_on_an_ls_file_ends_the_burst_and_is_told():
    state, outcomes = settled(State(bursts=(BURST,)), State(bursts=(BURST,)), HOLD, Result.DRIFTED, pod="shop/api")
    assert state.bursts == ()
    assert [(outcome.plugin, outcome.verdict, outcome.target) for outcome in outcomes] == [
        (Plugin.CPU_BURST, Verdict.OVERWRITTEN, "shop/api")
    ]


@pytest.mark.parametrize(
    ("target", "plugin"),
    [
        ("cpu.cfs_quota_us", Plugin.CPU_SUPPRESS),
        ("cpuset:/be/cpuset.cpus", Plugin.CPU_SUPPRESS),
        ("cpu:/be/cpu.shares", Plugin.NODE_QOS_RESOURCE),
        ("memory:/be/memory.high", Plugin.NODE_QOS_RESOURCE),
    ],
)
def test_a_foreign_value_on_a_be_file_was_put_back_and_is_told(target, plugin):
    state, outcomes = settled(State(be_limit=3.5), State(be_limit=3.5), HOLD, Result.DRIFTED, target=target)
    assert state.be_limit == 3.5
    assert [(outcome.plugin, outcome.verdict, outcome.target) for outcome in outcomes] == [(plugin, Verdict.OVERWRITTEN, target)]


@pytest.mark.parametrize(("pod", "found"), [(None, "5000"), ("shop/api", "7000")])
def test_the_foreign_value_is_told_and_not_ours(pod, found):
    receipt = Receipt(target="f", result=Result.DRIFTED, pod=pod, before="5000", after="7000", detail="why")
    _, outcomes = settle(State(), State(), Plan(), (receipt,), READING)
    assert outcomes[0].detail == f"{found} was found instead of ours; why"


def test_a_victim_without_processes_is_gone_although_its_group_stays():
    # A declared group is nobody's to remove: batch that is started in it again is a pod like any other.
    watch = Watch(plugin="MemoryEvict", kind="evict", target="batch/etl", since=NOW - 2, uid="u2")
    other = replace(VICTIM, pod="batch/other", uid="")
    before = State(pending=(VICTIM, other), terminating_since={"u2": NOW - 2, "batch/other": NOW - 2}, watches=(watch,))
    gone = Receipt(target="batch/etl", result=Result.GONE, pod="batch/etl")
    state, outcomes = settle(before, before, Plan(), (gone,), READING)
    assert state == State(pending=(other,), terminating_since={"batch/other": NOW - 2}, victim_ended=NOW)
    assert [(outcome.verdict, outcome.target, outcome.since) for outcome in outcomes] == [(Verdict.EFFECTIVE, "batch/etl", NOW - 2)]


def test_a_victim_that_cannot_be_ended_after_minutes_gives_its_round_back():
    reading = snapshot(be("etl", uid="u2"), cpu_usage=3.0, time=NOW + 151)
    seen, _ = observe(ROUND, reading)
    failed = Receipt(target="batch/etl", result=Result.FAILED, pod="batch/etl", uid="u2")
    state, _ = settle(seen, seen, Plan(), (failed,), reading)
    assert (state.pending, state.cooldown_until, state.evict_rounds) == ((), {"MemoryEvict": NOW + 30}, 0)
    _, (outcome,) = observe(state, replace(reading, time=NOW + 152))
    assert outcome.verdict is Verdict.INEFFECTIVE
