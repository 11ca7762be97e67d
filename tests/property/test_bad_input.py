"""Whatever is put into the three document parsers, a value or a DocumentError with places comes out."""

import copy
import json

import msgspec
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hypothesis_states import states
from qosmanager.config.parse import load_settings
from qosmanager.config.settings import Settings
from qosmanager.documents.files import decode
from qosmanager.documents.problem import DocumentError
from qosmanager.documents.snapshot import load_snapshot
from qosmanager.documents.workloads import load_workloads

PARSERS = (load_settings, load_snapshot, load_workloads)

KEYS = st.sampled_from(["qosManager", "node", "pods", "state", "workloads", "kind", "data", "preset", "enabled", "name", "<<"])
AMOUNTS = st.sampled_from(["1", "0", "-1", "9e99", "1e999", ".nan", ".inf", "0x10", "010", "1:30", "500m", "2Gi", "8Ei", "1s", "99999h"])
TIMES = st.sampled_from(["2026-11-11T20:00:16Z", "9999-12-31T23:59:59-14:00", "0000-00-00T00:00:00Z"])
NAMES = st.sampled_from(["off", "true", "LS", "BE", "EMERGENCY", "CPUBurst", "ConfigMap", "latency-first"])
PLACES = st.sampled_from(["a/b", "a/../b", "/a", "batch.slice/*", "a.slice/[", "http://h", "http://[", "http://h:x/"])
WORDS = AMOUNTS | TIMES | NAMES | PLACES
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=20)
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=8), inner, max_size=6), max_leaves=25
)

GOOD = (
    {
        "qosManager": {
            "preset": "latency-first",
            "syncPeriod": "1s",
            "cpuPressure": {"low": 40, "critical": 90},
            "cpuSuppress": {"enabled": True, "suppressRatio": {"low": 1, "high": 0.4}, "policy": "cpuset"},
            "memoryEvict": {"mode": "observe", "memoryGrowthThreshold": 5, "oomScoreAdjust": 1000},
            "systemReserved": {"cpu": "500m", "memory": "1Gi"},
            "plugins": ["CPUBurst", "CPUSuppress"],
        }
    },
    {"kind": "ConfigMap", "data": {"koordlet-config.yaml": "qosManager:\n  cpuBurst: {burstRatio: 2}\n"}},
    {
        "time": "2026-11-11T20:00:16Z",
        "node": {"cpus": 4, "cpu_usage": 1, "memory_total": "8Gi", "memory_available": "4Gi", "topology": [{"cpu": 0}]},
        "pods": [
            {
                "name": "a",
                "qos": "LS",
                "created": "2026-11-11T20:00:16Z",
                "cpu": {"limit": 2, "throttled": 0.1},
                "latency": {"p99": "5ms", "slo": "9ms"},
            },
            {"name": "b", "qos": "BE", "memory": {"rss": "1Gi"}, "exclusive_cpus": [1]},
        ],
        "state": {
            "suppress_level": "HIGH",
            "cooldown_until": {"CPUEvict": None},
            "burst_cooldown_until": {"default/a": 5},
            "bursts": [{"pod": "default/a", "base_limit": 2, "limit": 3}],
            "recent": [{"time": 1, "cpu_score": 5, "demand": {"default/a": 1}}],
        },
    },
    {
        "workloads": [
            {
                "name": "api",
                "qos": "LS",
                "cgroup": "system.slice/nginx.service",
                "requests": {"cpu": 2},
                "slo": {"p99": "50ms"},
                "latency": {"prometheus": "http://127.0.0.1:9113/metrics", "histogram": "h"},
            },
            {"name": "batch", "qos": "BE", "cgroup": "batch.slice/*", "grace": "5s"},
        ]
    },
)


@st.composite
def spoiled(draw):
    """Draw a good document in which one value, at any depth, is another tree."""
    document = copy.deepcopy(draw(st.sampled_from(GOOD)))
    place = document
    while True:
        key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if not place[key] or not isinstance(place[key], dict | list) or draw(st.booleans()):
            place[key] = draw(TREES)
            return document
        place = place[key]


def problems_of(parse, text):
    """Return what a parser refuses; any other exception fails the test."""
    try:
        parse(text, "f.yaml")
    except DocumentError as error:
        return error.problems or ["a DocumentError without a problem"]
    return []


def check(text):
    for parse in PARSERS:
        for problem in problems_of(parse, text):
            assert problem.source.startswith("f.yaml")
            assert problem.line >= 1
            assert str(problem).isprintable()


def test_the_good_documents_are_good():
    for document, parse in zip(GOOD, (load_settings, load_settings, load_snapshot, load_workloads), strict=True):
        assert problems_of(parse, yaml.safe_dump(document)) == []


@given(st.binary(max_size=200))
def test_any_bytes(data):
    for problem in problems_of(lambda text, source: check(decode(text, source)), data):
        assert str(problem).startswith("f.yaml:")


@given(st.text(max_size=200))
def test_any_text(text):
    check(text)


@given(st.text(alphabet="[]{}:,-&*!|>'\"%@#?~ \n\tab01.e\\", max_size=80))
def test_any_text_of_the_signs_of_yaml(text):
    check(text)


@settings(max_examples=300)
@given(TREES | spoiled())
def test_any_tree_as_yaml(tree):
    check(yaml.safe_dump(tree))


@settings(max_examples=300)
@given(TREES | spoiled())
def test_any_tree_as_json(tree):
    check(json.dumps(tree, indent="\t"))


@given(st.dictionaries(st.sampled_from(["low", "medium", "high", "critical"]), st.integers(0, 100)))
def test_exactly_thresholds_that_rise_are_accepted(chosen):
    problems = problems_of(load_settings, json.dumps({"qosManager": {"cpuPressure": chosen}}))
    merged = {**msgspec.structs.asdict(Settings().cpu_pressure), **chosen}
    assert (problems == []) == (sorted(set(merged.values())) == list(merged.values()))
    assert all("thresholds rise" in problem.message for problem in problems)


@given(states())
def test_a_state_comes_back_from_its_json(state):
    text = msgspec.json.encode({"node": {"cpus": 4, "cpu_usage": 1}, "state": state}).decode()
    assert load_snapshot(text, "f.json")[1] == state
