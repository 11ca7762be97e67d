"""Alerts and dashboard: they ask for metrics that there are, and the alerts fire when they should and not else."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
import yaml

from deploy_tools import DEPLOY, ROOT, tool

RULES = DEPLOY / "chart" / "qosmanager" / "files" / "alerts.yaml"
ALERTS = {rule["alert"]: rule for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]}
DASHBOARD = json.loads((DEPLOY / "grafana" / "qosmanager.json").read_text(encoding="utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
NAME = re.compile(r"koordlet_qos_[a-z0-9_]+")
# The page is made from a scrape in which everything happens, and another test compares the two.
EXPORTED = set(NAME.findall((ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")))


def asked(expression):
    return {name.removesuffix("_bucket") for name in NAME.findall(expression)}


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_asks_for_metrics_that_there_are(alert):
    assert asked(ALERTS[alert]["expr"])
    assert asked(ALERTS[alert]["expr"]) - EXPORTED == set()


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_asks_for_metrics_that_there_are(panel):
    expressions = [target["expr"] for target in panel["targets"]]
    assert all(asked(expression) for expression in expressions)
    assert set().union(*map(asked, expressions)) - EXPORTED == set()
    assert all('node=~"$node"' in expression for expression in expressions)


def test_the_dashboard_has_all_metrics_that_the_specification_names():
    shown = set().union(*(asked(target["expr"]) for panel in PANELS for target in panel["targets"]))
    assert {
        "koordlet_qos_cpu_pressure_score",
        "koordlet_qos_memory_pressure_score",
        "koordlet_qos_cpu_suppress_total",
        "koordlet_qos_cpu_evict_total",
        "koordlet_qos_memory_evict_total",
        "koordlet_qos_cpu_burst_total",
        "koordlet_qos_be_cpu_limit_cores",
        "koordlet_qos_decision_latency_milliseconds",
    } <= shown


def test_panels_do_not_lie_on_each_other_and_fit_the_page():
    taken = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(numbers)) == len(numbers)


def test_prometheus_understands_alerts_and_panels(tmp_path):
    rules = [
        {"record": f"panel:{panel['id']}:{target['refId']}", "expr": target["expr"]} for panel in PANELS for target in panel["targets"]
    ]
    path = tmp_path / "panels.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run([tool("promtool"), "check", "rules", str(RULES), str(path)], capture_output=True, text=True, check=False)
    assert f"SUCCESS: {len(rules)} rules found" in done.stdout, done.stderr
    assert done.returncode == 0, done.stderr


def series(name, values, **labels):
    shown = ",".join(f'{key}="{value}"' for key, value in {"node": "n1", **labels}.items())
    return {"series": f"koordlet_qos_{name}{{{shown}}}", "values": values}


OTHER = series("sync_period_seconds", "1x20", node="n2")
# Alert: series a minute apart that must raise it, at which minute, and series that must not.
FIRES = {
    "QOSManagerDegraded": (10, [series("degraded", "1x10", reason="node-stale")], [series("degraded", "1x10", reason="paused")]),
    "QOSManagerEvicting": (
        15,
        [series("cpu_evict_total", "0 0 4x20", reason="cpu_pressure"), series("memory_evict_total", "0x20", reason="oom_risk")],
        [series("cpu_evict_total", "0 0 2x20", reason="cpu_pressure"), series("memory_evict_total", "0x20", reason="oom_risk")],
    ),
    "QOSManagerOscillating": (10, [series("be_oscillating", "1x10")], [series("be_oscillating", "1 1 1 0 1 1 1 0 1 1 1")]),
    "QOSManagerStarving": (10, [series("be_starving", "1x10")], [series("be_starving", "0x10")]),
    # A minute of silence and one in which it lasts; time() begins at 0.
    "QOSManagerLoopLate": (
        5,
        [series("last_cycle_timestamp_seconds", "0 60 60 60 60 60"), series("sync_period_seconds", "1x5")],
        [series("last_cycle_timestamp_seconds", "0+60x5"), series("sync_period_seconds", "1x5")],
    ),
    # It has ended and is asked in vain; of a node that is there no more nothing is asked, while another one is heard.
    "QOSManagerDown": (
        12,
        [series("sync_period_seconds", "1 1 1 _x20"), {"series": 'up{node="n1"}', "values": "1 1 1 0x20"}, OTHER],
        [series("sync_period_seconds", "1 1 1 _x20"), {"series": 'up{node="n1"}', "values": "1 1 1 _x20"}, OTHER],
    ),
    "QOSManagerCyclesSlow": (
        20,
        [
            series("decision_latency_milliseconds_bucket", f"0+{n}x20", stage="total", le=le)
            for le, n in (("100.0", 30), ("200.0", 60), ("+Inf", 60))
        ],
        [
            series("decision_latency_milliseconds_bucket", f"0+{n}x20", stage="total", le=le)
            for le, n in (("100.0", 60), ("200.0", 60), ("+Inf", 60))
        ],
    ),
    "QOSManagerConfigRejected": (8, [series("config_rejected", "0 0 1x10")], [series("config_rejected", "1 0x10")]),
}


def test_every_alert_is_tried():
    assert set(FIRES) == set(ALERTS)


def tries(alert):
    minute, raising, calm = FIRES[alert]
    labels = {"severity": ALERTS[alert]["labels"]["severity"], "node": "n1"}
    if alert == "QOSManagerDegraded":
        labels["reason"] = "node-stale"
    for about, given, expected in (("fires", raising, [{"exp_labels": labels}]), ("keeps quiet", calm, [])):
        judged = {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": expected}
        yield {"name": f"{alert} {about}", "interval": "1m", "input_series": given, "alert_rule_test": [judged]}


def nobody_is_heard():
    labels = {"severity": "critical", "node": "every node"}
    judged = {"eval_time": "6m", "alertname": "QOSManagerDown", "exp_alerts": [{"exp_labels": labels}]}
    return {"name": "no agent is scraped", "interval": "1m", "input_series": [], "alert_rule_test": [judged]}


def test_an_alert_fires_when_it_should_and_not_else(tmp_path):
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    for rule in rules["groups"][0]["rules"]:
        rule.pop("annotations")  # their text is not what is tried
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))
    tests = [*(each for alert in ALERTS for each in tries(alert)), nobody_is_heard()]
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run([tool("promtool"), "test", "rules", str(tmp_path / "tests.yaml")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_alert_says_where_and_what_to_do():
    for name, rule in ALERTS.items():
        assert "{{ or $labels.node $labels.instance }}" in rule["annotations"]["summary"], name
        assert rule["annotations"]["description"].endswith("."), name
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
