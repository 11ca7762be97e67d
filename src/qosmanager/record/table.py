"""A recording as tables: one row for each cycle, for each pod in each cycle, or for each action (docs/record.md).

In: a recording. Out: columns with their units in their names, and rows. Cycles are decided again for what is judged; a reading that was not
measured is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from qosmanager.model.qos import QoS, is_latency_sensitive
from qosmanager.model.record import CycleRecord
from qosmanager.model.snapshot import Pod
from qosmanager.record.reader import Recording
from qosmanager.record.replay import replay
from qosmanager.views.effects import amount, effects, subject
from qosmanager.views.figures import iso
from qosmanager.views.status import be_usage

Cell = str | float | int | bool | None


class Column(Struct, frozen=True):
    """A column's name, and its kind: str, float, int or bool."""

    name: str
    kind: type


class Table(Struct, frozen=True):
    """One way to see a recording."""

    columns: tuple[Column, ...]
    rows: Callable[[Recording], Iterator[tuple[Cell, ...]]]


_HEAD = (Column("time", str), Column("wall_seconds", float), Column("cycle", int))
_NODE = (
    "cpus",
    "cpu_usage",
    "cpu_trend",
    "load1",
    "memory_total",
    "memory_available",
    "memory_available_trend",
    "swap_total",
    "swap_used",
    "pgscan_direct",
    "pgscan_kswapd",
    "memory_psi_full",
    "io_psi_some",
    "iowait",
    "disk_util",
    "net_util",
    "ls_memory_growth",
    "cpu_psi_some",
    "context_switches",
    "softirq",
    "steal",
)
_WHOLE = ("memory_total", "memory_available", "swap_total", "swap_used")
_JUDGED: tuple[tuple[Column, Callable[[CycleRecord], Cell]], ...] = (
    (Column("cpu_score", float), lambda record: record.assessment.cpu.score),
    (Column("memory_score", float), lambda record: record.assessment.memory.score),
    (Column("io_score", float), lambda record: record.assessment.io.score),
    (Column("raw_level", str), lambda record: record.assessment.raw_level.value),
    (Column("level", str), lambda record: record.plan.level.value),
    (Column("slo", str), lambda record: record.assessment.slo.value),
    (Column("oom_risk", bool), lambda record: record.assessment.oom.present),
    (Column("ls_pods", int), lambda record: sum(is_latency_sensitive(pod.qos) for pod in record.snapshot.pods)),
    (Column("ls_cpu_usage", float), lambda record: _ls_usage(record.snapshot.pods)),
    (Column("be_pods", int), lambda record: sum(pod.qos is QoS.BE for pod in record.snapshot.pods)),
    (Column("be_cpu_usage", float), lambda record: be_usage(record.snapshot.pods)),
    (Column("be_limit", float), lambda record: record.state.be_limit),
    (Column("be_cpus", str), lambda record: record.state.be_cpus),
    (Column("bursts", int), lambda record: len(record.state.bursts)),
    (Column("actions", int), lambda record: len(record.plan.actions)),
    (Column("paused", bool), lambda record: record.snapshot.paused),
    (Column("degraded", str), lambda record: "; ".join(record.plan.degraded)),
    (Column("cycle_milliseconds", float), lambda record: record.durations.get("total")),
)
_POD: tuple[tuple[Column, Callable[[Pod], Cell]], ...] = (
    (Column("pod", str), lambda pod: pod.key),
    (Column("uid", str), lambda pod: pod.uid),
    (Column("qos", str), lambda pod: pod.qos.value),
    (Column("priority", int), lambda pod: pod.priority),
    (Column("terminating", bool), lambda pod: pod.terminating),
    (Column("cpu_request", float), lambda pod: pod.cpu.request),
    (Column("cpu_limit", float), lambda pod: pod.cpu.limit),
    (Column("cpu_usage", float), lambda pod: pod.cpu.usage),
    (Column("cpu_usage_mean", float), lambda pod: pod.cpu.usage_mean),
    (Column("cpu_wait", float), lambda pod: pod.cpu.wait),
    (Column("cpu_throttled", float), lambda pod: pod.cpu.throttled),
    (Column("memory_request", int), lambda pod: pod.memory.request),
    (Column("memory_limit", int), lambda pod: pod.memory.limit),
    (Column("memory_rss", int), lambda pod: pod.memory.rss),
    (Column("memory_growth", float), lambda pod: pod.memory.growth),
    (Column("latency_p99", float), lambda pod: pod.latency.p99),
    (Column("latency_slo", float), lambda pod: pod.latency.slo),
    (Column("latency_trend", float), lambda pod: pod.latency.trend),
    (Column("io_read", float), lambda pod: pod.observed.io_read),
    (Column("io_write", float), lambda pod: pod.observed.io_write),
    (Column("cpu_psi_some", float), lambda pod: pod.observed.cpu_psi_some),
    (Column("memory_psi_full", float), lambda pod: pod.observed.memory_psi_full),
    (Column("io_psi_some", float), lambda pod: pod.observed.io_psi_some),
)
_ACTION = ("plugin", "kind", "subject", "amount", "mode", "result", "reason", "details")


def _cycles(recording: Recording) -> Iterator[tuple[Cell, ...]]:
    for each in replay(recording.cycles()):
        record = each.record
        node = record.snapshot.node
        yield (*_head(record.wall, record.number), *(getattr(node, name) for name in _NODE), *(cell(record) for _, cell in _JUDGED))


def _pods(recording: Recording) -> Iterator[tuple[Cell, ...]]:
    for cycle, snapshot in recording.cycles():
        head = _head(cycle.wall, cycle.number)
        for pod in snapshot.pods:
            yield (*head, *(cell(pod) for _, cell in _POD))


def _actions(recording: Recording) -> Iterator[tuple[Cell, ...]]:
    for each in replay(recording.cycles()):
        record = each.record
        for effect in effects(record):
            action = effect.action
            details = "; ".join(dict.fromkeys(receipt.detail for receipt in effect.receipts if receipt.detail))
            result = effect.result.value if effect.result else None
            what = (action.plugin.value, effect.kind, subject(action), amount(action), action.mode.value, result, action.reason, details)
            yield (*_head(record.wall, record.number), *what)


def _head(wall: float, number: int) -> tuple[Cell, ...]:
    return iso(wall), wall, number


def _ls_usage(pods: tuple[Pod, ...]) -> float | None:
    measured = [pod.cpu.usage for pod in pods if is_latency_sensitive(pod.qos) and pod.cpu.usage is not None]
    return sum(measured) if measured else None


def _of(cells: tuple[tuple[Column, Any], ...]) -> tuple[Column, ...]:
    return tuple(column for column, _ in cells)


TABLES: dict[str, Table] = {
    "cycles": Table((*_HEAD, *(Column(name, int if name in _WHOLE else float) for name in _NODE), *_of(_JUDGED)), _cycles),
    "pods": Table((*_HEAD, *_of(_POD)), _pods),
    "actions": Table((*_HEAD, *(Column(name, str) for name in _ACTION)), _actions),
}
