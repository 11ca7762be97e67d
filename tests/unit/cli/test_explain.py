import json

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from agents import agent
from qosmanager.cli.main import main
from qosmanager.config.settings import MemoryEvictSettings, Settings
from qosmanager.model.actions import Result
from records import ASSESSMENT, CRUNCH, EVICT_CPU, EVICT_MEMORY, LIMIT, outcome, receipt, record

DONE = (receipt(0, Result.APPLIED, before="-1", after="60000"),)


def explain(*arguments, of, code=0):
    with agent(*of) as server:
        done = CliRunner().invoke(main, ["explain", "--url", server.url, *arguments])
    assert done.exit_code == code, done.output
    return done


def test_an_action_is_told_from_its_rule_to_its_outcome():
    said = explain(of=(record(1, actions=(LIMIT,), receipts=DONE), record(2, outcomes=(outcome(since=101.0),)))).output
    assert (
        """\
2027-01-15T08:00:01Z CPUSuppress set_be_cpu_limit BE 0.60 cores (applied)
  rule     target 0.6 = 1.2 x 0.5
  score    CPU 30.0 HIGH = usage 30.0
             usage 30.0 of 40: node CPU 75.0 percent
             load left out: absent
  level    HIGH; the score's HIGH, matrix LOW (RELAX_BE_LIMIT): HIGH at this moment
  SLO      ok
  done     cpu:/batch/cpu.cfs_quota_us: -1 -> 60000, applied
  outcome  effective at 08:00:02Z: 0.61 of 0.60
"""
        in said
    )


def test_a_memory_eviction_rests_on_the_memory_score():
    said = explain(of=(record(1, actions=(EVICT_MEMORY,)),)).output
    assert "  score    memory 10.0 LOW = usage 10.0\n" in said


def test_a_slow_rise_is_one_decision():
    steps = [record(n, actions=(replace(LIMIT, cores=n / 10),), receipts=DONE) for n in (1, 2, 3)]
    said = explain(of=steps).output
    assert said.count("set_be_cpu_limit") == 1
    assert "CPUSuppress set_be_cpu_limit BE 0.30 cores" in said
    assert "  before   2 more of the same since 08:00:01Z, from 0.10 cores\n" in said


def test_last_counts_decisions():
    cycles = [record(n, actions=(LIMIT if n % 2 else EVICT_CPU,)) for n in range(1, 7)]
    said = explain("--last", "2", of=cycles).output
    assert [line for line in said.splitlines() if line.startswith("2027")] == [
        "2027-01-15T08:00:05Z CPUSuppress set_be_cpu_limit BE 0.60 cores (no receipt)",
        "2027-01-15T08:00:06Z CPUEvict evict batch/crunch (no receipt)",
    ]


def test_what_the_last_cycle_refused_is_told():
    assert explain(of=(record(4),)).output.endswith(
        "Not done in the last cycle (4)\n  CPUBurst shop/api: usage 0.75 under 1.8 [not_needed]\n"
    )


def test_one_pod_by_its_name_alone():
    said = explain("--pod", "crunch", of=(record(1, actions=(LIMIT, EVICT_CPU)),)).output
    assert "CPUEvict evict batch/crunch" in said
    assert "set_be_cpu_limit" not in said
    assert "Why nothing more is done to batch/crunch now, as of cycle 1\n  CPUBurst:     only LS and LSR pods get a burst\n" in said


def test_a_pod_that_is_gone_keeps_its_decisions():
    gone = replace(record(2).snapshot, pods=())
    said = explain("--pod", "batch/crunch", of=(record(1, actions=(EVICT_CPU,)), record(2, snapshot=gone))).output
    assert "CPUEvict evict batch/crunch" in said
    assert said.endswith("it is no longer among the pods\n")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("shop/apy", "--pod shop/apy: there is no such pod here; did you mean shop/api?"),
        ("nobody", "--pod nobody: there is no such pod here; known are batch/crunch, batch/silent, shop/api"),
        ("a/b/c", "--pod a/b/c: there is no such pod here; known are batch/crunch, batch/silent, shop/api"),
    ],
)
def test_no_such_pod_is_one_line(asked, said):
    assert explain("--pod", asked, of=(record(),), code=1).stderr == f"qosmanager: {said}\n"


def test_a_name_that_two_pods_have_needs_its_namespace():
    twin = replace(record().snapshot, pods=(CRUNCH, replace(CRUNCH, namespace="other")))
    said = explain("--pod", "crunch", of=(record(snapshot=twin),), code=1).stderr
    assert said == "qosmanager: --pod crunch: more than one pod has that name: batch/crunch, other/crunch\n"


def test_json_holds_the_terms_and_the_reasons():
    document = json.loads(explain("--output", "json", "--pod", "shop/api", of=(record(1, actions=(LIMIT,)),)).output)
    assert (document["cycle"], document["pod"], document["decisions"]) == (1, "shop/api", [])
    assert [reason["about"] for reason in document["why_not"]] == ["CPUBurst", "agent"]
    whole = json.loads(explain("--output", "json", of=(record(1, actions=(LIMIT,), assessment=ASSESSMENT),)).output)
    assert whole["decisions"][-1]["terms"]["cpu"]["terms"]["usage"]["inputs"] == {"cpu_percent": 75.0}
    assert (whole["refusals"][0]["rule"], whole["why_not"]) == ("not_needed", [])


def test_nothing_done_yet_is_said():
    with agent(record(1), settings=Settings(memory_evict=MemoryEvictSettings())) as server:
        done = CliRunner().invoke(main, ["explain", "--url", server.url, "--pod", "shop/api"])
    assert done.output.startswith("Nothing has been done to shop/api since the agent started")


def test_what_no_action_asked_for_says_what_was_written():
    weight = receipt(None, Result.APPLIED, target="cpu:/batch/cpu.shares", before="1024", after="2")
    said = explain(of=(record(1, receipts=(weight,)),)).output
    assert "2027-01-15T08:00:01Z standing cpu:/batch/cpu.shares\n  wrote    1024 -> 2\n" in said
