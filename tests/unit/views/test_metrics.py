import re

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from qosmanager.config.settings import Settings
from qosmanager.model.actions import Result, SetCpuLimit
from qosmanager.model.assessment import OomRisk
from qosmanager.model.qos import Plugin
from qosmanager.model.snapshot import Node, Snapshot
from qosmanager.views.metrics import Metrics
from qosmanager.views.status import About
from records import ASSESSMENT, EVICT_CPU, EVICT_MEMORY, LIMIT, observed, outcome, receipt, record

ABOUT = About(version="1.2.3", pid=42, started=0.0)
BURST = SetCpuLimit(plugin=Plugin.CPU_BURST, reason="throttled 0.2", pod="shop/api", cores=3.0, base=2.0)
SECTION_7 = (
    "koordlet_qos_cpu_pressure_score",
    "koordlet_qos_memory_pressure_score",
    "koordlet_qos_io_pressure_score",
    "koordlet_qos_cpu_suppress_total",
    'koordlet_qos_cpu_evict_total{reason="cpu_pressure"}',
    'koordlet_qos_memory_evict_total{reason="oom_risk"}',
    "koordlet_qos_cpu_burst_total",
    "koordlet_qos_be_cpu_limit_cores",
    'koordlet_qos_decision_latency_milliseconds_bucket{le="10.0",stage="total"}',
    'koordlet_qos_action_outcome_total{outcome="effective",plugin="CPUSuppress"}',
    'koordlet_qos_degraded{reason="stale"}',
)


def scraped(*records):
    metrics = Metrics(ABOUT, Settings())
    for each in records:
        metrics.observe(each)
    registry = CollectorRegistry()
    registry.register(metrics)
    return generate_latest(registry).decode()


def values(text):
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))


def full():
    return record(
        actions=(LIMIT, BURST, EVICT_CPU),
        receipts=tuple(receipt(index, Result.APPLIED) for index in range(3)),
        outcomes=(outcome(100.0),),
        plan=replace(record(actions=(LIMIT, BURST, EVICT_CPU)).plan, degraded=("stale: 3.1 s",)),
    )


@pytest.mark.parametrize("series", SECTION_7)
def test_the_names_are_those_of_section_7(series):
    assert series in values(scraped(full()))


def ended(result):
    """A later cycle in which the end of an eviction is told."""
    return record(receipts=(receipt(None, result, target="batch/crunch", pod="batch/crunch"),))


def test_what_was_done_is_counted():
    seen = values(scraped(full(), full()))
    assert seen["koordlet_qos_cpu_suppress_total"] == "2.0"
    assert seen["koordlet_qos_cpu_burst_total"] == "2.0"
    assert seen['koordlet_qos_action_total{kind="evict",plugin="CPUEvict",result="applied"}'] == "2.0"


def test_an_eviction_is_counted_when_the_pod_is_gone():
    begun = record(actions=(EVICT_CPU,), receipts=(receipt(0, Result.APPLIED),))
    name = 'koordlet_qos_cpu_evict_total{reason="cpu_pressure"}'
    assert values(scraped(begun))[name] == "0.0"
    assert values(scraped(begun, ended(Result.GONE), ended(Result.GONE)))[name] == "1.0"
    assert values(scraped(begun, ended(Result.FAILED), ended(Result.GONE)))[name] == "0.0"


def test_what_was_only_observed_is_counted_apart():
    seen = values(scraped(record(actions=(observed(LIMIT), observed(EVICT_CPU)))))
    assert seen["koordlet_qos_cpu_suppress_total"] == "0.0"
    assert seen['koordlet_qos_cpu_evict_total{reason="cpu_pressure"}'] == "0.0"
    assert seen['koordlet_qos_action_total{kind="set_be_cpu_limit",plugin="CPUSuppress",result="observed"}'] == "1.0"


@pytest.mark.parametrize("result", [Result.RECORDED, Result.GONE, Result.FAILED, Result.REFUSED])
def test_what_did_not_happen_is_not_counted_as_done(result):
    seen = values(scraped(record(actions=(LIMIT, EVICT_CPU), receipts=(receipt(0, result), receipt(1, result)))))
    assert seen["koordlet_qos_cpu_suppress_total"] == "0.0"
    assert seen['koordlet_qos_cpu_evict_total{reason="cpu_pressure"}'] == "0.0"
    assert seen[f'koordlet_qos_action_total{{kind="evict",plugin="CPUEvict",result="{result.value}"}}'] == "1.0"


@pytest.mark.parametrize(
    ("oom", "leaking", "short", "reason"),
    [
        (True, True, True, "oom_risk"),
        (False, True, True, "leak"),
        (False, False, True, "low_available"),
        (False, False, False, "memory_pressure"),
    ],
)
def test_a_memory_eviction_has_the_reason_that_held(oom, leaking, short, reason):
    base = record(actions=(replace(EVICT_MEMORY, leaking=leaking),), receipts=(receipt(0, Result.APPLIED),))
    of = replace(base, assessment=replace(ASSESSMENT, oom=OomRisk(present=oom)), state=replace(base.state, memory_short=short))
    seen = values(scraped(of, ended(Result.GONE)))
    assert seen[f'koordlet_qos_memory_evict_total{{reason="{reason}"}}'] == "1.0"


def test_stage_durations_fall_into_their_buckets():
    seen = values(scraped(record(durations={"total": 7.5}), record(durations={"total": 20.0})))
    name = "koordlet_qos_decision_latency_milliseconds"
    assert seen[f'{name}_bucket{{le="5.0",stage="total"}}'] == "0.0"
    assert seen[f'{name}_bucket{{le="10.0",stage="total"}}'] == "1.0"
    assert seen[f'{name}_bucket{{le="20.0",stage="total"}}'] == "2.0"
    assert seen[f'{name}_count{{stage="total"}}'] == "2.0"
    assert seen[f'{name}_sum{{stage="total"}}'] == "27.5"


def test_a_past_degradation_goes_to_0():
    degraded = record(plan=replace(record().plan, degraded=("stale: 3.1 s",)))
    assert values(scraped(degraded))['koordlet_qos_degraded{reason="stale"}'] == "1.0"
    assert values(scraped(degraded, record(2)))['koordlet_qos_degraded{reason="stale"}'] == "0.0"


def test_a_reading_that_was_not_taken_has_no_series():
    text = scraped(record(snapshot=Snapshot(node=Node(cpus=2.0))))
    assert "koordlet_qos_node_cpu_usage_cores" not in text
    assert 'pod="silent"' not in scraped(record())


def test_no_limit_in_force_is_no_series():
    assert "koordlet_qos_be_cpu_limit_cores " not in scraped(record(state=replace(record().state, be_limit=None)))


def test_exactly_one_level_of_each_resource_holds():
    seen = values(scraped(record()))
    held = [name for name, value in seen.items() if name.startswith("koordlet_qos_pressure_level{") and value == "1.0"]
    assert held == [
        f'koordlet_qos_pressure_level{{level="{level}",resource="{what}"}}'
        for what, level in (("cpu", "HIGH"), ("memory", "LOW"), ("io", "LOW"))
    ]


def test_names_keep_prometheus_rules():
    names = set()
    for family in text_string_to_metric_families(scraped(full())):
        assert re.fullmatch(r"koordlet_qos_[a-z0-9_]+", family.name)
        assert family.name not in names
        names.add(family.name)
        assert family.documentation.endswith(".")
        if family.type == "counter":
            assert all(sample.name.endswith("_total") for sample in family.samples)
        else:
            assert not family.name.endswith(("_total", "_count", "_sum", "_bucket"))


def test_before_the_first_cycle_the_counters_stand_at_0():
    assert values(scraped())["koordlet_qos_cycles_total"] == "0.0"


def test_a_configuration_is_rejected_until_one_is_taken():
    metrics = Metrics(ABOUT, Settings())
    registry = CollectorRegistry()
    registry.register(metrics)
    seen = []
    for kind in ("drift", "reload_refused", "drift", "reloaded"):
        metrics.event(kind)
        seen.append(values(generate_latest(registry).decode())["koordlet_qos_config_rejected"])
    assert seen == ["0.0", "1.0", "1.0", "0.0"]


def test_a_limit_that_is_only_decided_and_a_dry_run_are_told():
    of = record()
    seen = values(scraped(of))
    assert (seen["koordlet_qos_be_limit_observed"], seen["koordlet_qos_dry_run"]) == ("0.0", "0.0")
    dry = Metrics(replace(ABOUT, dry_run=True), Settings())
    dry.observe(replace(of, state=replace(of.state, be_observed=True)))
    registry = CollectorRegistry()
    registry.register(dry)
    seen = values(generate_latest(registry).decode())
    assert (seen["koordlet_qos_be_limit_observed"], seen["koordlet_qos_dry_run"]) == ("1.0", "1.0")
