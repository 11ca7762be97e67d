"""An agent that reads less says so: in the log, as an event, in metrics and in the status."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from qosmanager.config.settings import Settings
from qosmanager.model.own_use import OwnUse
from qosmanager.views.decisions import Decisions
from qosmanager.views.log_lines import Severity, log_lines
from qosmanager.views.metrics import Metrics
from qosmanager.views.status import About, status
from records import record

ABOUT = About(version="1.2.3", pid=7, started=0.0)
FULL = record(1, own=OwnUse(cpu=0.01, rss=40 << 20, lag=0.0))
LESS = record(2, own=OwnUse(cpu=0.05, rss=41 << 20, lag=0.2, thrift=1, reason="0.050 cores used, allowed 0.03"))
WHY = "0.050 cores used, allowed 0.03: I/O and stall averages of pods, which are only shown, are read half as often"


def lines(now, before) -> list[tuple[Severity, str]]:
    return [(severity, line) for severity, line in log_lines(now, before) if line.startswith("Reads")]


def metrics(*records) -> str:
    found = Metrics(ABOUT, Settings())
    for each in records:
        found.observe(each)
    registry = CollectorRegistry()
    registry.register(found)
    return generate_latest(registry).decode()


def test_the_log_says_once_when_it_begins_and_once_when_it_is_over():
    assert lines(FULL, None) == []
    assert lines(LESS, FULL) == [(Severity.WARNING, f'ReadsLess steps=1 detail="{WHY}"')]
    assert lines(LESS, LESS) == []
    assert lines(FULL, LESS) == [(Severity.INFO, 'ReadsAll steps=0 detail="everything is read again"')]


def test_it_is_an_event():
    decisions = Decisions()
    for each in (FULL, LESS, LESS, FULL):
        decisions.observe(each)
    found = [(entry.kind, entry.subject, entry.reason) for entry in decisions.last(50) if entry.kind.startswith("reads")]
    assert found == [("reads_less", "agent", WHY), ("reads_all", "agent", "as before")]


def test_metrics_tell_its_own_use_and_why_it_holds_back():
    text = metrics(FULL, LESS)
    assert "koordlet_qos_own_cpu_cores 0.05\n" in text
    assert "koordlet_qos_own_memory_rss_bytes 4.2991616e+07\n" in text
    assert "koordlet_qos_own_lag_seconds 0.2\n" in text
    assert "koordlet_qos_own_thrift_steps 1.0\n" in text
    assert 'koordlet_qos_degraded{reason="over_budget"} 1.0\n' in text
    assert 'koordlet_qos_degraded{reason="over_budget"} 0.0\n' in metrics(FULL, LESS, FULL)


def test_the_status_holds_it_and_decisions_go_on():
    found = status(LESS, Settings(), ABOUT)
    assert found.own == LESS.own
    assert found.degraded == ()
