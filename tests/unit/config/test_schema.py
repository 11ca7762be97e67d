import json

import pytest
import yaml

from json_schema import faults
from qosmanager.config.parse import Loaded, load_settings
from qosmanager.config.presets import Preset
from qosmanager.config.schema import config_schema, workloads_schema
from qosmanager.config.settings import Settings
from qosmanager.config.written import effective_yaml
from qosmanager.documents.problem import DocumentError
from qosmanager.documents.workloads import load_workloads

WHOLE = """\
qosManager:
  preset: latency-first
  syncPeriod: 500ms
  cpuPressure: {low: 30}
  systemReserved: {cpu: 500m, memory: 2Gi}
  cpuSuppress: {enabled: false, policy: cpuset, suppressRatio: {low: 0.9}}
  cpuEvict:
  memoryEvict: {evictThreshold: 80, oomScoreAdjust: -1000, memoryGrowthThreshold: 0.5}
  plugins: [CPUSuppress, MemoryEvict]
"""
WORKLOADS = """\
workloads:
- {name: api, qos: LS, cgroup: "system.slice/nginx.service", requests: {cpu: 2, memory: 4Gi}, limits: {cpu: 4},
   slo: {p99: 50ms}, latency: {prometheus: "http://127.0.0.1:9113/metrics", histogram: seconds}}
- {name: batch, qos: BE, cgroup: "batch.slice/*", priority: 3000, grace: 10s}
"""


def under(text):
    return faults(config_schema(), yaml.safe_load(text))


def test_it_says_which_dialect_and_is_json():
    assert json.loads(json.dumps(config_schema()))["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("text", ["", "qosManager:", WHOLE, effective_yaml(Loaded(Settings(), {}))])
def test_what_the_parser_takes_the_schema_takes(text):
    load_settings(text, "qos.yaml")
    assert under(text) == []


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("qosmanager: {}", "$.qosmanager"),
        ("qosManager: {cpuBurts: {}}", "$.qosManager.cpuBurts"),
        ("qosManager: {syncPeriod: 1}", "$.qosManager.syncPeriod"),
        ("qosManager: {syncPeriod: 1 s}", "$.qosManager.syncPeriod"),
        ("qosManager: {cpuPressure: {low: 101}}", "$.qosManager.cpuPressure.low"),
        ("qosManager: {cpuPressure: {low: '40'}}", "$.qosManager.cpuPressure.low"),
        ("qosManager: {cpuBurst: {burstRatio: 0.9}}", "$.qosManager.cpuBurst.burstRatio"),
        ("qosManager: {cpuBurst: {mode: enforced}}", "$.qosManager.cpuBurst.mode"),
        ("qosManager: {cpuBurst: {enabled: 'yes'}}", "$.qosManager.cpuBurst.enabled"),
        ("qosManager: {memoryEvict: {memoryGrowthThreshold: 0}}", "$.qosManager.memoryEvict.memoryGrowthThreshold"),
        ("qosManager: {memoryEvict: {oomScoreAdjust: 1.5}}", "$.qosManager.memoryEvict.oomScoreAdjust"),
        ("qosManager: {systemReserved: {memory: 2GB}}", "$.qosManager.systemReserved.memory"),
        ("qosManager: {systemReserved: {cpu: -1}}", "$.qosManager.systemReserved.cpu"),
        ("qosManager: {systemReserved: {cpu: '-1'}}", "$.qosManager.systemReserved.cpu"),
        ("qosManager: {plugins: [CPUBurst, CPUBurst]}", "$.qosManager.plugins"),
        ("qosManager: {plugins: [CPUBrust]}", "$.qosManager.plugins[0]"),
        ("qosManager: {preset: fastest}", "$.qosManager.preset"),
    ],
)
def test_what_the_schema_refuses_the_parser_refuses(text, where):
    assert under(text) == [where]
    with pytest.raises(DocumentError):
        load_settings(text, "qos.yaml")


def test_each_value_has_its_meaning_what_is_allowed_and_its_default():
    keys = config_schema()["properties"]["qosManager"]["properties"]
    assert keys["syncPeriod"]["description"] == "length of a cycle (a duration from 100ms to 1m)"
    assert (keys["syncPeriod"]["default"], keys["memoryPressure"]["properties"]["low"]["default"]) == ("1s", 50.0)
    burst = keys["cpuBurst"]["properties"]["minNodeCPUIdle"]
    assert (burst["minimum"], burst["maximum"], burst["default"]) == (0, 0.5, 0.2)
    assert keys["preset"]["enum"] == [preset.value for preset in Preset]


def test_workload_files():
    load_workloads(WORKLOADS, "w.yaml")
    assert faults(workloads_schema(), yaml.safe_load(WORKLOADS)) == []
    assert faults(workloads_schema(), None) == []
    without = [{"name": "api", "qos": "FAST", "prio": 3}]
    assert sorted(faults(workloads_schema(), {"workloads": without})) == [
        "$.workloads[0].cgroup",
        "$.workloads[0].prio",
        "$.workloads[0].qos",
    ]
