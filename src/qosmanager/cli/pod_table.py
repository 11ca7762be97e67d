"""The pods by class, each class with its sums, as many pods as there is room for: those that use most CPU."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from rich.table import Table
from rich.text import Text

from qosmanager.documents.quantities import shown_bytes
from qosmanager.model.count import counted
from qosmanager.model.qos import QoS
from qosmanager.views.status import PodView, Status

_ORDER = tuple(each.value for each in QoS)  # the order of protection
_WIDE = 110  # columns from which more is shown of each pod
_QOS_WIDTH = 6
_HEADINGS = (("CPU", 5), ("WAIT", 4), ("THR", 4), ("LIMIT", 5), ("NOW", 5), ("MEMORY", 6), ("P99/SLO", 9))
_WIDE_HEADINGS = (
    ("PRIO", 5),
    ("REQUEST", 7),
    *_HEADINGS[:6],
    ("REQUEST", 7),
    ("LIMIT", 6),
    ("P99/SLO ms", 10),
)


def rows_wanted(pods: Iterable[PodView], lines: int | None) -> dict[str, int]:
    """Return how many pods of each class are shown in so many lines (None: all): a class gets its turn until none has more."""
    have = _by_class(pods)
    if lines is None:
        return {qos: len(each) for qos, each in have.items()}
    shown = dict.fromkeys(have, 0)
    left = lines - 1 - len(have)
    while left > 0 and (more := [qos for qos in have if shown[qos] < len(have[qos])]):
        for qos in more[:left]:
            shown[qos] += 1
        left -= len(more)
    return shown


def pod_table(status: Status, width: int, shown: dict[str, int]) -> Table:
    """Return the table, at most `width` columns; a long name is cut in its middle, because its end tells it from its siblings."""
    wide = width >= _WIDE
    gap = 2 if wide else 1
    headings = _WIDE_HEADINGS if wide else _HEADINGS
    for_names = width - _QOS_WIDTH - gap - sum(size + gap for _, size in headings)
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim")
    table.add_column("QOS", min_width=_QOS_WIDTH)
    table.add_column("POD", no_wrap=True)
    for heading, size in headings:
        table.add_column(heading, justify="right", no_wrap=True, min_width=size)
    for qos, pods in _by_class(status.pods).items():
        limit = status.be.limit if qos == QoS.BE.value else None
        table.add_row(*_class_row(qos, pods, shown[qos], limit, wide), style="bold")
        pods.sort(key=lambda pod: (-(pod.cpu["usage"] or 0.0), pod.key))
        for pod in pods[: shown[qos]]:
            table.add_row(*_pod_row(pod, max(12, for_names), wide))
    return table


def _class_row(qos: str, pods: list[PodView], shown: int, limit: float | None, wide: bool) -> list[str | Text]:
    count = counted(len(pods), "pod")
    cells: list[str | Text] = [qos, count if shown == len(pods) else f"{count}, {shown} shown"]
    throttled = _over(max, (pod.cpu["throttled"] for pod in pods))
    usage, wait = (_over(sum, (pod.cpu[name] for pod in pods)) for name in ("usage", "wait"))
    narrow: list[str | Text] = [_cores(usage), _cores(wait), _percent(throttled), "", _cores(limit) if limit is not None else ""]
    memory = _bytes(_over(sum, (pod.memory["rss"] for pod in pods)))
    late = sum(_is_late(pod) for pod in pods)
    slo = Text(f"{late} late", style="red") if late else Text("")
    if wide:
        requests = _cores(_over(sum, (pod.cpu["request"] for pod in pods)))
        memory_requests = _bytes(_over(sum, (pod.memory["request"] for pod in pods)))
        return [*cells, "", requests, *narrow, memory, memory_requests, "", slo]
    return [*cells, *narrow, memory, slo]


def _pod_row(pod: PodView, for_name: int, wide: bool) -> list[str | Text]:
    mark = " ending" if pod.terminating else " critical" if pod.critical else ""
    name = Text.assemble(_cut(pod.key, for_name - len(mark)), (mark, "yellow"))
    own, now = pod.cpu["limit"], pod.cpu["effective_limit"]
    raised = own is not None and now is not None and now > own
    in_force = Text(_cores(now), style="bold cyan" if raised else "")
    narrow: list[str | Text] = [_cores(pod.cpu["usage"]), _cores(pod.cpu["wait"]), _percent(pod.cpu["throttled"]), _cores(own), in_force]
    memory, latency = _bytes(pod.memory["rss"]), _latency(pod)
    if wide:
        sizes = (_bytes(pod.memory["request"]), _bytes(pod.memory["limit"]))
        return ["", name, str(pod.priority), _cores(pod.cpu["request"]), *narrow, memory, *sizes, latency]
    return ["", name, *narrow, memory, latency]


def _cut(name: str, most: int) -> str:
    if len(name) <= most:
        return name
    return f"{name[: (most - 1) // 2]}…{name[-(most // 2) :]}"


def _latency(pod: PodView) -> Text:
    p99, slo = pod.latency["p99"], pod.latency["slo"]
    if p99 is None and slo is None:
        return Text("-")
    return Text(f"{_milliseconds(p99)}/{_milliseconds(slo)}", style="red" if _is_late(pod) else "")


def _is_late(pod: PodView) -> bool:
    p99, slo = pod.latency["p99"], pod.latency["slo"]
    return p99 is not None and slo is not None and p99 > slo


def _by_class(pods: Iterable[PodView]) -> dict[str, list[PodView]]:
    found: dict[str, list[PodView]] = defaultdict(list)
    for pod in pods:
        found[pod.qos].append(pod)
    return {qos: found[qos] for qos in _ORDER if qos in found}


def _over(fold: Callable[[Iterable[float]], float], values: Iterable[float | None]) -> float | None:
    """Fold what is measured; None when nothing is."""
    known = [value for value in values if value is not None]
    return fold(known) if known else None


def _cores(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _bytes(value: float | None) -> str:
    return "-" if value is None else shown_bytes(value)


def _milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.1f}" if seconds < 0.1 else f"{seconds * 1000:.0f}"
