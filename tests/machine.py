"""A node of numbers for sequences: services that use what they want, batch that takes what its limit and the rest leave it."""

from __future__ import annotations

import itertools
import random

from msgspec import Struct

from builders import NOW, be, ls, snapshot
from qosmanager.config.settings import Settings
from qosmanager.engine.step import step
from qosmanager.model.actions import Evict, Plan
from qosmanager.model.assessment import Assessment
from qosmanager.model.snapshot import Snapshot
from qosmanager.model.state import State
from qosmanager.verify import observe


class Cycle(Struct, frozen=True):
    """One cycle as it went."""

    reading: Snapshot
    state: State
    assessment: Assessment
    plan: Plan


class Machine:
    """32 CPUs, a service with a request of 16, greedy batch in ten pods. Victims are gone in the next second."""

    def __init__(self, settings: Settings | None = None, noise: float = 0.0) -> None:
        self.settings = settings or Settings()
        self.state = State()
        self.second = 0
        self.batch = [f"b{number}" for number in range(10)]
        self._noise = noise
        self._random = random.Random(20261111)

    def run(self, seconds: int, wanted: float, **figures) -> list[Cycle]:
        """Run for some seconds; the service wants so many cores. It waits for what the batch takes from it, unless told otherwise."""
        return [self._once(wanted, figures) for _ in range(seconds)]

    def _once(self, wanted: float, figures: dict[str, float]) -> Cycle:
        cpus = 32.0
        service = min(cpus, wanted * (1 + self._random.uniform(-self._noise, self._noise)))
        limit = cpus if self.state.be_limit is None else self.state.be_limit
        taken = min(limit, cpus) if self.batch else 0.0
        got = max(min(service, cpus - taken), cpus / 2 if service > cpus / 2 else 0.0)
        taken = min(taken, cpus - got)
        pods = [ls(**{"usage": got, "wait": service - got, "request": 16.0, **figures})]
        pods += [be(name, usage=taken / len(self.batch)) for name in self.batch]
        reading = snapshot(*pods, time=NOW + self.second, cpus=cpus, cpu_usage=got + taken, load1=service + taken)
        seen, _ = observe(self.state, reading)
        self.state, assessment, plan = step(seen, reading, self.settings)
        gone = {action.pod.partition("/")[2] for action in plan.actions if isinstance(action, Evict)}
        self.batch = [name for name in self.batch if name not in gone]
        self.second += 1
        return Cycle(reading, self.state, assessment, plan)


def limits(cycles: list[Cycle]) -> list[float]:
    return [cycle.state.be_limit for cycle in cycles]


def reversals(values: list[float]) -> int:
    """Count the changes of direction of a sequence."""
    moves = [after - before for before, after in itertools.pairwise(values) if after != before]
    return sum(one * other < 0 for one, other in itertools.pairwise(moves))
