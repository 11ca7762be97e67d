from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from qosmanager.config.settings import CpuEvictSettings, Settings, SystemReserved
from qosmanager.documents.snapshot import load_snapshot
from qosmanager.engine.cycle import Edge, Turn, run_cycle
from qosmanager.engine.runner import Runner
from qosmanager.model.actions import Evict, Plan, Receipt, Result, SetBeCpuLimit
from qosmanager.model.pause import Pause
from qosmanager.model.qos import Mode, QoS
from qosmanager.model.snapshot import Node, Pod, PodCpu, Snapshot
from qosmanager.model.state import State
from qosmanager.model.workload import Placement

FAST = Settings(sync_period=0.1)


class MachineClock:
    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()


class ConstantNode:
    """16 CPUs with an LS pod that asks for 6 and uses 5, and one that fails when told to."""

    def __init__(self) -> None:
        self.failing: Exception | None = None
        self.count = 0

    def sample(self):
        self.count += 1
        if self.failing is not None:
            raise self.failing
        ls = Pod(name="api", namespace="shop", qos=QoS.LS, cpu=PodCpu(request=6.0, usage=5.0))
        be = Pod(name="etl", namespace="batch", qos=QoS.BE, cpu=PodCpu(usage=2.5))
        node = Node(cpus=16.0, cpu_usage=8.0, load1=8.0, system_reserved=1.0)
        return Snapshot(node=node, pods=(ls, be), time=time.monotonic()), Placement(workloads={})


class Answering:
    """Hands that answer every action with one result."""

    def __init__(self, result: Result = Result.APPLIED) -> None:
        self.result = result
        self.plans: list[Plan] = []

    def apply(self, plan, placement, snapshot, now):
        del placement, snapshot, now
        self.plans.append(plan)
        return tuple(Receipt(target="BE", result=self.result, action=index) for index in range(len(plan.actions)))

    def unsettled(self):
        return frozenset()


class Noting:
    def __init__(self, runner_after: int = 0) -> None:
        self.records = []
        self.errors: list[str] = []
        self.stop_after = runner_after
        self.runner: Runner | None = None

    def cycle_done(self, record, settings):
        del settings
        self.records.append(record)
        self._maybe_stop()

    def cycle_failed(self, error):
        self.errors.append(str(error))
        self._maybe_stop()

    def _maybe_stop(self) -> None:
        if self.runner is not None and len(self.records) + len(self.errors) >= self.stop_after:
            self.runner.stop()


def running(readings, hands, cycles: int):
    noting = Noting(cycles)
    runner = Runner(Edge(readings, hands, MachineClock()), FAST, State(), noting)
    noting.runner = runner
    return runner, noting


def test_a_cycle_decides_acts_and_carries_the_state_on():
    hands = Answering()
    record = run_cycle(Edge(ConstantNode(), hands, MachineClock()), Turn(number=1), State(), FAST)
    assert [type(action) for action in record.plan.actions] == [SetBeCpuLimit]
    assert record.plan.actions[0].cores == pytest.approx((15 - 6) * 0.8)
    assert record.state.be_limit == pytest.approx(7.2)
    assert set(record.durations) == {"collect", "verify", "assess", "decide", "act", "total"}


class Evicting(Answering):
    """A node on which a pod is to be evicted, and hands that say when they begin."""

    def __init__(self) -> None:
        super().__init__()
        text = (Path(__file__).parents[3] / "examples" / "snapshots" / "evict.yaml").read_text(encoding="utf-8")
        self.snapshot, self.state = load_snapshot(text, "evict.yaml")
        self.said: list[object] = []

    def sample(self):
        return self.snapshot, Placement(workloads={})

    def apply(self, plan, placement, snapshot, now):
        self.said.append("begun")
        return super().apply(plan, placement, snapshot, now)


@pytest.mark.parametrize(("mode", "told"), [(Mode.ENFORCE, True), (Mode.OBSERVE, False)])
def test_who_is_to_be_evicted_is_told_before_that_begins(mode, told):
    node = Evicting()
    edge = Edge(node, node, MachineClock(), witness=node.said.append)
    record = run_cycle(edge, Turn(number=7), node.state, Settings(cpu_evict=CpuEvictSettings(mode=mode)))
    assert Evict in map(type, record.plan.actions)
    before = replace(record, receipts=(), outcomes=(), durations={}, state=node.said[0].state) if told else None
    assert node.said == ([before, "begun"] if told else ["begun"])


def test_a_limit_that_could_not_be_written_is_not_in_force():
    record = run_cycle(Edge(ConstantNode(), Answering(Result.FAILED), MachineClock()), Turn(number=1), State(), FAST)
    assert record.state.be_limit is None


def test_a_failing_cycle_is_reported_and_the_next_one_runs(caplog):
    node = ConstantNode()
    node.failing = OSError(5, "Input/output error")
    runner, noting = running(node, Answering(), 4)

    def recover_after_two() -> None:
        if len(noting.errors) == 2:
            node.failing = None

    runner.run(recover_after_two)
    assert len(noting.errors) == 2
    assert len(noting.records) == 2
    assert sum("cycle failed" in message for message in caplog.messages) == 1, "the same failure is logged once"


def test_what_fails_between_cycles_is_told_once_and_the_next_one_runs(caplog):
    runner, noting = running(ConstantNode(), Answering(), 3)

    def between() -> None:
        raise RuntimeError("no room to reload")

    # Each round notes a cycle and a failure: the second round brings the three after which it is to stop.
    runner.run(between)
    assert (len(noting.records), noting.errors) == (2, ["no room to reload"] * 2)
    assert sum("between cycles failed" in message for message in caplog.messages) == 1


def test_the_state_survives_a_failed_cycle():
    node = ConstantNode()
    runner, _ = running(node, Answering(), 99)
    runner.once()
    before = runner.state
    node.failing = RuntimeError("broken")
    assert runner.once() is None
    assert runner.state == before
    assert before.be_limit == pytest.approx(7.2)


def test_other_settings_hold_from_the_next_cycle_on():
    node, hands = ConstantNode(), Answering()
    runner, noting = running(node, hands, 99)
    runner.once()
    runner.use(Settings(sync_period=0.2))
    runner.once()
    assert [record.number for record in noting.records] == [1, 2]
    assert runner.number == 2


def test_stop_ends_the_wait_at_once():
    runner, noting = running(ConstantNode(), Answering(), 1)
    slow = Settings(sync_period=60.0)
    runner.use(slow)
    runner.run(lambda: None)
    assert len(noting.records) == 1


def test_a_signal_may_stop_it_at_any_instant_of_its_wait():
    runner, noting = running(ConstantNode(), Answering(), 99)

    def interrupt(frame, event, argument):
        # What a signal handler does: it runs between any two steps of the thread that waits, here between all of them.
        del frame, argument
        if event == "line" and noting.records:
            runner.stop()
        return interrupt

    def wait() -> None:
        sys.settrace(interrupt)
        runner.run(lambda: None)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "stop waits for a lock that its own thread holds"


class PausedBy:
    def __init__(self) -> None:
        self.pause: Pause | None = None

    def current(self) -> Pause | None:
        return self.pause


def test_a_pause_keeps_the_limit_changes_nothing_and_ends():
    pauses, hands = PausedBy(), Answering()
    edge = Edge(ConstantNode(), hands, MachineClock(), pauses)
    first = run_cycle(edge, Turn(number=1), State(), FAST)
    pauses.pause = Pause(boot_id="b", ends=1.0, since=0.0, until=1.0, by="root")
    paused = run_cycle(edge, Turn(number=2), first.state, replace(FAST, system_reserved=SystemReserved(cpu=8.0)))
    assert (paused.snapshot.paused, paused.pause, paused.plan.degraded) == (True, pauses.pause, ("paused",))
    assert paused.plan.actions == ()
    assert paused.state.be_limit == first.state.be_limit
    pauses.pause = None
    resumed = run_cycle(edge, Turn(number=3), paused.state, replace(FAST, system_reserved=SystemReserved(cpu=8.0)))
    assert resumed.pause is None
    assert [action.cores for action in resumed.plan.actions] == [pytest.approx((8 - 6) * 0.8)]
