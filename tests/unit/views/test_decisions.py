from msgspec.structs import replace

from qosmanager.model.actions import PluginFailure, Result, Verdict
from qosmanager.model.qos import Level, Plugin
from qosmanager.views.decisions import Decisions
from records import ASSESSMENT, EVICT_CPU, LIMIT, outcome, receipt, record


def after(*records, capacity=100):
    decisions = Decisions(capacity)
    for each in records:
        decisions.observe(each)
    return decisions


def kinds(decisions):
    return [entry.kind for entry in decisions.last(100)]


def test_an_action_keeps_reason_and_receipts():
    decisions = after(record(actions=(LIMIT,), receipts=(receipt(0, Result.APPLIED, before="-1", after="60000"),)))
    entry = decisions.last(1)[0]
    assert (entry.kind, entry.subject, entry.reason, entry.result) == ("set_be_cpu_limit", "BE", LIMIT.reason, "applied")
    assert (entry.receipts[0].before, entry.receipts[0].after) == ("-1", "60000")


def test_a_later_verdict_lands_on_the_action_of_its_time():
    decisions = after(
        record(1, actions=(LIMIT,)), record(2, actions=(LIMIT,)), record(4, outcomes=(outcome(since=101.0, verdict=Verdict.OVERWRITTEN),))
    )
    first, second = (entry for entry in decisions.last(10) if entry.type == "action")
    assert first.outcome is not None
    assert (first.outcome.verdict, first.outcome.detail) == ("overwritten", "0.61 of 0.60")
    assert second.outcome is None


def test_level_changes_are_told_once_with_the_score_behind_them():
    calm = replace(ASSESSMENT, effective_level=Level.MEDIUM)
    decisions = after(record(1), record(2), record(3, assessment=calm))
    assert kinds(decisions) == ["level", "level"]
    assert decisions.last(1)[0].reason == "from HIGH to MEDIUM: CPU score 30.0 (usage 30.0)"


def test_degradation_is_told_when_it_begins_and_ends_not_while_its_numbers_change():
    plans = [replace(record().plan, degraded=reasons) for reasons in (("stale: 3.1 s",), ("stale: 4.1 s",), ())]
    decisions = after(*(record(number, plan=plan) for number, plan in enumerate(plans, 1)))
    assert kinds(decisions) == ["level", "degraded", "recovered"]


def test_a_write_that_no_action_asked_for_is_an_event():
    weight = replace(receipt(None, Result.APPLIED, before="1024", after="2"), target="cpu:/batch/cpu.shares")
    (entry,) = after(record(receipts=(weight,))).last(1)
    assert (entry.kind, entry.subject, entry.reason) == ("standing", "cpu:/batch/cpu.shares", "1024 -> 2")


def test_drift_and_conflict_name_the_file():
    decisions = after(record(receipts=(receipt(None, Result.DRIFTED, before="-1", after="60000", detail="put back"),)))
    entry = decisions.last(1)[0]
    assert (entry.kind, entry.subject, entry.reason) == ("drift", "cpu:/batch/cpu.cfs_quota_us", "put back -1 -> 60000")
    decisions.observe(record(2, receipts=(receipt(None, Result.DRIFTED, detail="conflict: 4 times in a minute"),)))
    assert decisions.last(1)[0].kind == "conflict"


def test_a_failed_plugin_is_an_event():
    plan = replace(record().plan, failures=(PluginFailure(Plugin.CPU_BURST, "KeyError: x"),))
    assert after(record(plan=plan)).last(1)[0].reason == "KeyError: x"


def test_the_oldest_go_first():
    decisions = after(*(record(number, actions=(LIMIT,)) for number in range(1, 6)), capacity=2)
    assert [entry.cycle for entry in decisions.last(10)] == [4, 5]


def test_one_pods_entries_can_be_asked_for():
    decisions = after(record(actions=(LIMIT, EVICT_CPU)))
    assert [entry.kind for entry in decisions.last(10, "batch/crunch")] == ["evict"]
    assert decisions.last(10, "shop/api") == ()


def test_an_event_of_no_cycle_takes_its_place():
    decisions = after(record())
    decisions.event(1_800_000_001.5, "reload_refused", "qos.yaml", "qosManager.syncPeriod: 0s, allowed 100ms to 60s")
    assert (decisions.last(1)[0].kind, decisions.last(1)[0].time) == ("reload_refused", "2027-01-15T08:00:01.500Z")


def test_the_terms_of_an_action_are_those_of_its_own_cycle_and_only_given_when_asked_for():
    calm = replace(ASSESSMENT, cpu=replace(ASSESSMENT.cpu, score=5.0))
    decisions = after(record(1, actions=(LIMIT,)), record(2, actions=(LIMIT,), assessment=calm))
    assert all(entry.terms is None for entry in decisions.last(10))
    first, second = (entry for entry in decisions.last_with_terms(10) if entry.type == "action")
    assert (first.terms.cpu.score, second.terms.cpu.score) == (30.0, 5.0)
    assert first.terms.cpu.terms["usage"].inputs == {"cpu_percent": 75.0}
    assert replace(first, terms=None) == next(entry for entry in decisions.last(10) if entry.type == "action")
