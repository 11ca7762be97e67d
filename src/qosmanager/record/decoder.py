"""Messages made into cycles again.

In: the messages of one stream from its beginning, in their order. Out: what each cycle decided on and did. Whatever does not fit raises
ValueError or IndexError, for which the reader answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import UNSET, Struct
from msgspec.structs import replace

from qosmanager.config.settings import Settings
from qosmanager.model.actions import Outcome, Plan, Receipt
from qosmanager.model.attribution import Attribution
from qosmanager.model.forecast import Forecast
from qosmanager.model.own_use import OwnUse
from qosmanager.model.pause import Pause
from qosmanager.model.snapshot import Node, Pod, PodCpu, PodLatency, PodMemory, PodObserved, Snapshot
from qosmanager.model.state import State
from qosmanager.record.columns import CELL, Codes, Columns, Value, unpack
from qosmanager.record.encoder import ALL_ROWS, SOME_ROWS, scalars
from qosmanager.record.grid import CPU, CYCLE, LATENCY, MEMORY, NODE, OBSERVED, OWN, Grid
from qosmanager.record.messages import Message, Places

if TYPE_CHECKING:
    from qosmanager.record.file import Header  # not without the extra

# Where what is once in a cycle begins among its numbers.
_FIRST_OWN = len(CYCLE)
_FIRST_NODE = _FIRST_OWN + len(OWN)
_FIRST_STAGE = _FIRST_NODE + len(NODE)
_MOST_STAGES = 64


class Recorded(Struct, frozen=True, kw_only=True):
    """One cycle of a recording, without its readings. `version` is that of the agent, `rules` the number of those that it decided by;
    `before` the engine's state before it, where the recording holds it: elsewhere it follows from the cycle before. `wall`: epoch seconds,
    `durations` milliseconds by stage."""

    version: str
    number: int
    time: float | None
    wall: float
    settings: Settings
    plan: Plan
    receipts: tuple[Receipt, ...]
    outcomes: tuple[Outcome, ...]
    places: Places
    pods: int
    before: State | None
    pause: Pause | None
    own: OwnUse | None
    durations: dict[str, float]
    cause: str = ""
    rules: int = 1


class Decoder:
    """One stream of messages from its beginning. `take` follows them, `snapshot` builds the readings of the last one. Who wants no pod's
    readings, of none of them, calls `outline` instead."""

    def __init__(self, header: Header) -> None:
        self._header = header
        self._scalars: Codes = b""
        self._values: list[Value] = []
        self._stages: tuple[str, ...] = ()
        self._node: Node | None = None
        self._be_cpus: tuple[int, ...] = ()
        self._be_shielded = False
        self._be_memory: int | None = None
        self._pods_age: float | None = None
        self._settings: Settings | None = None
        self._missing: dict[str, str] = {}
        self._places = Places()
        self._attributions: tuple[Attribution, ...] = ()
        self._forecasts: tuple[Forecast, ...] = ()
        self._pause: Pause | None = None
        self._thrift: tuple[int, str] | None = None
        self._pods: list[Pod] = []
        self._cpu = GroupReader[PodCpu](CPU, _cpu)
        self._memory = GroupReader[PodMemory](MEMORY, _memory)
        self._latency = GroupReader[PodLatency](LATENCY, _latency)
        self._observed = GroupReader[PodObserved](OBSERVED, _observed)

    def take(self, message: Message) -> Recorded:
        """Follow one message."""
        recorded = self.outline(message)
        self._cpu.take(message.cpu)
        self._memory.take(message.memory)
        self._latency.take(message.latency)
        self._observed.take(message.observed)
        return recorded

    def outline(self, message: Message) -> Recorded:
        """Follow one message but for its pods' readings."""
        self._take_declared(message)
        if message.roster is not UNSET:
            self._move(message.roster.order, message.roster.pods)
        columns = scalars(len(self._stages))
        before = self._scalars if len(self._scalars) == CELL * columns.width else columns.unknown(1)
        self._scalars = unpack(memoryview(message.scalars), before)
        self._values = columns.values(self._scalars, 1)
        number, wall, time = self._values[:3]
        if self._settings is None or self._node is None or number is None or wall is None:
            raise ValueError("the first cycle of a file does not hold everything")
        return Recorded(
            version=self._header.version,
            rules=self._header.rules,
            number=int(number),
            time=time,
            wall=wall,
            settings=self._settings,
            plan=message.plan,
            receipts=message.receipts,
            outcomes=message.outcomes,
            places=self._places,
            pods=len(self._pods),
            before=None if message.before is UNSET else message.before,
            pause=self._pause,
            own=self._own(),
            durations={name: step or 0.0 for name, step in zip(self._stages, self._values[_FIRST_STAGE:], strict=True)},
            cause=message.cause,
        )

    def snapshot(self) -> Snapshot:
        """Return the readings of the last cycle taken."""
        assert self._node is not None
        self._refresh()
        time, node_age, paused = self._values[2:_FIRST_OWN]
        readings: dict[str, Any] = {grid.field: value for grid, value in zip(NODE, self._values[_FIRST_NODE:_FIRST_STAGE], strict=True)}
        return Snapshot(
            node=replace(self._node, **readings),
            pods=tuple(self._pods),
            be_cpus=self._be_cpus,
            be_shielded=self._be_shielded,
            be_memory=self._be_memory,
            time=time,
            node_age=node_age or 0.0,
            pods_age=self._pods_age,
            paused=bool(paused),
            missing=dict(self._missing),
            attributions=self._attributions,
            forecasts=self._forecasts,
        )

    def _own(self) -> OwnUse | None:
        if self._thrift is None:
            return None
        cpu, rss, lag = self._values[_FIRST_OWN:_FIRST_NODE]
        steps, reason = self._thrift
        return OwnUse(cpu=cpu, rss=None if rss is None else int(rss), lag=lag, thrift=steps, reason=reason)

    def _take_node(self, message: Message) -> None:
        if message.node is not UNSET:
            self._node = message.node
        if message.be_cpus is not UNSET:
            self._be_cpus = message.be_cpus
        if message.be_shielded is not UNSET:
            self._be_shielded = message.be_shielded
        if message.be_memory is not UNSET:
            self._be_memory = message.be_memory
        if message.pods_age is not UNSET:
            self._pods_age = message.pods_age
        if message.attributions is not UNSET:
            self._attributions = message.attributions
        if message.forecasts is not UNSET:
            self._forecasts = message.forecasts

    def _take_declared(self, message: Message) -> None:
        if message.settings is not UNSET:
            self._settings = message.settings
        if message.stages is not UNSET:
            if len(message.stages) > _MOST_STAGES:
                raise ValueError("too many stages")
            self._stages = message.stages
        self._take_node(message)
        if message.missing is not UNSET:
            changed = self._missing | message.missing  # None: it is measured again
            self._missing = {name: reason for name, reason in changed.items() if reason is not None}
        if message.places is not UNSET:
            self._places = message.places
        if message.pause is not UNSET:
            self._pause = message.pause
        if message.thrift is not UNSET:
            self._thrift = message.thrift

    def _move(self, order: list[int], declared: dict[int, Pod]) -> None:
        before = self._pods
        if any(was >= len(before) for was in order):
            raise ValueError("a roster names a pod that is not there")
        self._pods = [declared[place] if place in declared or was < 0 else before[was] for place, was in enumerate(order)]
        new = set(declared)
        self._cpu.move(order, new, [pod.cpu for pod in self._pods])
        self._memory.move(order, new, [pod.memory for pod in self._pods])
        self._latency.move(order, new, [pod.latency for pod in self._pods])
        self._observed.move(order, new, [pod.observed for pod in self._pods])

    def _refresh(self) -> None:
        """Bring the pods up to date."""
        cpu, memory, latency, observed = self._cpu, self._memory, self._latency, self._observed
        stale = cpu.refresh() | memory.refresh() | latency.refresh() | observed.refresh()
        for row in stale:
            self._pods[row] = replace(
                self._pods[row], cpu=cpu.values[row], memory=memory.values[row], latency=latency.values[row], observed=observed.values[row]
            )


T = TypeVar("T", PodCpu, PodMemory, PodLatency, PodObserved)


class GroupReader(Generic[T]):
    """One kind of readings of all pods, followed by its columns; made into `values`, by row, only where they changed."""

    def __init__(self, grids: tuple[Grid, ...], renew: Callable[..., T]) -> None:
        """`renew` puts readings, in the order of the grids, into values that hold what is declared."""
        self.values: list[T] = []
        self._renew: Callable[..., T] = renew
        self._table = Table(grids)
        self._stale: set[int] = set()  # rows whose values are older than their numbers

    def move(self, order: list[int], declared: set[int], values: list[T]) -> None:
        """Put the rows into the order of a new roster, where these are the values; of those declared anew they are to be built again."""
        self._table.move(order)
        self.values = values
        places = {was: place for place, was in enumerate(order) if was >= 0}
        self._stale = {places[row] for row in self._stale if row in places} | declared

    def take(self, data: bytes) -> None:
        """Follow what is new."""
        if not data:
            return
        kind, view, count = data[:1], memoryview(data)[1:], self._table.rows
        if kind == SOME_ROWS:
            size = (count + 7) // 8
            bits = int.from_bytes(view[:size], "little")
            rows, view = [row for row in range(count) if bits >> row & 1], view[size:]
        elif kind == ALL_ROWS:
            rows = list(range(count))
        else:
            raise ValueError("no kind of rows that is known")
        codes = unpack(view, self._table.take(rows))
        self._table.put(rows, codes)
        self._stale.update(rows)

    def refresh(self) -> set[int]:
        """Bring the values up to date, and return the rows of those that were not."""
        stale, self._stale = self._stale, set()
        rows = sorted(stale)
        if not rows:
            return stale
        table, values = self._table, self.values
        readings = table.columns.values(table.take(rows), len(rows))
        columns = [readings[begin : begin + len(rows)] for begin in range(0, len(readings), len(rows))]
        for row, value in zip(rows, map(self._renew, [values[row] for row in rows], *columns), strict=True):
            values[row] = value
        return stale


class Table:
    """The numbers of all pods' readings of one kind, column after column."""

    def __init__(self, grids: tuple[Grid, ...]) -> None:
        self.columns = Columns(grids)
        self.rows = 0
        self._codes = bytearray()

    def move(self, order: list[int]) -> None:
        """Put the rows into the order of a new roster; who is new is not measured yet."""
        unknown, codes, moved = self.columns.unknown(1), self._codes, bytearray()
        for column in range(self.columns.width):
            fresh, begin = unknown[column * CELL : (column + 1) * CELL], column * self.rows
            for was in order:
                moved += fresh if was < 0 else codes[(begin + was) * CELL : (begin + was + 1) * CELL]
        self._codes, self.rows = moved, len(order)

    def take(self, rows: list[int]) -> Codes:
        """Return the numbers of some rows, lowest first."""
        if len(rows) == self.rows:
            return bytes(self._codes)
        return b"".join([self._codes[place : place + CELL] for place in self._places(rows)])

    def put(self, rows: list[int], codes: Codes) -> None:
        """Replace them."""
        if len(rows) == self.rows:
            self._codes = bytearray(codes)
            return
        for number, place in enumerate(self._places(rows)):
            self._codes[place : place + CELL] = codes[number * CELL : (number + 1) * CELL]

    def _places(self, rows: list[int]) -> list[int]:
        return [(begin + row) * CELL for begin in range(0, self.columns.width * self.rows, self.rows) for row in rows]


# By name, not by a dictionary of the grids' fields: these are made for every pod of every cycle.


def _cpu(cpu: PodCpu, usage: float, usage_mean: float, wait: float, throttled: float) -> PodCpu:
    return replace(cpu, usage=usage, usage_mean=usage_mean, wait=wait, throttled=throttled)


def _memory(memory: PodMemory, rss: int, growth: float) -> PodMemory:
    return replace(memory, rss=rss, growth=growth)


def _latency(latency: PodLatency, p99: float, trend: float, median: float) -> PodLatency:
    return replace(latency, p99=p99, trend=trend, median=median)


def _observed(observed: PodObserved, *readings: float) -> PodObserved:
    read, write, cpu, memory, io = readings
    return replace(observed, io_read=read, io_write=write, cpu_psi_some=cpu, memory_psi_full=memory, io_psi_some=io)
