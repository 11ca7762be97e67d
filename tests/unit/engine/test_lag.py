"""How late a cycle begins is measured against its own schedule, and told in its record."""

from __future__ import annotations

import pytest

from measuring import HandClock
from qosmanager.config.settings import Settings
from qosmanager.engine.cycle import Edge
from qosmanager.engine.runner import Runner
from qosmanager.engine.thrift import Thrift
from qosmanager.model.snapshot import Node, Snapshot
from qosmanager.model.state import State
from qosmanager.model.workload import Placement


class Meter:
    def read(self) -> tuple[float, int | None]:
        return 0.0, None


class Node1:
    """Readings, hands and listener in one; each cycle lasts as long as told, the last one stops the runner."""

    def __init__(self, *lasting: float) -> None:
        self.clock = HandClock()
        self.lasting = list(lasting)
        self.lags: list[float] = []
        edge = Edge(self, self, self.clock, None, Thrift(Meter(), self.spared))
        self.runner = Runner(edge, Settings(sync_period=1.0), State(), self)

    def spared(self, steps: int) -> None:
        raise AssertionError(steps)

    def sample(self):
        self.clock.advance(self.lasting.pop(0))
        if not self.lasting:
            self.runner.stop()
        return Snapshot(node=Node(cpus=2.0, cpu_usage=1.0), time=self.clock.now), Placement(workloads={})

    def apply(self, plan, placement, snapshot, now):
        del plan, placement, snapshot, now
        return ()

    def unsettled(self):
        return frozenset()

    def cycle_done(self, record, settings) -> None:
        del settings
        self.lags.append(record.own.lag)

    def cycle_failed(self, error: Exception) -> None:
        raise error

    def run(self) -> list[float]:
        self.runner.run(lambda: None)
        return self.lags


def test_a_cycle_longer_than_its_period_makes_the_next_one_late():
    # Due after 1.0 s, begun after 1.7; the schedule then starts anew from there, so that it is not late twice for one delay.
    assert Node1(1.7, 1.2, 0.0).run() == [0.0, pytest.approx(0.7), pytest.approx(0.2)]


def test_a_cycle_that_is_in_time_is_not_late():
    assert Node1(1.0, 1.0, 0.5).run() == [0.0, 0.0, 0.0]
