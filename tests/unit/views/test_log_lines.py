from msgspec.structs import replace

from qosmanager.model.actions import PluginFailure, Result
from qosmanager.model.qos import Plugin
from qosmanager.model.state import Watch
from qosmanager.views.log_lines import Severity, log_lines, pairs
from records import API, EVICT_CPU, EVICT_MEMORY, LIMIT, observed, outcome, receipt, record


def lines(of, previous=None):
    return [line for _, line in log_lines(of, previous)]


def test_each_cycle_has_one_line_with_scores_level_and_limit():
    (line,) = lines(record(number=7))
    assert line == (
        "cycle number=7 cpu_pressure=30.0 memory_pressure=10.0 io_pressure=0.0 level=HIGH slo=ok "
        "be_limit=0.60 be_usage=0.50 actions=0 ms=7.5"
    )


def test_a_limit_that_is_only_observed_has_another_name():
    of = record()
    (line,) = lines(replace(of, state=replace(of.state, be_observed=True)))
    assert " be_limit_observed=0.60 " in line
    assert " be_limit=" not in line


def test_a_cpu_eviction_names_pods_and_cores_freed_with_two_decimals():
    seen = lines(record(actions=(EVICT_CPU,), receipts=(receipt(0, Result.APPLIED),)))
    assert "CPUEvict evicted=1 freed_cores=0.50 pods=batch/crunch" in seen


def test_a_memory_eviction_names_pods_and_mebibytes_freed_with_two_decimals():
    seen = lines(record(actions=(EVICT_MEMORY,), receipts=(receipt(0, Result.APPLIED),)))
    assert "MemoryEvict evicted=1 freed_mib=300.00 pods=batch/crunch" in seen


def test_an_observed_eviction_frees_nothing():
    seen = lines(record(actions=(observed(EVICT_CPU),)))
    assert seen[1] == 'CPUEvict action=evict subject=batch/crunch set=- result=observed reason="short of 0.4 cores"'
    assert len(seen) == 2


def test_an_action_says_what_it_set_and_why():
    seen = lines(record(actions=(LIMIT,), receipts=(receipt(0, Result.APPLIED),)))
    assert seen[1] == ('CPUSuppress action=set_be_cpu_limit subject=BE set="0.60 cores" result=applied reason="target 0.6 = 1.2 x 0.5"')


def test_a_failed_write_is_a_warning():
    severity, line = log_lines(record(actions=(LIMIT,), receipts=(receipt(0, Result.FAILED),)), None)[1]
    assert severity is Severity.WARNING
    assert "result=failed" in line


def test_a_write_that_fails_in_each_cycle_is_told_once_and_again_with_another_reason():
    first = record(actions=(LIMIT,), receipts=(receipt(0, Result.FAILED, detail="Read-only file system"),))
    again = record(number=2, actions=(LIMIT,), receipts=first.receipts)
    assert len(lines(first)) == 2
    assert len(lines(again, first)) == 1
    other = record(number=3, actions=(LIMIT,), receipts=(receipt(0, Result.FAILED, detail="Permission denied"),))
    assert "Permission denied" in lines(other, again)[1]
    done = record(number=4, actions=(LIMIT,), receipts=(receipt(0, Result.APPLIED),))
    assert len(lines(done, other)) == 2
    assert len(lines(first, done)) == 2


def test_a_limit_that_is_written_nowhere_for_nobody_is_not_told():
    alone = record(actions=(LIMIT,), receipts=(receipt(0, Result.UNCHANGED, detail="no file has to change"),))
    assert len(lines(alone)) == 2
    assert len(lines(replace(alone, snapshot=replace(alone.snapshot, pods=(API,))))) == 1


def test_what_no_action_asked_for_is_told_too():
    weight = replace(receipt(None, Result.APPLIED, before="1024", after="2"), target="cpu:/batch/cpu.shares")
    seen = lines(record(receipts=(weight, replace(weight, before="2"))))
    assert seen[1:] == ["standing target=cpu:/batch/cpu.shares before=1024 after=2 detail=-"]


def test_that_a_first_cycle_has_no_rates_is_no_news_and_later_it_is():
    of = record(number=1)
    blind = replace(of, plan=replace(of.plan, degraded=("node_cpu_not_measured",)))
    assert len(lines(blind)) == 1
    assert lines(replace(blind, number=2), blind)[1] == "degraded reason=node_cpu_not_measured"
    assert len(lines(record(number=2), blind)) == 1


def test_drift_and_conflict():
    drift = receipt(None, Result.DRIFTED, before="-1", after="60000", detail="put back")
    assert lines(record(receipts=(drift,)))[1] == 'drift file=cpu:/batch/cpu.cfs_quota_us before=-1 after=60000 detail="put back"'
    severity, line = log_lines(record(receipts=(replace(drift, detail="conflict: 4 in 60 s"),)), None)[1]
    assert severity is Severity.ERROR
    assert line.startswith("conflict file=cpu:/batch/cpu.cfs_quota_us ")


def test_degradation_is_said_when_it_begins_and_when_it_ends():
    first, second, third = (
        record(number, plan=replace(record().plan, degraded=reasons))
        for number, reasons in enumerate((("stale: 3 s",), ("stale: 4 s",), ()))
    )
    assert lines(first)[1] == 'degraded reason="stale: 3 s"'
    assert len(lines(second, first)) == 1
    assert lines(third, second)[1] == "recovered reason=stale"


def test_outcomes_and_failures():
    plan = replace(record().plan, failures=(PluginFailure(Plugin.CPU_BURST, "KeyError: 'x'"),))
    assert lines(record(plan=plan, outcomes=(outcome(100.0),)))[1:] == [
        'outcome plugin=CPUSuppress action=set_be_cpu_limit target=BE verdict=effective detail="0.61 of 0.60"',
        "PluginFailed plugin=CPUBurst error=\"KeyError: 'x'\"",
    ]


def test_a_value_never_breaks_the_line():
    assert pairs("x", a="\x1b[31mred", b="\u4e2d") == 'x a="\\u001b[31mred" b=\u4e2d'
    assert pairs("x", a='say "hi"\nnow', b="") == 'x a="say \\"hi\\"\\nnow" b=""'


def test_what_could_not_be_done_says_why_with_and_without_an_action():
    refused = receipt(0, Result.REFUSED, "journal", detail="the journal cannot be written: No space left on device")
    unasked = receipt(None, Result.FAILED, "cpu:/be/cpu.shares", detail="Invalid argument")
    seen = lines(record(actions=(LIMIT,), receipts=(refused, unasked)))
    assert seen[1].endswith('trouble="the journal cannot be written: No space left on device"')
    assert seen[2] == 'Trouble target=cpu:/be/cpu.shares result=failed detail="Invalid argument"'


def test_an_eviction_that_came_to_nothing_is_found_under_its_plugin():
    of = record(receipts=(receipt(None, Result.FAILED, "batch/crunch", pod="batch/crunch", detail="a disruption budget forbids it"),))
    assert lines(of)[1:] == ['Trouble target=batch/crunch result=failed detail="a disruption budget forbids it"']
    begun = replace(of.state, watches=(Watch(plugin="CPUEvict", kind="evict", target="batch/crunch", since=99.0),))
    assert lines(replace(of, state=begun))[1:] == [
        'CPUEvict action=evict subject=batch/crunch result=failed trouble="a disruption budget forbids it"'
    ]
