"""Self-protection: when the agent reads less, how much, and when it comes back."""

from __future__ import annotations

import pytest

from qosmanager.engine.thrift import Thrift

MIB = 1 << 20


class Meter:
    """What the process would tell."""

    def __init__(self) -> None:
        self.cpu = 0.0
        self.rss: int | None = 40 * MIB

    def read(self) -> tuple[float, int | None]:
        return self.cpu, self.rss


class Agent:
    """An agent with a cycle a second that uses `cores` of CPU and begins `lag` seconds late."""

    def __init__(self) -> None:
        self.meter = Meter()
        self.steps: list[int] = []
        self.thrift = Thrift(self.meter, self.steps.append)
        self.now = 100.0

    def seconds(self, count: int, cores: float = 0.01, lag: float = 0.0):
        for _ in range(count):
            self.now += 1.0
            self.meter.cpu += cores
            own = self.thrift.look(self.now, lag, 1.0)
        return own


@pytest.fixture
def agent():
    return Agent()


def test_within_its_budget_it_reads_everything(agent):
    own = agent.seconds(300, cores=0.029, lag=0.4)
    assert (own.thrift, own.reason, agent.steps) == (0, "", [])
    assert own.cpu == pytest.approx(0.029)
    assert own.rss == 40 * MIB
    assert own.lag == 0.4


def test_the_first_look_knows_no_cpu_use(agent):
    assert agent.seconds(1).cpu is None


def test_thirty_seconds_over_the_cpu_budget_are_a_step(agent):
    # The first look has no rate: 31 looks span 30 s.
    assert agent.seconds(30, cores=0.05).thrift == 0
    own = agent.seconds(1, cores=0.05)
    assert own.thrift == 1
    assert own.reason == "0.050 cores used, allowed 0.03"
    assert agent.steps == [1]


def test_each_step_is_judged_by_thirty_seconds_of_its_own_and_the_third_is_the_last(agent):
    assert agent.seconds(31 + 29, cores=0.05).thrift == 1
    assert agent.seconds(1, cores=0.05).thrift == 2
    assert agent.seconds(30, cores=0.05).thrift == 3
    agent.seconds(300, cores=0.05)
    assert agent.steps == [1, 2, 3]


def test_a_short_peak_is_no_step(agent):
    agent.seconds(60)
    agent.seconds(5, cores=0.1)  # 25 x 0.01 + 5 x 0.1 = 0.75 core seconds in 30: 0.025
    assert agent.seconds(60).thrift == 0


def test_cycles_that_all_begin_late_are_a_step_and_one_late_one_is_none(agent):
    agent.seconds(60)
    agent.seconds(1, lag=3600.0)
    assert agent.seconds(60).thrift == 0
    own = agent.seconds(31, lag=0.6)
    assert own.thrift == 1
    assert own.reason == "cycles begin 0.60 s late, allowed 0.5"


def test_too_much_memory_is_a_step(agent):
    agent.meter.rss = 300 * MIB
    assert agent.seconds(31).reason == "300 MiB held, allowed 256"


def test_memory_that_is_not_known_is_none(agent):
    agent.meter.rss = None
    own = agent.seconds(60)
    assert (own.rss, own.thrift) == (None, 0)


def test_a_minute_within_the_budget_takes_each_step_back(agent):
    agent.seconds(61, cores=0.05)
    assert agent.steps == [1, 2]
    agent.seconds(60)
    assert agent.steps == [1, 2]
    agent.seconds(1)
    assert agent.steps == [1, 2, 1]
    own = agent.seconds(60)
    assert agent.steps == [1, 2, 1, 0]
    assert own.reason == ""


def test_where_coming_back_brings_the_trouble_back_it_waits_twice_as_long(agent):
    agent.seconds(31, cores=0.05)
    agent.seconds(61)
    assert agent.steps == [1, 0]
    agent.seconds(30, cores=0.05)
    assert agent.steps == [1, 0, 1]
    agent.seconds(120)
    assert agent.steps == [1, 0, 1]
    agent.seconds(1)
    assert agent.steps == [1, 0, 1, 0]
