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
