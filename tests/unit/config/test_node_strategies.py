import pytest
import yaml

from json_schema import faults
from qosmanager.config.node_strategies import Expression, NodeSelector, Operator
from qosmanager.config.parse import load
from qosmanager.config.schema import config_schema
from qosmanager.config.written import effective_yaml
from qosmanager.documents.problem import DocumentError
from qosmanager.model.qos import Mode

FILE = """\
qosManager:
  syncPeriod: 2s
  cpuPressure: {low: 30}
  nodeStrategies:
  - name: batch
    nodeSelector: {matchLabels: {pool: batch}}
    cpuPressure: {high: 80}
    cpuBurst: {enabled: false}
  - name: big
    nodeSelector:
      matchExpressions:
      - {key: size, operator: In, values: [l, xl]}
      - {key: gpu, operator: DoesNotExist}
    cpuPressure: {high: 85}
    evictionBudget: 50
"""


def loaded(text=FILE, **labels):
    return load(text, "qos.yaml", labels)


def problems(text, labels=None):
    with pytest.raises(DocumentError) as refused:
        load(text, "qos.yaml", labels)
    return [str(problem) for problem in refused.value.problems]


def strategy(body, *more):
    """A file with strategies in flow style: the first one is on line 3."""
    lines = "".join(f"\n  - {each}" for each in (body, *more))
    return f"qosManager:\n  nodeStrategies:{lines}\n"


def test_who_is_not_selected_has_the_files_own_values():
    found = loaded(pool="web")
    assert (found.settings.cpu_pressure.high, found.settings.cpu_burst.mode, found.groups) == (75.0, Mode.ENFORCE, ())


def test_who_is_selected_has_the_overrides_over_the_files_own_values():
    settings = loaded(pool="batch").settings
    assert (settings.cpu_pressure.low, settings.cpu_pressure.high, settings.sync_period) == (30.0, 80.0, 2.0)
    assert settings.cpu_burst.mode is Mode.OFF


def test_of_two_that_select_the_node_the_later_one_wins_value_by_value():
    found = loaded(pool="batch", size="xl")
    assert (found.settings.cpu_pressure.high, found.settings.cpu_burst.mode, found.settings.eviction_budget) == (85.0, Mode.OFF, 50)
    assert found.groups == ("batch", "big")


def test_every_value_tells_where_it_comes_from():
    origins = loaded(pool="batch", size="xl").origins
    assert origins["qosManager.syncPeriod"] == "qos.yaml:2"
    assert origins["qosManager.cpuPressure.low"] == "qos.yaml:3"
    assert origins["qosManager.cpuPressure.high"] == "qos.yaml:14 (nodeStrategies big)"
    assert origins["qosManager.cpuBurst.mode"] == "qos.yaml:8 (nodeStrategies batch)"
    assert origins["qosManager.cpuPressure.medium"] == "default"


def test_without_labels_nobody_is_selected():
    assert load(FILE, "qos.yaml").groups == ()
    assert load(strategy("{nodeSelector: {}, evictionBudget: 3}"), "qos.yaml").settings.eviction_budget == 10


def test_an_empty_selector_selects_every_node():
    assert loaded(strategy("{nodeSelector: {}, evictionBudget: 3}")).settings.eviction_budget == 3


def test_a_preset_of_a_strategy_lies_under_its_keys_and_over_the_files():
    found = loaded(
        strategy("{nodeSelector: {}, preset: latency-first, cpuBurst: {burstRatio: 3}}").replace(
            "nodeS", "cpuPressure: {low: 20}\n  nodeS", 1
        )
    )
    assert found.settings.cpu_burst.burst_ratio == 3.0
    assert (found.settings.cpu_pressure.low, found.settings.cpu_pressure.medium) == (20.0, 50.0)
    assert found.origins["qosManager.cpuPressure.medium"] == "preset latency-first (nodeStrategies [0])"
    assert found.origins["qosManager.cpuBurst.burstRatio"] == "qos.yaml:4 (nodeStrategies [0])"


def test_what_it_prints_is_a_file_with_the_same_effect():
    found = loaded(pool="batch", size="xl")
    text = effective_yaml(found)
    assert text.startswith("# of the nodeStrategies, these select the node: batch, big\n")
    assert load(text, "again.yaml").settings == found.settings


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("{evictionBudget: 3}", "nodeSelector: is required: a mapping"),
        ("{nodeSelector: null, evictionBudget: 3}", "nodeSelector: null is not allowed; a mapping ({} selects every node)"),
        ("{nodeSelector: {matchLabel: {}}}", "nodeSelector.matchLabel: unknown key (did you mean matchLabels?)"),
        ("{nodeSelector: {matchLabels: {pool: true}}}", 'write "true" in quotes'),
        ("{nodeSelector: {matchLabels: [pool]}}", "nodeSelector.matchLabels"),
        ("{nodeSelector: {matchExpressions: [{key: a, operator: Inn, values: [b]}]}}", "did you mean In?"),
        ("{nodeSelector: {matchExpressions: [{key: a, operator: In}]}}", "In takes one value or more"),
        ("{nodeSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}", "Exists takes no values"),
        ("{nodeSelector: {matchExpressions: [{operator: Exists}]}}", "is required: a text"),
        ("{nodeSelector: {}, cpuPresure: {}}", "nodeStrategies[0].cpuPresure: unknown key (did you mean cpuPressure?)"),
        ("{nodeSelector: {}, evictionBudget: 0}", "nodeStrategies[0].evictionBudget: 0"),
        ("{nodeSelector: {}, nodeStrategies: []}", "is not allowed inside another one"),
        ("{nodeSelector: {}, preset: fast}", "nodeStrategies[0].preset"),
        ("{nodeSelector: {}, cpuPressure: {high: 95}}", "thresholds rise: high < critical"),
        ("{nodeSelector: {}, cpuBurst: {enabled: true, mode: 'off'}}", "keep one of the two"),
        ("{nodeSelector: {}, plugins: [CPUBurst, CPUBurst]}", "CPUBurst is named twice"),
        ("3", "a mapping with name, nodeSelector and settings"),
    ],
)
def test_a_strategy_that_is_wrong_is_refused_whether_it_selects_the_node_or_not(body, told):
    (unknown,) = problems(strategy(body))
    assert told in unknown
    assert unknown.startswith("qos.yaml:3: ")
    assert problems(strategy(body), {"pool": "batch"}) == [unknown]


@pytest.mark.parametrize("value", ["{}", "3", "text"])
def test_strategies_are_a_list(value):
    assert "nodeStrategies" in problems(f"qosManager: {{nodeStrategies: {value}}}")[0]


def test_there_are_a_hundred_at_most():
    one = "{nodeSelector: {}, syncPeriod: 3s}"
    file = "qosManager:\n  nodeStrategies: [%s]\n"
    assert len(loaded(file % ", ".join([one] * 100)).groups) == 100
    many = file % ", ".join([one] * 101)
    assert problems(many) == ["qos.yaml:2: qosManager.nodeStrategies: holds 101; at most 100 are allowed"]
    assert faults(config_schema(), yaml.safe_load(many)) != []


def test_no_strategies_are_none():
    assert loaded("qosManager: {nodeStrategies: }").groups == ()


def test_two_that_do_not_go_together_are_refused_on_the_node_that_has_both():
    text = strategy("{nodeSelector: {}, cpuPressure: {high: 88}}", "{nodeSelector: {}, cpuPressure: {medium: 70, critical: 86}}")
    assert load(text, "qos.yaml").groups == ()
    (told,) = problems(text, {})
    assert told.startswith("qos.yaml:4: qosManager.nodeStrategies[1].cpuPressure.critical: ")
    assert "high is 88, qos.yaml:3 (nodeStrategies [0])" in told


def test_a_mistake_of_the_file_itself_is_told_once():
    assert (
        len(problems("qosManager:\n  cpuPressure: {high: 95}\n  nodeStrategies:\n  - {nodeSelector: {}, cpuPressure: {low: 1}}\n", {})) == 1
    )


@pytest.mark.parametrize(
    ("operator", "values", "labels", "holds"),
    [
        (Operator.IN, ("a", "b"), {"k": "b"}, True),
        (Operator.IN, ("a", "b"), {"k": "c"}, False),
        (Operator.IN, ("a",), {}, False),
        (Operator.NOT_IN, ("a",), {"k": "a"}, False),
        (Operator.NOT_IN, ("a",), {}, True),
        (Operator.EXISTS, (), {"k": ""}, True),
        (Operator.EXISTS, (), {}, False),
        (Operator.DOES_NOT_EXIST, (), {}, True),
        (Operator.DOES_NOT_EXIST, (), {"k": ""}, False),
    ],
)
def test_an_expression_means_what_it_means_to_kubernetes(operator, values, labels, holds):
    assert Expression(key="k", operator=operator, values=values).holds(labels) is holds


def test_a_selector_wants_all_its_conditions():
    both = NodeSelector(match_labels={"a": "1"}, match_expressions=(Expression(key="b", operator=Operator.EXISTS),))
    assert both.selects({"a": "1", "b": ""})
    assert not both.selects({"a": "1"})
    assert not both.selects({"a": "2", "b": ""})


def test_the_schema_takes_what_the_parser_takes_and_refuses_what_it_refuses():
    assert faults(config_schema(), yaml.safe_load(FILE)) == []
    for wrong in (
        "{evictionBudget: 3}",
        "{nodeSelector: {}, evictionBudget: 0}",
        "{nodeSelector: {}, x: 1}",
        "{nodeSelector: {}, nodeStrategies: []}",
    ):
        assert faults(config_schema(), yaml.safe_load(strategy(wrong))), wrong
