"""The pods by class, each class with its sums, as many pods as there is room for: those that use most CPU."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from qosmanager.documents.quantities import shown_bytes
from qosmanager.model.count import counted
from qosmanager.model.qos import QoS
from qosmanager.views.status import PodView, Status

_ORDER = tuple(each.value for each in QoS)  # the order of protection
_WIDE = 110  # columns from which more is shown of each pod
_QOS_WIDTH = 6
_NAME_LEAST = 12  # columns in which a name can still be told from its siblings


class _Column(NamedTuple):
    """A heading, what it takes at least, and how important it is: where there is no room, the largest `rank` goes first."""

    heading: str
    size: int
    rank: int


_NARROW = (
    _Column("CPU", 5, 0),
    _Column("WAIT", 4, 4),
    _Column("THR", 4, 6),
    _Column("LIMIT", 5, 5),
    _Column("NOW", 5, 3),
    _Column("MEMORY", 6, 2),
    _Column("P99/SLO", 9, 1),
)
_EXTENSIVE = (
    _Column("PRIO", 5, 10),
    _Column("REQUEST", 7, 7),
    *_NARROW[:6],
    _Column("REQUEST", 7, 8),
    _Column("LIMIT", 6, 9),
    _Column("P99/SLO ms", 10, 1),
)


class _Row(NamedTuple):
    """What stands in a line: its class, then for so many columns a name, then a cell for each column."""

    qos: str
    name: Callable[[int], str | Text]
    cells: list[str | Text]
    style: str


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
    """Return the table, at most `width` columns: what does not fit is left out, the least important column first. A long name is cut in
    its middle, because its end tells it from its siblings; a number never is."""
    wide = width >= _WIDE
    gap = 2 if wide else 1
    columns = _EXTENSIVE if wide else _NARROW
    rows = list(_rows(status, shown, wide))
    sizes = [max(column.size, *(len(row.cells[place]) for row in rows)) for place, column in enumerate(columns)]
    for_names = width - _QOS_WIDTH - gap
    kept = []
    for place in sorted(range(len(columns)), key=lambda place: columns[place].rank):
        if for_names - sizes[place] - gap < _NAME_LEAST:
            break
        for_names -= sizes[place] + gap
        kept.append(place)
    kept.sort()
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim")
    table.add_column("QOS", min_width=_QOS_WIDTH)
    table.add_column("POD", no_wrap=True)
    for place in kept:
        table.add_column(columns[place].heading, justify="right", no_wrap=True, min_width=sizes[place])
    for row in rows:
        table.add_row(row.qos, row.name(for_names), *(row.cells[place] for place in kept), style=row.style)
    return table


def _rows(status: Status, shown: dict[str, int], wide: bool) -> Iterator[_Row]:
    for qos, pods in _by_class(status.pods).items():
        limit = status.be.limit if qos == QoS.BE.value else None
        yield _Row(qos, partial(_class_name, len(pods), shown[qos]), _class_cells(pods, limit, wide), "bold")
        pods.sort(key=lambda pod: (-(pod.cpu["usage"] or 0.0), pod.key))
        for pod in pods[: shown[qos]]:
            yield _Row("", partial(_pod_name, pod), _pod_cells(pod, wide), "")


def _class_name(pods: int, shown: int, most: int) -> str:
    count = counted(pods, "pod")
    if shown == pods:
        return count
    words = f"{count}, {shown} shown"
    return words if len(words) <= most else f"{shown}/{count}"


def _class_cells(pods: list[PodView], limit: float | None, wide: bool) -> list[str | Text]:
    throttled = _over(max, (pod.cpu["throttled"] for pod in pods))
    usage, wait = (_over(sum, (pod.cpu[name] for pod in pods)) for name in ("usage", "wait"))
    narrow: list[str | Text] = [_cores(usage), _cores(wait), _percent(throttled), "", _cores(limit) if limit is not None else ""]
    memory = _bytes(_over(sum, (pod.memory["rss"] for pod in pods)))
    late = sum(_is_late(pod) for pod in pods)
    slo = Text(f"{late} late", style="red") if late else Text("")
    if wide:
        requests = _cores(_over(sum, (pod.cpu["request"] for pod in pods)))
        memory_requests = _bytes(_over(sum, (pod.memory["request"] for pod in pods)))
        return ["", requests, *narrow, memory, memory_requests, "", slo]
    return [*narrow, memory, slo]


def _pod_name(pod: PodView, most: int) -> Text:
    mark = " ending" if pod.terminating else " critical" if pod.critical else ""
    if most - len(mark) < _NAME_LEAST:
        return Text(_cut(pod.key, most), "yellow" if mark else "")
    return Text.assemble(_cut(pod.key, most - len(mark)), (mark, "yellow"))


def _pod_cells(pod: PodView, wide: bool) -> list[str | Text]:
    own, now = pod.cpu["limit"], pod.cpu["effective_limit"]
    raised = own is not None and now is not None and now > own
    in_force = Text(_cores(now), style="bold cyan" if raised else "")
    narrow: list[str | Text] = [_cores(pod.cpu["usage"]), _cores(pod.cpu["wait"]), _percent(pod.cpu["throttled"]), _cores(own), in_force]
    memory, latency = _bytes(pod.memory["rss"]), _latency(pod)
    if wide:
        sizes = (_bytes(pod.memory["request"]), _bytes(pod.memory["limit"]))
        return [str(pod.priority), _cores(pod.cpu["request"]), *narrow, memory, *sizes, latency]
    return [*narrow, memory, latency]


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
