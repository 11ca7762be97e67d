"""Cycles made into messages, each with what is new in it.

In: what the recorder was told of each cycle. Out: `Message`s, which only a `Decoder` that has seen all those before can read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain, compress, repeat
from operator import attrgetter, is_not, itemgetter
from typing import Any, NamedTuple

from msgspec import UNSET, Struct
from msgspec.structs import astuple, replace

from qosmanager.config.settings import Settings
from qosmanager.model.record import CycleRecord
from qosmanager.model.snapshot import NO_CPU, NO_LATENCY, NO_MEMORY, NOT_OBSERVED, Node, Pod, PodCpu, PodLatency, PodMemory, Snapshot
from qosmanager.model.state import State
from qosmanager.model.workload import Placement, Workload
from qosmanager.record.columns import Codes, Columns, pack
from qosmanager.record.grid import CPU, CYCLE, LATENCY, MEMORY, NODE, OBSERVED, OWN, STAGE, Grid
from qosmanager.record.messages import Message, Place, Places, Roster

_NODE_READINGS = attrgetter(*(grid.field for grid in NODE))
PodColumns = tuple[tuple[Any, ...], ...]
_KINDS = ("cpu", "memory", "latency", "observed")
_FIELDS = Pod.__struct_fields__
_PARTS = itemgetter(*(_FIELDS.index(kind) for kind in _KINDS))
_DECLARED = itemgetter(*(place for place, field in enumerate(_FIELDS) if field not in _KINDS))
_NO_PODS: PodColumns = ((),) * len(_FIELDS)
_CYCLE = (*CYCLE, *OWN, *NODE)
ALL_ROWS = b"\x01"
SOME_ROWS = b"\x00"
_DIGITS = bytes.maketrans(b"\0\1", b"01")


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
        self._groups = (Group(CPU, NO_CPU), Group(MEMORY, NO_MEMORY), Group(LATENCY, NO_LATENCY), Group(OBSERVED, NOT_OBSERVED))

    def encode(self, taken: Taken) -> Message:
        """Return the message of the next cycle."""
        record = taken.record
        columns = tuple(zip(*map(astuple, record.snapshot.pods), strict=True)) or _NO_PODS
        parts = _PARTS(columns)
        roster = self._take_roster(record.snapshot.pods, _DECLARED(columns), parts)
        cpu, memory, latency, observed = (group.take() for group in self._groups)
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
        return pack(codes, before)

    def _take_roster(self, pods: tuple[Pod, ...], declared: PodColumns, parts: PodColumns) -> Roster | None:
        """Look at the readings; return who is here when that has changed, and move the readings along."""
        before, self._pods = self._pods, pods
        known, self._declared = self._declared, declared
        if before is not None and declared == known and all(map(Group.look, self._groups, parts)):
            return None
        places = {pod.key: place for place, pod in enumerate(before or ())}
        order = [places.get(pod.key, -1) for pod in pods]
        changed = {
            place: without_pod_readings(pod)
            for place, (pod, was_at) in enumerate(zip(pods, order, strict=True))
            if was_at < 0 or before is None or without_pod_readings(pod) != without_pod_readings(before[was_at])
        }
        for group, part in zip(self._groups, parts, strict=True):
            group.move(order)
            group.look(part)
        return Roster(order, changed)


class Rows(NamedTuple):
    """What some pods' readings of one kind are: what is declared in them, column by column, and the numbers of the others."""

    declared: tuple[Any, ...]
    codes: Codes


class Group:
    """One kind of readings of all pods (their `cpu`, say). Only those that are new objects are looked at."""

    def __init__(self, grids: tuple[Grid, ...], unknown: Any) -> None:
        """`unknown`: such readings of a pod of which nothing is known."""
        fields = type(unknown).__struct_fields__
        measured = [fields.index(grid.field) for grid in grids]
        self._measured = measured
        self._declared = [place for place in range(len(fields)) if place not in measured]
        self._columns = Columns(grids)
        self._unknown = unknown
        self._known: Sequence[Any] = ()  # those that were told last
        self._all: Rows | None = None  # what they are, if all of them were told at once
        self._now: Sequence[Any] = ()
        self._new: list[bool] = []
        self._rows = self._before = Rows((), b"")  # of those that are new, and of what stood in their places

    def move(self, order: list[int]) -> None:
        """Put what is known into the order of a new roster."""
        self._known = [self._unknown if was < 0 else self._known[was] for was in order]
        self._all = None

    def look(self, now: Sequence[Any]) -> bool:
        """See what is new; return whether what is declared is as it was."""
        self._now, self._new = now, list(map(is_not, now, self._known))
        if True not in self._new:
            return True
        self._rows = self._rows_of(compress(now, self._new))
        self._before = self._all if self._all is not None and False not in self._new else self._rows_of(compress(self._known, self._new))
        return self._rows.declared == self._before.declared

    def take(self) -> bytes:
        """Return what is new: which rows, and the differences; empty: nothing."""
        if True not in self._new:
            return b""
        everyone = False not in self._new
        self._known, self._all = self._now, self._rows if everyone else None
        return (ALL_ROWS if everyone else SOME_ROWS + bitmap(self._new)) + pack(self._rows.codes, self._before.codes)

    def _rows_of(self, readings: Iterable[Any]) -> Rows:
        columns = tuple(zip(*map(astuple, readings), strict=True))
        values = list(chain.from_iterable([columns[place] for place in self._measured]))
        return Rows(tuple([columns[place] for place in self._declared]), self._columns.codes(values, len(columns[0])))


def bitmap(rows: Sequence[bool]) -> bytes:
    """Return a bit for each of at least one row, the first one lowest."""
    digits = bytes(reversed(rows)).translate(_DIGITS)
    return int(digits, 2).to_bytes((len(rows) + 7) // 8, "little")


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


def _changes(before: dict[str, str], now: dict[str, str]) -> dict[str, str | None]:
    changes: dict[str, str | None] = {name: reason for name, reason in now.items() if before.get(name) != reason}
    return changes | dict.fromkeys((name for name in before if name not in now), None)
