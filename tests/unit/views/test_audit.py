from msgspec.structs import replace

from qosmanager.model.actions import Outcome, Result, Verdict
from qosmanager.model.qos import Plugin
from qosmanager.model.snapshot import Node
from qosmanager.views.audit import Trail
from records import EVICT_CPU, EVICT_MEMORY, MIB, WALL, observed, receipt, record


def trail():
    return Trail("node-1", 42)


def evicting(number=1, action=EVICT_CPU, result=Result.APPLIED, **changes):
    return record(number, actions=(action,), receipts=(receipt(0, result, target="batch/crunch", detail="under way"),), **changes)


def gone(number, result=Result.GONE, detail="no process is left"):
    return record(number, receipts=(receipt(None, result, target="batch/crunch", pod="batch/crunch", detail=detail),))


def judged(number, verdict, since=101.0, plugin=Plugin.CPU_EVICT, **changes):
    outcome = Outcome(plugin=plugin, kind="evict", target="batch/crunch", verdict=verdict, since=since, detail="the numbers")
    return record(number, outcomes=(outcome,), **changes)


def with_memory(available, of):
    return replace(of, snapshot=replace(of.snapshot, node=Node(cpus=2.0, cpu_usage=1.5, memory_available=available)))


def test_one_line_when_it_is_over_with_who_why_and_what_became_of_it():
    follow = trail()
    assert follow.observe(with_memory(100 * MIB, evicting(1))) == ()
    assert [line.pod for line in follow.under_way] == ["batch/crunch"]
    assert follow.observe(judged(2, Verdict.PENDING)) == ()
    assert follow.observe(gone(4)) == ()
    (line,) = follow.observe(with_memory(400 * MIB, judged(5, Verdict.EFFECTIVE)))
    assert (line.node, line.pid, line.cycle, line.pod, line.plugin, line.priority) == ("node-1", 42, 1, "batch/crunch", "CPUEvict", 0)
    assert (line.reason, line.score, line.level, line.slo) == ("short of 0.4 cores", 30.0, "HIGH", "ok")
    assert (line.begun, line.gone, line.took) == ("2027-01-15T08:00:01.000Z", "2027-01-15T08:00:04.000Z", 3.0)
    assert (line.cpu, line.memory) == (0.5, 300 * MIB)
    assert (line.memory_available_before, line.memory_available_after) == (100 * MIB, 400 * MIB)
    assert (line.outcome, line.detail) == ("effective", "the numbers")
    assert follow.under_way == ()


def test_a_memory_eviction_rests_on_the_memory_score():
    follow = trail()
    follow.observe(evicting(1, EVICT_MEMORY))
    (line,) = follow.observe(judged(3, Verdict.EFFECTIVE, plugin=Plugin.MEMORY_EVICT))
    assert (line.plugin, line.score, line.gone) == ("MemoryEvict", 10.0, "2027-01-15T08:00:03.000Z")


def test_how_long_it_took_does_not_change_when_somebody_sets_the_clock_back():
    follow = trail()
    follow.observe(evicting(1))
    follow.observe(replace(gone(4), wall=WALL - 3600))
    (line,) = follow.observe(judged(5, Verdict.EFFECTIVE))
    assert (line.gone, line.took) == ("2027-01-15T07:00:00.000Z", 3.0)


def test_a_victim_that_stays_has_no_end():
    follow = trail()
    follow.observe(evicting(1))
    (line,) = follow.observe(judged(61, Verdict.INEFFECTIVE))
    assert (line.outcome, line.gone, line.took) == ("ineffective", None, None)


def test_a_victim_that_went_for_nothing_has_an_end():
    follow = trail()
    follow.observe(evicting(1))
    over = judged(91, Verdict.INEFFECTIVE)
    (line,) = follow.observe(replace(over, snapshot=replace(over.snapshot, pods=())))
    assert (line.outcome, line.gone, line.took) == ("ineffective", "2027-01-15T08:01:31.000Z", 90.0)


def test_one_that_cannot_be_begun_is_a_line_at_once():
    (line,) = trail().observe(evicting(1, result=Result.FAILED))
    assert (line.outcome, line.detail, line.gone) == ("failed", "under way", None)


def test_one_that_cannot_be_ended_is_a_line_when_that_is_known():
    follow = trail()
    follow.observe(evicting(1))
    (line,) = follow.observe(gone(31, Result.FAILED, "processes are left in uninterruptible sleep"))
    assert (line.outcome, line.detail) == ("failed", "processes are left in uninterruptible sleep")
    assert follow.observe(judged(61, Verdict.INEFFECTIVE)) == ()


def test_what_was_only_observed_or_is_under_way_already_is_no_eviction():
    follow = trail()
    assert follow.observe(record(actions=(observed(EVICT_CPU),))) == ()
    assert follow.observe(evicting(1, result=Result.UNCHANGED)) == ()
    assert follow.under_way == ()


def test_a_verdict_on_another_eviction_of_the_same_name_is_not_taken():
    follow = trail()
    follow.observe(evicting(1))
    assert follow.observe(judged(2, Verdict.EFFECTIVE, since=77.0)) == ()
    assert len(follow.under_way) == 1


def test_a_pod_of_the_same_name_evicted_again_ends_the_first_line():
    follow = trail()
    follow.observe(evicting(1))
    (line,) = follow.observe(evicting(9))
    assert (line.cycle, line.outcome) == (1, "unknown")
    assert [each.cycle for each in follow.under_way] == [9]


def test_an_agent_that_stops_says_that_it_did_not_see_the_end():
    follow = trail()
    follow.observe(evicting(1))
    (line,) = follow.end("the agent stopped")
    assert (line.outcome, line.detail) == ("unknown", "the agent stopped")
    assert follow.end("the agent stopped") == ()


def refused(number, uid="", detail="a disruption budget forbids it; asked again in 30 s"):
    """A cycle that evicts, and one in which that is refused, which is what comes back."""
    action = replace(EVICT_CPU, uid=uid)
    return evicting(number, action), gone(number + 1, Result.FAILED, detail)


def told(follow, *records):
    return [(line.cycle, line.alike) for each in records for line in follow.observe(each)]


def test_refusals_of_one_pod_for_one_reason_share_a_line_an_hour():
    follow = trail()
    assert told(follow, *refused(1)) == [(1, 0)]
    assert told(follow, *refused(11), *refused(21, detail="a disruption budget forbids it; asked again in 7 s"), *refused(3599)) == []
    assert told(follow, record(3601)) == []
    (line,) = follow.observe(record(3602))  # an hour after the first one was known
    assert (line.cycle, line.alike, line.outcome, line.begun) == (3599, 2, "failed", "2027-01-15T08:59:59.000Z")
    assert told(follow, *refused(3700), record(7201)) == []
    assert told(follow, record(7202)) == [(3700, 0)]
    assert told(follow, record(10802), *refused(10803)) == [(10803, 0)]


def test_one_that_cannot_be_begun_shares_a_line_too():
    follow = trail()
    assert told(follow, *(evicting(number, result=Result.FAILED) for number in (1, 2, 3))) == [(1, 0)]
    assert [(line.cycle, line.alike) for line in follow.end("the agent stopped")] == [(3, 1)]
    assert follow.end("the agent stopped") == ()


def test_another_pod_of_the_name_another_reason_and_another_outcome_have_lines_of_their_own():
    follow = trail()
    records = (*refused(1), *refused(11, uid="u2"), *refused(21, detail="the API server forbids it"), evicting(31, result=Result.REFUSED))
    assert told(follow, *records) == [(1, 0), (11, 0), (21, 0), (31, 0)]


def test_an_eviction_that_went_well_is_always_a_line():
    follow = trail()
    first = told(follow, evicting(1), judged(2, Verdict.EFFECTIVE))
    again = told(follow, evicting(11), judged(12, Verdict.EFFECTIVE, since=111.0))
    assert (first, again) == ([(1, 0)], [(11, 0)])


def test_who_is_under_way_is_not_intended_again_but_another_pod_of_its_name_is():
    follow = trail()
    follow.observe(evicting(1, replace(EVICT_CPU, uid="u1")))
    assert follow.intended(evicting(2, replace(EVICT_CPU, uid="u1"))) == ()
    assert [line.uid for line in follow.intended(evicting(2, replace(EVICT_CPU, uid="u2")))] == ["u2"]
