import msgspec
import pytest
from msgspec.structs import replace

from qosmanager.config.settings import CpuEvictSettings, Settings
from qosmanager.model.actions import Resources, Result
from qosmanager.model.qos import Mode, Plugin
from qosmanager.model.snapshot import Node, Snapshot
from qosmanager.model.state import State
from qosmanager.views.status import About, status
from records import API, ASSESSMENT, LIMIT, observed, receipt, record

DEFAULTS = Settings()
ABOUT = About(version="1.2.3", pid=42, started=1_799_999_990.0)


def shown(of, settings=DEFAULTS):
    return msgspec.json.decode(msgspec.json.encode(status(of, settings, ABOUT)))


def test_says_who_and_when():
    view = shown(record(number=5))
    assert (view["version"], view["pid"], view["cycle"], view["uptime"]) == ("1.2.3", 42, 5, 15.0)
    assert view["time"] == "2027-01-15T08:00:05.000Z"


def test_assessment_has_the_shape_of_section_8_and_the_terms_behind_it():
    cpu = shown(record())["assessment"]["cpu"]
    assert cpu["score"] == 30.0
    assert cpu["factors"] == {"usage": 30.0}
    assert cpu["terms"]["usage"]["inputs"] == {"cpu_percent": 75.0}
    assert cpu["terms"]["load"] == {"points": None, "cap": 20.0, "inputs": {"load1": None}, "note": "absent"}


def test_effective_level_says_since_when():
    view = shown(record())["assessment"]
    assert (view["effective_level"], view["effective_for"]) == ("HIGH", 4.0)


def test_be_usage_counts_measured_pods_and_names_the_rest():
    be = shown(record())["be"]
    assert (be["usage"], be["pods"], be["unmeasured"], be["limit"]) == (0.5, 2, 1, 0.6)


def test_be_usage_is_unknown_when_no_be_pod_is_measured():
    silent = replace(record().snapshot.pods[2])
    be = shown(record(snapshot=Snapshot(node=Node(cpus=2.0), pods=(API, silent), time=1.0)))["be"]
    assert be["usage"] is None


@pytest.mark.parametrize(("held", "expected"), [(599.0, False), (600.0, True)])
def test_be_starves_after_ten_minutes_at_the_floor(held, expected):
    assert shown(record(state=State(time=1000.0, floor_since=1000.0 - held)))["be"]["starving"] is expected


def test_a_running_burst_is_the_effective_limit():
    api = shown(record())["pods"][0]
    assert (api["cpu"]["limit"], api["cpu"]["effective_limit"]) == (2.0, 3.0)
    assert api["latency"] == {"p99": 0.04, "slo": 0.05}


def test_an_observed_burst_is_not_in_force():
    of = record()
    bursts = tuple(replace(burst, observed=True) for burst in of.state.bursts)
    assert shown(replace(of, state=replace(of.state, bursts=bursts)))["pods"][0]["cpu"]["effective_limit"] == 2.0


def test_an_observed_be_limit_is_told_as_one():
    of = record()
    assert shown(of)["be"]["observed"] is False
    assert shown(replace(of, state=replace(of.state, be_observed=True)))["be"]["observed"] is True


def test_what_the_node_has_and_for_whom_is_shown():
    resources = Resources(
        cpus=2.0,
        node_available=1.5,
        system_reserved=0.5,
        system_usage=None,
        ls_request=1.0,
        exclusive_cpus=0.0,
        be_allowance=0.5,
        be_memory=7,
    )
    of = record()
    view = shown(replace(of, plan=replace(of.plan, resources=resources)))["resources"]
    assert (view["be_allowance"], view["be_memory"], view["memory_reserved"]) == (0.5, 7, 0)


def test_actions_carry_reason_and_result():
    (action,) = shown(record(actions=(LIMIT,), receipts=(receipt(0, Result.APPLIED),)))["actions"]
    assert action["reason"] == "target 0.6 = 1.2 x 0.5"
    assert (action["subject"], action["amount"], action["result"], action["mode"]) == ("BE", "0.60 cores", "applied", "enforce")


def test_an_observed_action_is_recorded_not_applied():
    (action,) = shown(record(actions=(observed(LIMIT),)))["actions"]
    assert (action["mode"], action["result"]) == ("observe", "recorded")


def test_one_failed_write_among_applied_ones_is_a_failure():
    receipts = (receipt(0, Result.APPLIED), receipt(0, Result.FAILED, detail="EINVAL"))
    (action,) = shown(record(actions=(LIMIT,), receipts=receipts))["actions"]
    assert action["result"] == "failed"


def test_refusals_and_missing_readings_keep_their_reasons():
    view = shown(record())
    assert view["refusals"] == [{"plugin": "CPUBurst", "pod": "shop/api", "rule": "not_needed", "reason": "usage 0.75 under 1.8"}]
    assert view["missing"] == {"pods.batch/silent.cpu.usage": "no second sample yet"}


def test_plugin_modes_are_those_of_the_settings():
    settings = Settings(cpu_evict=CpuEvictSettings(mode=Mode.OBSERVE), plugins=(Plugin.CPU_EVICT,))
    modes = shown(record(), settings)["plugins"]
    assert (modes["CPUEvict"], modes["MemoryEvict"]) == ("observe", "off")


def test_oom_risk_stands_with_memory_alone():
    view = shown(record(assessment=replace(ASSESSMENT, oom=replace(ASSESSMENT.oom, present=True))))["assessment"]
    assert view["memory"]["oom_risk"] is True
    assert view["cpu"]["oom_risk"] is None
