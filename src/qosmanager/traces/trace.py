"""What a trace tells of one node, whatever its layout. CPU in cores, memory in bytes, times in seconds from the beginning."""

from __future__ import annotations

from msgspec import Struct

from qosmanager.model.qos import QoS

Points = list[tuple[float, float]]  # seconds, cores: from that moment on


class Usage(Struct, frozen=True, kw_only=True):
    """One workload: what each of its `count` pods uses over time, and what it asks for (None: not known)."""

    name: str
    qos: QoS
    points: Points
    count: int = 1
    request: float | None = None
    limit: float | None = None
    memory: int | None = None
    memory_request: int | None = None


class Trace(Struct, frozen=True, kw_only=True):
    """One node over a span. `left_out`: how many lines were not used, by reason."""

    about: str
    cpus: int
    memory: int
    duration: float
    workloads: tuple[Usage, ...]
    system_cpu: float = 0.0
    left_out: dict[str, int] = {}


class Span(Struct, frozen=True):
    """The part of a trace that is wanted: from `begin` on, for `length` (None: to its end)."""

    begin: float = 0.0
    length: float | None = None

    def cut(self, points: Points) -> Points:
        """Return rising points from the span's beginning on, one at 0 where anything is known by then; empty: nothing lies in it."""
        part = Part(self)
        for time, cores in points:
            part.add(time, cores)
        return part.points


class Part:
    """The `points` of a span, of rising ones that come one by one: no more than those is kept."""

    def __init__(self, span: Span) -> None:
        self.points: Points = []
        self._span = span

    def add(self, time: float, cores: float) -> None:
        """Take the next one."""
        span, points = self._span, self.points
        since = time - span.begin
        if span.length is not None and since >= span.length:
            return
        if since <= 0:
            points[:] = [(0.0, cores)]
        elif not points or points[-1][1] != cores:
            points.append((since, cores))


def shared(points: Points, pods: int) -> Points:
    """Return what each of `pods` pods uses of the whole."""
    return [(time, cores / pods) for time, cores in points]
