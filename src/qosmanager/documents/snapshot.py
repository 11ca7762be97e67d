"""The snapshot document of `qosmanager plan`: a node, its pods and the engine's state (specification, section 8).

The answer of a running agent's /snapshot is read as well: its keys are those of the model, and its latencies are plain seconds.

In: YAML or JSON. Out: the model's Snapshot and State, or DocumentError with every problem. The tables below say what each value may be;
a field of the model without an entry is a plain number, a word, a truth value or a text, by its type.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from qosmanager.documents.names import Names, check_key
from qosmanager.documents.quantities import Rule
from qosmanager.documents.reader import Checks, Grammar, Reader, Rules, S, join
from qosmanager.documents.tree import Mapping, parse
from qosmanager.documents.tree import Node as Tree
from qosmanager.model.forecast import Forecast
from qosmanager.model.qos import Plugin
from qosmanager.model.snapshot import CpuId, Node, Pod, PodCpu, PodLatency, PodMemory, PodObserved, Snapshot
from qosmanager.model.state import Bucket, Burst, IoHold, IoLesson, Moment, Pending, Squeeze, State, Watch

NOT_GIVEN = "not in the document"

_AMOUNT = Rule(low=0)
_PERCENT = Rule(unit="percent", low=0, high=100)
_RATIO = Rule(unit="ratio", low=0, high=1)
_CORES = Rule(unit="cores", low=0)
_BYTES = Rule(unit="bytes", low=0)
_DURATION = Rule(unit="duration", low=0)
_TIME = Rule(unit="time")
_ID = Rule(low=0, high=65535)

_RULES: Rules = {
    Node: {
        "cpus": Rule(unit="cores", above=0, high=65536),
        "cpu_usage": Rule(unit="cores", low=0, required=True),
        "memory_total": Rule(unit="bytes", above=0),
        **dict.fromkeys(("system_reserved", "ls_cpu_peak", "ls_cpu_p95", "cpu_peak_24h"), _CORES),
        **dict.fromkeys(("memory_available", "swap_total", "swap_used"), _BYTES),
        **dict.fromkeys(("load1", "pgscan_direct", "pgscan_kswapd", "context_switches"), _AMOUNT),
        **dict.fromkeys(("cpu_psi_some", "cpu_psi_full", "memory_psi_some", "memory_psi_full", "io_psi_some", "io_psi_full"), _PERCENT),
        **dict.fromkeys(("iowait", "disk_util", "net_util", "softirq", "steal"), _PERCENT),
    },
    CpuId: dict.fromkeys(("cpu", "core", "socket", "numa"), _ID),
    Pod: {"priority": Rule(low=-(2**31), high=2**31 - 1), "created": _TIME, "exclusive_cpus": _ID},
    PodCpu: {
        **dict.fromkeys(("request", "usage", "usage_mean", "wait"), _CORES),
        "limit": Rule(unit="cores", above=0),
        "throttled": _RATIO,
    },
    PodMemory: {**dict.fromkeys(("request", "limit", "rss"), _BYTES), "growth_before": _AMOUNT},
    PodLatency: {"p99": _DURATION, "slo": Rule(unit="duration", above=0), "median": _DURATION},
    PodObserved: {
        **dict.fromkeys(("io_read", "io_write"), _AMOUNT),
        **dict.fromkeys(("cpu_psi_some", "memory_psi_full", "io_psi_some"), _PERCENT),
    },
    State: {
        **dict.fromkeys(("time", "suppress_since", "below_since", "score_above_since", "victim_ended", "floor_since"), _TIME),
        "cpuset_refused": _TIME,
        **dict.fromkeys(("cooldown_until", "burst_cooldown_until", "terminating_since", "unfit_since", "reversals"), _TIME),
        **dict.fromkeys(("be_limit", "system_usage"), _CORES),
        "evict_rounds": _AMOUNT,
        "last_move": Rule(low=-1, high=1),
    },
    Burst: {**dict.fromkeys(("base_limit", "limit"), Rule(unit="cores", above=0)), "started": _TIME, "calm_since": _TIME},
    Moment: {"time": _TIME, "system_usage": _CORES, "demand": _CORES, "ls_usage": _CORES},
    Bucket: {"start": _TIME, "count": _AMOUNT},
    Pending: {"since": _TIME, "cpu": _CORES, "memory": _BYTES},
    Watch: {"since": _TIME},
    Squeeze: {**dict.fromkeys(("high", "available"), _BYTES), **dict.fromkeys(("moved", "gained", "calm_since"), _TIME)},
    IoHold: {**dict.fromkeys(("limit", "own"), _BYTES), "moved": _TIME, "severity": _AMOUNT},
    IoLesson: {"futile": _AMOUNT, "borne_until": _TIME, "borne": _AMOUNT},
}

# A claim that is absent was not made, and an identity that is absent is not there: neither is a reading that failed.
_NO_READINGS = {PodCpu: {"request", "limit"}, PodMemory: {"request", "limit"}, PodLatency: {"slo"}, Pod: {"created", "owner"}}


_ANSWER_RULES: Rules = {
    **_RULES,
    PodLatency: {"p99": _AMOUNT, "slo": Rule(above=0), "median": _AMOUNT},
    Snapshot: {"be_cpus": _ID, "be_memory": _BYTES, "time": _TIME, "node_age": _AMOUNT, "pods_age": _AMOUNT},
    Forecast: {"cores": _CORES, "error": _AMOUNT},
}


class _Answer(Struct, frozen=True, kw_only=True):
    """The keys of an answer of /snapshot."""

    snapshot: Snapshot
    cycle: int = 0
    wall: float = 0.0


class _Document(Struct, frozen=True, kw_only=True):
    """The keys of the document."""

    node: Node
    pods: tuple[Pod, ...] = ()
    time: Annotated[float | None, Meta(extra={"unit": "time"})] = None
    state: State = State()


def load_snapshot(text: str, source: str) -> tuple[Snapshot, State]:
    """Read a document. Raises DocumentError. `Snapshot.missing` names every reading that was left out."""
    tree = parse(text, source)
    checks: Checks = {Node: _check_node, Pod: Names().check, Burst: _check_burst, State: _check_state}
    if isinstance(tree, Mapping) and "snapshot" in tree.entries:
        answer = _read(Reader(source, Grammar(rules=_ANSWER_RULES, checks=checks)), tree, _Answer)
        snapshot, state = answer.snapshot, State()
    else:
        document = _read(Reader(source, Grammar(rules=_RULES, checks=checks)), tree, _Document)
        snapshot, state = Snapshot(node=document.node, pods=document.pods, time=document.time), document.state
    return msgspec.structs.replace(snapshot, missing={**_missing(snapshot), **snapshot.missing}), state


def _read(reader: Reader, tree: Tree, kind: type[S]) -> S:
    result = reader.struct(tree, kind, "")
    reader.finish()
    assert result is not None
    return result


def _check_node(reader: Reader, node: Node, path: str) -> None:
    for part, total in (("memory_available", "memory_total"), ("swap_used", "swap_total")):
        amount, bound = getattr(node, part), getattr(node, total)
        if amount is not None and bound is not None and amount > bound and not reader.refused(f"{path}.{part}", f"{path}.{total}"):
            reader.refuse(reader.lines[f"{path}.{part}"], f"{path}.{part}", f"at most {total}, {bound}", value=str(amount))


def _check_burst(reader: Reader, burst: Burst, path: str) -> None:
    check_key(reader, burst.pod, f"{path}.pod")
    if burst.limit < burst.base_limit and not reader.refused(f"{path}.limit", f"{path}.base_limit"):
        message = f"at least base_limit, {burst.base_limit:g}: a burst only raises"
        reader.refuse(reader.lines[f"{path}.limit"], f"{path}.limit", message, value=f"{burst.limit:g}")


def _check_state(reader: Reader, state: State, path: str) -> None:
    for key in state.burst_cooldown_until:
        check_key(reader, key, f"{path}.burst_cooldown_until.{key}")
    plugins = [plugin.value for plugin in Plugin]
    for key in state.cooldown_until:
        if key not in plugins:
            where = f"{path}.cooldown_until.{key}"
            reader.unknown_key(reader.lines[where], where, key, plugins)


def _missing(snapshot: Snapshot) -> dict[str, str]:
    """Name the readings that are None, by their paths in `Snapshot.missing`."""
    return dict.fromkeys(
        (*_gaps(snapshot.node, "node"), *(gap for pod in snapshot.pods for gap in _gaps(pod, f"pods.{pod.key}"))), NOT_GIVEN
    )


def _gaps(part: Struct, path: str) -> list[str]:
    gaps: list[str] = []
    for name in part.__struct_fields__:
        value: Any = getattr(part, name)
        if isinstance(value, Struct):
            gaps += _gaps(value, join(path, name))
        elif value is None and name not in _NO_READINGS.get(type(part), ()):
            gaps.append(join(path, name))
    return gaps
