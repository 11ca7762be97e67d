from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from qosmanager.config.parse import load, load_settings, read_settings
from qosmanager.config.presets import PRESETS, Preset
from qosmanager.config.settings import IsolationSettings, Policy, Settings, Strategy, Switch, Thresholds, Trigger, VictimOrder
from qosmanager.documents.problem import DocumentError
from qosmanager.model.qos import Mode, Plugin

CASES = sorted((Path(__file__).parents[2] / "cases").glob("*.yaml"))

EVERYTHING = """
qosManager:
  syncPeriod: 500ms
  cpuPressure: {low: 30, medium: 50, high: 70, critical: 85}
  memoryPressure: {low: 45}
  ioPressure: {critical: 95}
  smoothing: {window: 5m}
  hysteresis: {margin: 5, hold: 10s}
  lsRequestFloor: 0
  evictUnlabelled: true
  systemReserved: {cpu: 500m, memory: 1Gi}
  cpuSuppress:
    mode: observe
    suppressRatio: {low: 0.9, medium: 0.9}
    strategy: usage
    targetUtilization: 0.7
    policy: cpuset
    minCores: 0.2
    relaxStep: 0.05
  cpuEvict: {enabled: false, evictThreshold: 95, evictCooldown: 2m, trigger: either}
  memoryEvict: {evictThreshold: 80, minAvailable: 0.05, memoryGrowthThreshold: 10, oomScoreAdjust: 500, targetUtilization: 0.7,
                terminationTimeout: 1m, order: priority}
  cpuBurst: {mode: off, burstRatio: 2, burstDuration: 20s, burstCooldown: 0s, minNodeCPUIdle: 0.1}
  nodeQOSResource: {mode: enforce}
  systemQOSResource: {enabled: true}
  plugins: [CPUSuppress, MemoryEvict]
"""


def problems(text, source="config.yaml"):
    with pytest.raises(DocumentError) as caught:
        load_settings(text, source)
    return [str(problem) for problem in caught.value.problems]


def test_every_key_is_read():
    settings = load_settings(EVERYTHING, "config.yaml")
    assert settings.sync_period == 0.5
    assert settings.cpu_pressure == Thresholds(low=30, medium=50, high=70, critical=85)
    assert settings.memory_pressure == Thresholds(low=45, medium=70, high=80, critical=90)
    assert settings.io_pressure.critical == 95
    assert (settings.smoothing.window, settings.hysteresis.margin, settings.hysteresis.hold) == (300, 5, 10)
    assert (settings.ls_request_floor, settings.evict_unlabelled) == (0, True)
    assert (settings.system_reserved.cpu, settings.system_reserved.memory) == (0.5, 1 << 30)
    suppress = settings.cpu_suppress
    assert (suppress.mode, suppress.strategy, suppress.policy) == (Mode.OBSERVE, Strategy.USAGE, Policy.CPUSET)
    assert (suppress.target_utilization, suppress.min_cores, suppress.relax_step) == (0.7, 0.2, 0.05)
    assert (suppress.suppress_ratio.low, suppress.suppress_ratio.medium, suppress.suppress_ratio.high) == (0.9, 0.9, 0.5)
    evict = settings.cpu_evict
    assert (evict.mode, evict.evict_threshold, evict.evict_cooldown, evict.trigger) == (Mode.OFF, 95, 120, Trigger.EITHER)
    memory = settings.memory_evict
    assert (memory.evict_threshold, memory.min_available, memory.memory_growth_threshold, memory.oom_score_adjust) == (80, 0.05, 10, 500)
    assert (memory.target_utilization, memory.termination_timeout, memory.order) == (0.7, 60, VictimOrder.PRIORITY)
    burst = settings.cpu_burst
    assert (burst.mode, burst.burst_ratio, burst.burst_duration, burst.burst_cooldown, burst.min_node_cpu_idle) == (Mode.OFF, 2, 20, 0, 0.1)
    assert settings.plugins == (Plugin.CPU_SUPPRESS, Plugin.MEMORY_EVICT)


@pytest.mark.parametrize("text", ["", "qosManager:", "qosManager: {}", "---\n# nothing\n", "{}", '{"qosManager": null}'])
def test_nothing_gives_the_defaults(text):
    assert load_settings(text, "config.yaml") == Settings()


def test_the_documented_message():
    text = "qosManager:\n  syncPeriod: 1s\n\n  # bursts\n  cpuBurst:\n    enabled: true\n    burstRatio: 9\n"
    assert problems(text) == ["config.yaml:7: qosManager.cpuBurst.burstRatio: 9 is not allowed; a number from 1 to 4"]


def test_problems_of_every_kind_come_together():
    text = """qosManager:
  syncPeriod: 1
  cpuPresure: {low: 3}
  cpuBurst: {enabled: yes}
  plugins: [CPUBrust]
  preset: latncy-first
  systemReserved: {memory: 2GB}
other: 1
"""
    assert problems(text) == [
        "config.yaml:2: qosManager.syncPeriod: 1 is not allowed; a duration from 100ms to 1m (a duration needs its unit: 1s or 1ms?)",
        "config.yaml:3: qosManager.cpuPresure: unknown key (did you mean cpuPressure?)",
        "config.yaml:4: qosManager.cpuBurst.enabled: yes is not allowed; true or false",
        (
            "config.yaml:5: qosManager.plugins[0]: CPUBrust is not allowed; one of NodeQOSResource, SystemQOSResource, CPUBurst, "
            "CPUSuppress, CPUEvict, MemoryEvict (did you mean CPUBurst?)"
        ),
        (
            "config.yaml:6: qosManager.preset: latncy-first is not allowed; one of latency-first, throughput-first, balanced, "
            "slo-first (did you mean latency-first?)"
        ),
        "config.yaml:7: qosManager.systemReserved.memory: 2GB is not allowed; bytes (2Gi, 500Mi, 1G or a whole number), 0 or more (2Gi?)",
        "config.yaml:8: other: unknown key (known are qosManager)",
    ]


def test_a_workload_file_in_the_place_of_a_configuration_is_told_where_it_goes():
    with pytest.raises(DocumentError) as refused:
        load_settings("workloads: []", "workloads.yaml")
    assert str(refused.value) == "workloads.yaml:1: workloads: unknown key (known are qosManager; a workload file goes with --workloads)"


@pytest.mark.parametrize(
    ("key", "inside", "outside"),
    [
        ("syncPeriod: {}", ("100ms", "60s"), ("99ms", "61s")),
        ("smoothing: {{window: {}}}", ("0s", "1h"), ("3601s",)),
        ("hysteresis: {{margin: {}}}", ("0", "20"), ("-1", "20.1")),
        ("hysteresis: {{hold: {}}}", ("0s", "5m"), ("301s",)),
        ("lsRequestFloor: {}", ("0", "1"), ("-0.1", "1.1")),
        ("cpuPressure: {{low: {}}}", ("0",), ("-1", "101")),
        ("cpuSuppress: {{suppressRatio: {{low: {}}}}}", ("1",), ("1.1",)),
        ("cpuSuppress: {{targetUtilization: {}}}", ("0.1", "1"), ("0.09", "1.1")),
        ("cpuSuppress: {{minCores: {}}}", ("0.01", "10m", "8"), ("9m", "8.1")),
        ("cpuSuppress: {{relaxStep: {}}}", ("0.01", "1"), ("0", "1.1")),
        ("cpuEvict: {{evictThreshold: {}}}", ("0", "100"), ("-1", "101")),
        ("cpuEvict: {{evictCooldown: {}}}", ("1s", "1h"), ("0s", "2h")),
        ("memoryEvict: {{minAvailable: {}}}", ("0", "0.5"), ("0.51",)),
        ("memoryEvict: {{memoryGrowthThreshold: {}}}", ("0.1",), ("0", "-1")),
        ("memoryEvict: {{oomScoreAdjust: {}}}", ("-1000", "1000"), ("-1001", "1001", "1.5")),
        ("memoryEvict: {{targetUtilization: {}}}", ("0.5", "0.95"), ("0.49", "0.96")),
        ("memoryEvict: {{terminationTimeout: {}}}", ("1s", "10m"), ("999ms", "11m")),
        ("cpuBurst: {{burstRatio: {}}}", ("1", "4"), ("0.9", "4.1")),
        ("cpuBurst: {{burstDuration: {}}}", ("1s", "10m"), ("0s", "11m")),
        ("cpuBurst: {{burstCooldown: {}}}", ("0s", "1h"), ("61m",)),
        ("cpuBurst: {{minNodeCPUIdle: {}}}", ("0", "0.5"), ("0.6",)),
    ],
)
def test_bounds(key, inside, outside):
    for value in inside:
        load_settings(f"qosManager: {{{key.format(value)}}}", "config.yaml")
    for value in outside:
        (problem,) = problems(f"qosManager: {{{key.format(value)}}}")
        assert f": {value} is not allowed; " in problem


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ("latency-first", ((40, 50, 65, 80), (1, 0.7, 0.4, 0.2, 0.1), 2.0, 0.15, Mode.ENFORCE)),
        ("throughput-first", ((40, 70, 85, 95), (1, 0.9, 0.7, 0.5, 0.1), 1.5, 0.2, Mode.OFF)),
        ("balanced", ((40, 60, 75, 90), (1, 0.8, 0.5, 0.3, 0.1), 1.5, 0.2, Mode.ENFORCE)),
    ],
)
def test_presets(preset, expected):
    settings = load_settings(f"qosManager: {{preset: {preset}}}", "config.yaml")
    pressure, ratio, burst = settings.cpu_pressure, settings.cpu_suppress.suppress_ratio, settings.cpu_burst
    assert expected == (
        (pressure.low, pressure.medium, pressure.high, pressure.critical),
        (ratio.low, ratio.medium, ratio.high, ratio.critical, ratio.emergency),
        burst.burst_ratio,
        burst.min_node_cpu_idle,
        settings.cpu_evict.mode,
    )


def test_slo_first_is_strategy_slo_with_all_that_isolation_may_do():
    settings = load_settings("qosManager: {preset: slo-first, isolation: {io: 'off'}}", "config.yaml")
    assert settings.cpu_suppress.strategy is Strategy.SLO
    assert settings.isolation == IsolationSettings(services=Switch.AUTO, memory=Switch.AUTO, io=Switch.OFF)  # a key of one's own wins


def test_balanced_is_the_defaults():
    assert PRESETS[Preset.BALANCED] == Settings()


def test_the_users_own_keys_lie_above_the_preset():
    text = "qosManager:\n  cpuPressure: {high: 80}\n  cpuEvict: {enabled: true}\n  preset: throughput-first\n"
    settings = load_settings(text, "config.yaml")
    assert settings.cpu_pressure == Thresholds(low=40, medium=70, high=80, critical=95)
    assert settings.cpu_evict.mode is Mode.ENFORCE
    assert settings.cpu_suppress.suppress_ratio.high == 0.7


def test_thresholds_rise_after_the_preset_is_merged():
    text = "qosManager:\n  preset: latency-first\n  cpuPressure:\n    low: 55\n"
    assert problems(text) == [
        "config.yaml:4: qosManager.cpuPressure.low: 55 is not allowed; thresholds rise: low < medium (medium is 50, preset latency-first)"
    ]


def test_equal_thresholds_do_not_rise():
    assert problems("qosManager:\n  ioPressure:\n    low: 50\n    medium: 50\n") == [
        "config.yaml:4: qosManager.ioPressure.medium: 50 is not allowed; thresholds rise: low < medium (low is 50, config.yaml:3)"
    ]


def test_ratios_may_stay_equal_but_not_rise():
    text = "qosManager:\n  cpuSuppress:\n    suppressRatio: {critical: %s}\n"
    assert load_settings(text % 0.5, "config.yaml").cpu_suppress.suppress_ratio.critical == 0.5
    assert problems(text % 0.6) == [
        (
            "config.yaml:3: qosManager.cpuSuppress.suppressRatio.critical: 0.6 is not allowed; ratios do not rise: high >= critical "
            "(high is 0.5, default)"
        )
    ]


def test_a_refused_threshold_is_not_blamed_on_its_neighbour():
    assert problems("qosManager:\n  cpuPressure:\n    low: x\n    medium: 30\n") == [
        "config.yaml:3: qosManager.cpuPressure.low: x is not allowed; a number from 0 to 100"
    ]


@pytest.mark.parametrize(
    ("given", "mode"),
    [
        ("{enabled: true}", Mode.ENFORCE),
        ("{enabled: false}", Mode.OFF),
        ("{mode: off}", Mode.OFF),
        ("{mode: observe}", Mode.OBSERVE),
        ("{enabled: false, mode: off}", Mode.OFF),
        ("{enabled: true, mode: enforce}", Mode.ENFORCE),
    ],
)
@pytest.mark.parametrize(
    ("section", "plugin"),
    [
        ("cpuBurst", Plugin.CPU_BURST),
        ("cpuSuppress", Plugin.CPU_SUPPRESS),
        ("cpuEvict", Plugin.CPU_EVICT),
        ("memoryEvict", Plugin.MEMORY_EVICT),
        ("nodeQOSResource", Plugin.NODE_QOS_RESOURCE),
        ("systemQOSResource", Plugin.SYSTEM_QOS_RESOURCE),
    ],
)
def test_enabled_is_the_short_form_of_mode(section, plugin, given, mode):
    assert load_settings(f"qosManager: {{{section}: {given}}}", "config.yaml").mode(plugin) is mode


@pytest.mark.parametrize(
    ("enabled", "short", "mode"), [("true", "enforce", "off"), ("true", "enforce", "observe"), ("false", "off", "enforce")]
)
def test_enabled_and_mode_may_not_contradict(enabled, short, mode):
    assert problems(f"qosManager:\n  cpuEvict:\n    mode: {mode}\n    enabled: {enabled}\n") == [
        (
            f"config.yaml:4: qosManager.cpuEvict.enabled: {enabled} is not allowed; it is short for mode {short}, but mode is {mode} "
            "(keep one of the two)"
        )
    ]


def test_a_plugin_is_named_once():
    assert problems("qosManager:\n  plugins: [CPUBurst, CPUBurst]\n") == ["config.yaml:2: qosManager.plugins: CPUBurst is named twice"]


CONFIG_MAP = """apiVersion: v1
kind: ConfigMap
metadata: {name: koordlet}
data:
  other.yaml: "x: 1"
  koordlet-config.yaml: |

    qosManager:
      cpuBurst:
        burstRatio: %s
"""


def test_a_config_map_is_read_with_its_own_lines():
    assert load_settings(CONFIG_MAP % 3, "cm.yaml").cpu_burst.burst_ratio == 3
    assert problems(CONFIG_MAP % 9, "cm.yaml") == ["cm.yaml:10: qosManager.cpuBurst.burstRatio: 9 is not allowed; a number from 1 to 4"]


def test_a_config_map_in_json_has_lines_of_the_inner_text_and_says_so():
    text = '{"kind": "ConfigMap", "data": {"koordlet-config.yaml": "qosManager:\\n  syncPeriod: 1\\n"}}'
    (problem,) = problems(text, "cm.json")
    assert problem.startswith("cm.json (in data.koordlet-config.yaml, its own line):2: qosManager.syncPeriod: 1 is not allowed; ")


@pytest.mark.parametrize("data", ["", "data:\n", "data: {a: b}\n", "data: {koordlet-config.yaml: [1]}\n"])
def test_a_config_map_without_the_file(data):
    (problem,) = problems(f"kind: ConfigMap\n{data}", "cm.yaml")
    assert problem.endswith("data.koordlet-config.yaml: this ConfigMap holds no text under koordlet-config.yaml")


def test_where_each_value_comes_from():
    text = "qosManager:\n  preset: latency-first\n  cpuBurst:\n    enabled: false\n    burstRatio: 3\n"
    origins = load(text, "c.yaml").origins
    assert origins["qosManager.cpuBurst.burstRatio"] == "c.yaml:5"
    assert origins["qosManager.cpuBurst.mode"] == "c.yaml:4"
    assert origins["qosManager.cpuBurst.minNodeCPUIdle"] == "preset latency-first"
    assert origins["qosManager.cpuPressure.medium"] == "preset latency-first"
    assert origins["qosManager.cpuPressure.low"] == "default"
    assert origins["qosManager.plugins"] == "default"


def test_a_file_is_read(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("qosManager: {syncPeriod: 2s}\n", encoding="utf-8")
    assert read_settings(path) == replace(Settings(), sync_period=2.0)


def test_a_file_that_is_not_there_is_a_problem(tmp_path):
    with pytest.raises(DocumentError, match="cannot be read: no such file or directory"):
        read_settings(tmp_path / "config.yaml")


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_the_configuration_of_every_worked_case_is_read(case):
    config = yaml.safe_load(case.read_text(encoding="utf-8")).get("config")
    settings = load_settings(yaml.safe_dump(config) if config else "", case.name)
    assert (settings == Settings()) == (config is None)
