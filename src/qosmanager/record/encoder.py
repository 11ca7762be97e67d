"""Cycles made into messages, each with what is new in it.

In: what the recorder was told of each cycle. Out: `Message`s, which only a `Decoder` that has seen all those before can read.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import chain, compress, count, repeat
from operator import attrgetter, is_not, itemgetter
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import astuple, replace

from qosmanager.config.settings import Settings
from qosmanager.model.record import CycleRecord
from qosmanager.model.snapshot import NO_CPU, NO_LATENCY, NO_MEMORY, NOT_OBSERVED, Node, Pod, PodCpu, PodLatency, PodMemory, Snapshot
from qosmanager.model.state import State
from qosmanager.model.workload import Placement, Workload
from qosmanager.record.columns import CELL, Codes, Columns, pack
from qosmanager.record.grid import CPU, CYCLE, LATENCY, MEMORY, NODE, OBSERVED, OWN, STAGE, Grid
from qosmanager.record.messages import Message, Place, Places, Roster

_NODE_READINGS = attrgetter(*(grid.field for grid in NODE))
PodColumns = tuple[tuple[Any, ...], ...]
_KINDS = ("cpu", "memory", "latency", "observed")
_FIELDS = Pod.__struct_fields__
_PARTS = itemgetter(*(_FIELDS.index(kind) for kind in _KINDS))
_DECLARED = itemgetter(*(place for place, field in enumerate(_FIELDS) if field not in _KINDS))
_NO_PODS: PodColumns = ((),) * len(_FIELDS)
_REQUEST, _LIMIT = attrgetter("request"), attrgetter("limit")
_CYCLE = (*CYCLE, *OWN, *NODE)
ALL_ROWS = b"\x01"
SOME_ROWS = b"\x00"


@cache
def scalars(stages: int) -> Columns:
    """Return the columns of what is once in a cycle: its number and times, the agent's own use, the node's readings, its stages."""
    return Columns((*_CYCLE, *repeat(STAGE, stages)))


class Taken(Struct, frozen=True, kw_only=True):
    """One cycle as it was: the state before it, its record, the settings in force, and where the pods lie."""

    before: State
    record: CycleRecord
    settings: Settings
    placement: Placement


class Encoder:
    """One stream of messages from its beginning. The first holds everything."""

    def __init__(self) -> None:
        self._scalars: Codes = b""
        self._stages: tuple[str, ...] | None = None
        self._node: Node | None = None
        self._be_cpus: tuple[int, ...] | None = None
        self._be_shielded: bool | None = None
        self._be_memory: int | None = None
        self._pods_age: float | None = None
        self._settings: Settings | None = None
        self._after: State | None = None
        self._missing: dict[str, str] = {}
        self._workloads: dict[str, Workload] | None = None
        self._places: Places | None = None
        self._attributions: object = ()
        self._forecasts: object = ()
        self._pause: object = UNSET
        self._thrift: object = UNSET
        self._pods: tuple[Pod, ...] | None = None
        self._declared: PodColumns = ()
        self._claims: PodColumns = ()
        self._parts: PodColumns = ()
        self._groups = (Group(CPU), Group(MEMORY), Group(LATENCY), Group(OBSERVED))

    def encode(self, taken: Taken) -> Message:
        """Return the message of the next cycle."""
        record = taken.record
        columns = tuple(zip(*map(astuple, record.snapshot.pods), strict=True)) or _NO_PODS
        parts = _PARTS(columns)
        roster = self._take_roster(record.snapshot.pods, _DECLARED(columns), parts)
        cpu, memory, latency, observed = (group.take(part) for group, part in zip(self._groups, parts, strict=True))
        message = Message(
            scalars=self._take_scalars(record),
            plan=record.plan,
            cpu=cpu,
            memory=memory,
            latency=latency,
            observed=observed,
            receipts=record.receipts,
            outcomes=record.outcomes,
            cause=record.cause,
        )
        if roster is not None:
            message.roster = roster
        # The state that follows from the cycle before is the very object that came out of it.
        if taken.before is not self._after:
            message.before = taken.before
        self._after = record.state
        self._take_declared(message, taken)
        return message

    def _take_declared(self, message: Message, taken: Taken) -> None:
        """Put in what stands in full when it changes."""
        record, snapshot = taken.record, taken.record.snapshot
        if taken.settings is not self._settings:
            self._settings = message.settings = taken.settings
        if (stages := tuple(record.durations)) != self._stages:
            self._stages = message.stages = stages
        self._take_node(message, snapshot)
        if snapshot.missing != self._missing:
            message.missing = _changes(self._missing, snapshot.missing)
            self._missing = snapshot.missing
        places = self._take_places(taken.placement)
        if places is not None:
            message.places = places
        if record.pause != self._pause:
            self._pause = message.pause = record.pause
        thrift = None if record.own is None else (record.own.thrift, record.own.reason)
        if thrift != self._thrift:
            self._thrift = message.thrift = thrift

    def _take_node(self, message: Message, snapshot: Snapshot) -> None:
        if (node := replace(snapshot.node, **_NO_NODE_READINGS)) != self._node:
            self._node = message.node = node
        if snapshot.be_cpus != self._be_cpus:
            self._be_cpus = message.be_cpus = snapshot.be_cpus
        if snapshot.be_shielded != self._be_shielded:
            self._be_shielded = message.be_shielded = snapshot.be_shielded
        if snapshot.be_memory != self._be_memory:
            self._be_memory = message.be_memory = snapshot.be_memory
        if snapshot.pods_age != self._pods_age:
            self._pods_age = message.pods_age = snapshot.pods_age
        if snapshot.attributions != self._attributions:
            self._attributions = message.attributions = snapshot.attributions
        if snapshot.forecasts != self._forecasts:
            self._forecasts = message.forecasts = snapshot.forecasts

    def _take_places(self, placement: Placement) -> Places | None:
        """Return where the pods lie, when that has changed."""
        known = self._places
        if (
            known is not None
            and placement.workloads == self._workloads
            and (placement.be_parent, placement.kubelet_owned, placement.kubelet_cpusets)
            == (known.be_parent, known.kubelet_owned, known.kubelet_cpusets)
        ):
            return None
        self._workloads = placement.workloads
        self._places = Places(
            pods={key: Place(workload.cgroup, workload.grace) for key, workload in placement.workloads.items()},
            be_parent=placement.be_parent,
            kubelet_owned=placement.kubelet_owned,
            kubelet_cpusets=placement.kubelet_cpusets,
        )
        return self._places

    def _take_scalars(self, record: CycleRecord) -> bytes:
        snapshot, own = record.snapshot, record.own
        values = (
            record.number,
            record.wall,
            snapshot.time,
            snapshot.node_age,
            int(snapshot.paused),
            *((None, None, None) if own is None else (own.cpu, own.rss, own.lag)),
            *_NODE_READINGS(snapshot.node),
            *record.durations.values(),
        )
        columns = scalars(len(record.durations))
        codes = columns.codes(values, 1)
        before = self._scalars if len(self._scalars) == len(codes) else columns.unknown(1)
        self._scalars = codes
        return pack(codes, before, columns.width)

    def _take_roster(self, pods: tuple[Pod, ...], declared: PodColumns, parts: PodColumns) -> Roster | None:
        """Return who is here when that has changed, and move the columns along."""
        before, self._pods = self._pods, pods
        known, self._declared = self._declared, declared
        claims, self._claims = self._claims, (tuple(map(_REQUEST, parts[0])), tuple(map(_LIMIT, parts[0])))
        was, self._parts = self._parts, parts
        if before is not None and declared == known and claims == self._claims and _same_claims(parts, was):
            return None
        places = {pod.key: place for place, pod in enumerate(before or ())}
        order = [places.get(pod.key, -1) for pod in pods]
        changed = {
            place: without_pod_readings(pod)
            for place, (pod, was_at) in enumerate(zip(pods, order, strict=True))
            if was_at < 0 or before is None or without_pod_readings(pod) != without_pod_readings(before[was_at])
        }
        for group in self._groups:
            group.move(order)
        return Roster(order, changed)


class Group:
    """One kind of readings of all pods (their `cpu`, say), as columns. Only readings that are new objects are looked at."""

    def __init__(self, grids: tuple[Grid, ...]) -> None:
        self._readings = attrgetter(*(grid.field for grid in grids))
        self._known: Sequence[Any] = ()
        self._table = Table(grids)

    def move(self, order: list[int]) -> None:
        """Put the rows into the order of a new roster."""
        self._known = [None if was < 0 else self._known[was] for was in order]
        self._table.move(order)

    def take(self, now: Sequence[Any]) -> bytes:
        """Return what is new: which rows, and the differences; empty: nothing."""
        rows = list(compress(count(), map(is_not, now, self._known)))
        if not rows:
            return b""
        self._known = now
        everyone = len(rows) == len(now)
        changed = now if everyone else [now[row] for row in rows]
        table = self._table
        codes = table.columns.codes(list(chain.from_iterable(map(self._readings, changed))), len(rows))
        packed = pack(codes, table.take(rows), table.columns.width)
        table.put(rows, codes)
        return (ALL_ROWS if everyone else SOME_ROWS + bitmap(rows, len(now))) + packed


class Table:
    """The numbers of all pods' readings of one kind, row after row."""

    def __init__(self, grids: tuple[Grid, ...]) -> None:
        self.columns = Columns(grids)
        self.rows = 0
        self._row = CELL * len(grids)
        self._codes = bytearray()

    def move(self, order: list[int]) -> None:
        """Put the rows into the order of a new roster; who is new is not measured yet."""
        fresh, row, codes = self.columns.unknown(1), self._row, self._codes
        self._codes = bytearray(b"".join(fresh if was < 0 else codes[was * row : (was + 1) * row] for was in order))
        self.rows = len(order)

    def take(self, rows: list[int]) -> Codes:
        """Return the numbers of some rows, lowest first."""
        if len(rows) == self.rows:
            return bytes(self._codes)
        codes, row = self._codes, self._row
        return b"".join([codes[place * row : (place + 1) * row] for place in rows])

    def put(self, rows: list[int], codes: Codes) -> None:
        """Replace them."""
        if len(rows) == self.rows:
            self._codes = bytearray(codes)
            return
        row = self._row
        for number, place in enumerate(rows):
            self._codes[place * row : (place + 1) * row] = codes[number * row : (number + 1) * row]


def bitmap(rows: list[int], count: int) -> bytes:
    """Return a bit for each of `count` rows, 1 for those given."""
    bits = 0
    for row in rows:
        bits |= 1 << row
    return bits.to_bytes((count + 7) // 8, "little")


def without_pod_readings(pod: Pod) -> Pod:
    """Return what is declared of a pod."""
    return replace(
        pod,
        cpu=PodCpu(request=pod.cpu.request, limit=pod.cpu.limit) if pod.cpu is not NO_CPU else NO_CPU,
        memory=_declared_memory(pod.memory),
        latency=PodLatency(slo=pod.latency.slo) if pod.latency is not NO_LATENCY else NO_LATENCY,
        observed=NOT_OBSERVED,
    )


def _declared_memory(memory: PodMemory) -> PodMemory:
    """Return requests and limits, and what changes once a minute and only where a pod leaks."""
    if memory is NO_MEMORY:
        return NO_MEMORY
    return PodMemory(request=memory.request, limit=memory.limit, growth_before=memory.growth_before)


_NO_NODE_READINGS: dict[str, None] = dict.fromkeys((grid.field for grid in NODE), None)


def _same_claims(parts: PodColumns, before: PodColumns) -> bool:
    """Tell whether what else is declared of memory, and objectives, are as they were; those of the CPU are compared as columns."""
    for memory, known in compress(zip(parts[1], before[1], strict=True), map(is_not, parts[1], before[1])):
        if memory.request != known.request or memory.limit != known.limit or memory.growth_before != known.growth_before:
            return False
    fresh = compress(zip(parts[2], before[2], strict=True), map(is_not, parts[2], before[2]))
    return all(latency.slo == known.slo for latency, known in fresh)


def _changes(before: dict[str, str], now: dict[str, str]) -> dict[str, str | None]:
    changes: dict[str, str | None] = {name: reason for name, reason in now.items() if before.get(name) != reason}
    return changes | dict.fromkeys((name for name in before if name not in now), None)
