"""Scenario files: every problem at once with its line, path and what is allowed; shipped ones by name; series from CSV."""

from importlib.resources import files

import pytest
import yaml

from json_schema import faults
from qosmanager.config.schema import document_schema
from qosmanager.documents.problem import DocumentError
from qosmanager.simulate.load import load, load_scenario, load_series, shipped
from qosmanager.simulate.scenario import Scenario

GOOD = """about: a test
duration: 60s
node: {cpus: 8}
workloads:
- {name: api, qos: LS, cpu: {constant: 1}, service: {time: 10ms}}
"""


def problems(text):
    with pytest.raises(DocumentError) as error:
        load_scenario(text, "s.yaml")
    return [str(problem) for problem in error.value.problems]


def test_a_small_scenario_has_defaults_for_the_rest():
    scenario = load_scenario(GOOD, "s.yaml")
    assert scenario.node.memory == 64 << 30
    assert scenario.workloads[0].service.timeout == 5.0
    assert scenario.duration == 60


def test_every_problem_is_told_with_its_line_path_and_what_is_allowed():
    text = GOOD.replace("60s", "60").replace("cpus: 8", "cpsu: 8").replace("LS", "LSS").replace("10ms", "0s")
    found = problems(text)
    needed = "a duration from 100ms to 8784h (a duration needs its unit: 60s or 60ms?)"
    assert f"s.yaml:2: duration: 60 is not allowed; {needed}" in found
    assert "s.yaml:3: node.cpsu: unknown key (did you mean cpus?)" in found
    assert any(line.startswith("s.yaml:3: node.cpus: is required") for line in found)
    assert "s.yaml:5: workloads[0].qos: LSS is not allowed; one of LSE, LSR, LS, BE, SYSTEM (did you mean LS?)" in found
    assert any(line.startswith("s.yaml:5: workloads[0].service.time: 0s is not allowed") for line in found)


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        (
            "events: [{at: 1s, do: stop, workload: apii}]",
            "events[0].workload: apii is not allowed; the name of a workload (did you mean api?)",
        ),
        ("expect: [{measure: over_slo}]", "expect[0]: at_least or at_most, or both"),
        ("expect: [{measure: over_slo, at_most: 0, after: 60s}]", "expect[0].after: 60s is not allowed; before the end, 60s"),
        ("expect: [{measure: over_slo, at_most: 0, after: 9s, before: 8s}]", "expect[0].before: later than after, 9s"),
        ("expect: [{measure: over_slo, at_most: 0, weights: off}]", "expect[0].weights: off is not allowed; one of with, without"),
        ("- {name: api, qos: BE}", "workloads[1].name: default/api was already given in line 5"),
        ("- {name: b, qos: BE, service: {}}", "workloads[1].service: a BE pod has no queue of requests; leave it out"),
        ("- {name: b, qos: LS, cpus: 2}", "workloads[1].cpus: only an LSE pod has CPUs for itself"),
        (
            "- {name: b, qos: LS, limits: {cpu: 1}, requests: {cpu: 2}}",
            "workloads[1].requests.cpu: 2 is not allowed; at most limits.cpu, 1",
        ),
        (
            "- {name: b, qos: BE, cpu: {constant: 1, csv: x.csv}}",
            "workloads[1].cpu.csv: only one of constant, steps, daily and csv; constant is given already",
        ),
        ("- {name: b, qos: BE, cpu: {steps: [{at: 2s, value: 1}, {at: 1s, value: 2}]}}", "each `at` is after the one before it"),
        (
            "- {name: b, qos: BE, cpu: {bursts: [{first: 0s, length: 9s, value: 1, every: 5s}]}}",
            "bursts[0].every: 5s is not allowed; at least length",
        ),
        ("- {name: b, qos: LSE, cpus: 3, count: 3}", "workloads[1].cpus: with those before it 9 CPUs, and the node has 8"),
        (
            "- {name: b, qos: BE, count: 2}\n- {name: b-1, qos: BE}",
            "workloads[2].name: a pod b-1 is there already, of another workload's count",
        ),
        ("- {name: b, qos: BE, memory: {start: 2Gi, peak: 1Gi}}", "memory.peak: 1073741824 is not allowed; at least start"),
    ],
)
def test_what_no_field_can_tell_alone_is_refused_too(extra, told):
    assert any(told in line for line in problems(GOOD + extra + "\n"))


def test_an_unknown_name_is_told_with_the_nearest_shipped_one():
    with pytest.raises(DocumentError, match=r"contnetion: is no shipped scenario and no file \(did you mean contention"):
        load("contnetion")


def test_a_file_is_read_with_the_series_beside_it(tmp_path):
    (tmp_path / "s.yaml").write_text(GOOD.replace("{constant: 1}", "{csv: load.csv}"))
    (tmp_path / "load.csv").write_text("seconds,cores\n0,1\n30,2.5\n")
    loaded = load(str(tmp_path / "s.yaml"))
    assert loaded.name == "s"
    assert loaded.series == {"load.csv": ((0.0, 1.0), (30.0, 2.5))}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("time,cores\n1,2\n", "x.csv:1: the first line names the columns: seconds,cores"),
        ("seconds,cores\n1,two\n", "x.csv:2: both are numbers, such as 60,2.5"),
        ("seconds,cores\n1,2\n1,2\n", "x.csv:3: seconds rise from row to row, and nothing is below 0"),
        ("seconds,cores\n1\n", "x.csv:2: both are numbers"),
        ("seconds,cores\n", "x.csv:1: holds no row"),
        ("seconds,cores\n0,1e999\n", "x.csv:2: both are numbers"),
        ("seconds,cores\n0," + "1" * 200_000, "x.csv: cannot be read: field larger than field limit"),
    ],
)
def test_a_series_that_is_none_is_refused(tmp_path, text, told):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(DocumentError, match=told):
        load_series(tmp_path / "x.csv")


def test_of_many_problems_of_a_series_the_first_are_told(tmp_path):
    (tmp_path / "x.csv").write_text("seconds,cores\n" + "x,y\n" * 1000)
    with pytest.raises(DocumentError) as error:
        load_series(tmp_path / "x.csv")
    assert len(error.value.problems) == 20


def test_a_series_of_a_month_is_read_whole(tmp_path):
    # Larger than any document may be (2 MiB); as a spreadsheet writes it.
    rows = "".join(f"{second * 10},{second % 7}.123456\r\n" for second in range(260_000))
    (tmp_path / "x.csv").write_bytes(b"\xef\xbb\xbfseconds,cores\r\n" + rows.encode())
    series = load_series(tmp_path / "x.csv")
    assert (len(series), series[-1]) == (260_000, (2_599_990.0, 259_999 % 7 + 0.123456))


def test_a_series_that_is_no_file_is_refused(tmp_path):
    with pytest.raises(DocumentError, match="is a directory"):
        load_series(tmp_path)


SCHEMA = document_schema(Scenario, "a scenario")


def test_the_schema_refuses_what_the_reader_refuses():
    assert faults(SCHEMA, yaml.safe_load(GOOD)) == []
    assert faults(SCHEMA, yaml.safe_load(GOOD.replace("cpus", "cpsu"))) == ["$.node.cpsu", "$.node.cpus"]


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_scenario_fits_the_schema_and_expects_something(name):
    text = (files("qosmanager.simulate") / "scenarios" / f"{name}.yaml").read_text()
    assert faults(SCHEMA, yaml.safe_load(text)) == []
    assert load(name).scenario.expect
