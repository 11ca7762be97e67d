"""A scenario run second by second (docs/simulate.md). In: a scenario, settings, a seed. Out: one `Cycle` after another.

`managed` runs the very cycle of the live agent on the model; `unmanaged` the model alone. Both are lazy: nothing is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from msgspec import Struct

from qosmanager.collect.sampler import Sampler, Sources
from qosmanager.collect.states_informer import StatesInformer
from qosmanager.config.settings import Settings
from qosmanager.engine.cycle import Edge, Turn, run_cycle
from qosmanager.model.record import CycleRecord
from qosmanager.model.state import State
from qosmanager.ports import Readings
from qosmanager.simulate.curve import TICK
from qosmanager.simulate.hands import SimulatedHands
from qosmanager.simulate.load import Loaded
from qosmanager.simulate.node import Happening, SimulatedNode
from qosmanager.simulate.readers import (
    SimulatedClock,
    SimulatedGroups,
    SimulatedIsolation,
    SimulatedLatencies,
    SimulatedNodeReader,
    SimulatedSource,
    SimulatedTree,
)

EPOCH = 1_767_225_600.0  # 2026-01-01T00:00:00Z, midnight


class ServiceTruth(Struct, frozen=True, gc=False):
    """A service in its last whole second: p99 in seconds (None: no request), SLO in seconds."""

    key: str
    p99: float | None
    slo: float | None


class Truth(Struct, frozen=True, kw_only=True):
    """What is so in the model at the end of a cycle, whatever the agent sees. CPU in cores, mean of the cycle; memory in bytes; None where
    it is of no model but was measured, and was not measured then.

    `be_limit`: cores in force for all BE after the cycle, by quota or CPUs (None: not held); `bursts`: raised limits in force, by pod;
    `given_up`: requests that waited too long.
    """

    time: float
    seconds: float  # length of the cycle
    node_cpu: float | None
    ls_cpu: float | None
    be_cpu: float | None
    be_pods: int
    be_limit: float | None
    memory_available: int | None
    services: tuple[ServiceTruth, ...]
    bursts: dict[str, float]
    given_up: float
    happenings: tuple[Happening, ...]


class Cycle(Struct, frozen=True, kw_only=True):
    """One cycle: what the model was, and what the agent made of it (None: no agent)."""

    truth: Truth
    record: CycleRecord | None = None


Wrap = Callable[[Readings], Readings]


def managed(loaded: Loaded, settings: Settings, seed: int, wrap: Wrap = lambda readings: readings) -> Iterator[Cycle]:
    """Run with the agent. `wrap`: puts something between what it measures and what it decides on, as recording does."""
    node, epoch = _node(loaded, seed)
    hands = SimulatedHands(node)
    groups = SimulatedGroups(node)
    clock = SimulatedClock(node, epoch)
    sources = Sources(
        clock=clock,
        node=SimulatedNodeReader(node),
        groups=groups,
        informer=StatesInformer(SimulatedTree(node), (SimulatedSource(node),)),
        latencies=SimulatedLatencies(node),
        own_limit=groups.own_limit,
        isolated=SimulatedIsolation(node),
    )
    edge = Edge(wrap(Sampler(sources, settings)), hands, clock)
    state = State()
    observer = Observer(node)
    for number, ticks in enumerate(_cycles(loaded, settings), 1):
        node.advance(ticks)
        record = run_cycle(edge, Turn(number=number), state, settings)
        state = record.state
        yield Cycle(truth=observer.look(node.batch.cap if hands.holds_batch else None), record=record)


def unmanaged(loaded: Loaded, settings: Settings, seed: int) -> Iterator[Cycle]:
    """Run without the agent, in steps as long as its cycles would be."""
    node, _ = _node(loaded, seed)
    observer = Observer(node)
    for ticks in _cycles(loaded, settings):
        node.advance(ticks)
        yield Cycle(truth=observer.look(None))


def cycles(loaded: Loaded, settings: Settings) -> int:
    """Return how many cycles a run has."""
    return math.ceil(round(loaded.scenario.duration / TICK) / _ticks(settings))


def _cycles(loaded: Loaded, settings: Settings) -> Iterator[int]:
    left = round(loaded.scenario.duration / TICK)
    while left > 0:
        ticks = min(left, _ticks(settings))
        left -= ticks
        yield ticks


def _ticks(settings: Settings) -> int:
    return max(1, round(settings.sync_period / TICK))


def _node(loaded: Loaded, seed: int) -> tuple[SimulatedNode, float]:
    epoch = EPOCH + loaded.scenario.node.start
    return SimulatedNode(loaded, seed, epoch), epoch


class Observer:
    """Looks at the model after each cycle."""

    def __init__(self, node: SimulatedNode) -> None:
        self._node = node
        self._before = (0.0, 0.0, 0.0, 0.0, 0.0)

    def look(self, be_limit: float | None) -> Truth:
        """Return the truth of the time since the last look."""
        node = self._node
        now, before = (node.now, node.busy, node.ls_used, node.batch.used, node.given_up), self._before
        self._before = now
        seconds = now[0] - before[0]
        return Truth(
            time=now[0],
            seconds=seconds,
            node_cpu=(now[1] - before[1]) / seconds,
            ls_cpu=(now[2] - before[2]) / seconds,
            be_cpu=(now[3] - before[3]) / seconds,
            be_pods=len(node.batch.pods),
            be_limit=be_limit,
            memory_available=node.memory.available,
            services=tuple(ServiceTruth(pod.key, pod.p99, pod.spec.slo.p99) for pod in node.services),
            bursts={pod.key: pod.quota for pod in node.here if pod.quota > pod.limit},
            given_up=now[4] - before[4],
            happenings=tuple(node.happenings),
        )
