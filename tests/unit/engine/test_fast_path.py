"""Cycles before their turn: when they come, when not, what is said of it."""

from __future__ import annotations

import threading
import time

import pytest
from msgspec.structs import replace

from builders import be, ls, snapshot
from measuring import HandClock
from qosmanager.config.settings import CpuSuppressSettings, FastPathSettings, MemoryEvictSettings, Settings
from qosmanager.engine.cycle import Edge, Turn, run_cycle
from qosmanager.engine.fast_path import SAVED, FastPath, Silence, Ways
from qosmanager.engine.runner import Runner
from qosmanager.engine.thrift import Thrift
from qosmanager.model.actions import Evict, Receipt, Result
from qosmanager.model.own_use import OwnUse
from qosmanager.model.qos import Mode, Plugin, QoS
from qosmanager.model.state import State
from qosmanager.model.workload import Placement, Workload
from qosmanager.ports import AlarmCost, CannotListenError, Earlier, Jump, MemoryGuard

JUMP = Jump(pods={"shop/api": Earlier(0.1, 5.0, 1.0)}, reason="waited for CPU: shop/api")
API = Workload(name="api", namespace="shop", qos=QoS.LS, cgroup="web/api")
ETL = Workload(name="etl", namespace="batch", qos=QoS.BE, cgroup="batch/etl")


class ToldAlarm:
    """Wakes at the moments it is told, on a clock moved by hand."""

    def __init__(self, clock: HandClock) -> None:
        self.clock = clock
        self.at: list[float] = []
        self.groups: dict[str, str] = {}
        self.deaf = ""
        self.spent = 0.0
        self.guarded = None
        self.jump = JUMP

    def watch(self, groups, interval):
        self.groups, self.interval = dict(groups), interval
        if groups and self.deaf:
            raise CannotListenError(self.deaf)
        return "by ear"

    def guard(self, memory, interval):
        self.guarded = memory
        self.interval = interval

    def wait(self, seconds):
        until = self.clock.now + seconds
        if (self.groups or self.guarded) and self.at and self.at[0] < until:
            self.clock.now = max(self.clock.now, self.at.pop(0))
            return self.jump
        self.clock.now = until
        return None

    def wake(self) -> None:
        """Nobody waits when a test stops the runner."""

    def cost(self):
        return AlarmCost(reads=7, seconds=0.5)

    def cpu_seconds(self):
        return self.spent


class Node:
    """Readings, hands and listener in one."""

    def __init__(self, *at: float) -> None:
        self.clock = HandClock()
        self.alarm = ToldAlarm(self.clock)
        self.alarm.at = list(at)
        self.hurried: list[float] = []
        self.records = []
        self.paused = False
        self.failing = False
        self.lasting = 0.01
        self.pods = (ls(usage=2.0, request=4.0), be(usage=6.0))
        self.figures = {}
        self.ends = 1002.5
        self.under_way: set[str] = set()
        placement = Placement(workloads={"shop/api": API, "batch/etl": ETL})
        self.ways = Ways(
            self.alarm, lambda: placement, lambda pods: self.hurried.append(self.clock.now) if pods is self.alarm.jump.pods else None
        )

    def run(self, settings=None, each_cycle=lambda: None):
        runner = Runner(Edge(self, self, self.clock), settings or Settings(), State(), self, self.ways)
        self.runner = runner

        def after_each():
            each_cycle()
            if self.clock.now > self.ends:
                runner.stop()

        runner.run(after_each)
        return [round(record.snapshot.time - 1000, 3) for record in self.records]

    def sample(self):
        reading = snapshot(*self.pods, time=self.clock.now, cpus=16.0, cpu_usage=8.0, **self.figures)
        self.clock.advance(self.lasting)
        self.alarm.spent += self.lasting
        if self.failing:
            raise OSError(5, "Input/output error")
        return replace(reading, paused=self.paused), Placement(workloads={})

    def apply(self, plan, placement, snapshot, now):
        del plan, placement, snapshot, now
        return ()

    def unsettled(self):
        return frozenset(self.under_way)

    def cycle_done(self, record, settings):
        del settings
        self.records.append(record)

    def cycle_failed(self, error):
        del error


def causes(node):
    return [record.cause for record in node.records]


def test_a_jump_brings_a_cycle_at_once_and_the_others_keep_their_turn():
    node = Node(1000.3)
    assert node.run() == [0.0, 0.3, 1.0, 2.0, 3.0]
    assert causes(node) == ["", JUMP.reason, "", "", ""]
    assert node.hurried == [1000.3], "before the cycle, the sampler is told for whose sake"
    assert node.runner.fast_path.cycles == 1
    assert node.runner.fast_path.last == JUMP.reason


def test_it_listens_to_the_services_alone_as_often_as_it_is_told():
    node = Node()
    node.run(Settings(fast_path=FastPathSettings(interval=0.05)))
    assert node.alarm.groups == {"shop/api": "web/api"}
    assert node.alarm.interval == 0.05
    use = node.runner.fast_path
    assert (use.on, use.how, use.reads, use.read_seconds) == (True, "by ear", 7, 0.5)


def test_nothing_comes_right_after_a_cycle_or_right_before_the_next():
    assert Node(1000.04, 1000.96, 1001.5).run() == [0.0, 1.0, 1.5, 2.0, 3.0]


def test_at_most_so_many_in_a_second():
    node = Node(*(1000 + tenth / 10 for tenth in range(1, 10)), 1001.15, 1001.25)
    # The two of the second second: .1 and .2 of the first are over by then, so each finds room.
    expected = [0.0, 0.1, 0.2, 0.3, 1.0, 1.15, 1.25, 2.0, 3.0]
    assert node.run(Settings(fast_path=FastPathSettings(max_per_second=3))) == expected
    assert node.runner.fast_path.held_back == 6


def test_what_they_cost_is_counted_and_bounded():
    node = Node(1000.2, 1000.4, 1000.6)
    node.lasting = 0.11
    # The second one uses up what may be spent at once (0.2 s of CPU).
    assert SAVED == 0.2
    assert node.run() == [0.0, 0.2, 0.4, 1.0, 2.0, 3.0]
    use = node.runner.fast_path
    assert use.cycle_seconds == pytest.approx(0.22)
    assert use.held_back == 1


def test_what_was_spent_comes_back_slowly():
    node = Node(1000.5, 1001.5, 1019.5)
    node.lasting, node.ends = 0.25, 1020.0
    # 0.05 s more than there was: at three thousandths of a core that takes 16.7 s.
    assert [moment for moment in node.run() if moment % 1] == [0.5, 19.5]


def test_a_failed_cycle_is_followed_by_one_in_its_turn():
    node = Node(1000.5)
    node.failing = True
    node.run()
    assert node.alarm.groups == {}
    assert (node.runner.fast_path.on, node.runner.fast_path.reason) == (False, "the last cycle failed")


def test_paused_it_does_not_listen():
    node = Node(1000.5)
    node.paused = True
    assert node.run() == [0.0, 1.0, 2.0, 3.0]
    assert node.runner.fast_path.reason == "the agent is paused"


def test_why_nothing_can_be_listened_to_is_told():
    node = Node(1000.5)
    node.alarm.deaf = "no stall files"
    node.run()
    assert (node.runner.fast_path.on, node.runner.fast_path.reason) == (False, "no stall files")


@pytest.mark.parametrize(
    ("settings", "pods", "reason"),
    [
        (Settings(fast_path=FastPathSettings(enabled=False)), (ls(usage=1.0), be(usage=1.0)), "fastPath.enabled is false"),
        (Settings(sync_period=0.4), (ls(usage=1.0), be(usage=1.0)), "syncPeriod is shorter than 0.5 s"),
        (Settings(cpu_suppress=CpuSuppressSettings(mode=Mode.OFF)), (ls(usage=1.0), be(usage=1.0)), "CPUSuppress is off"),
        (Settings(), (be(usage=1.0),), "no service runs here"),
        (Settings(), (ls(usage=1.0),), "no batch runs here"),
        (Settings(), (ls(usage=16.0, request=16.0), be(usage=0.1)), "BE is at its floor of 0.1 cores already"),
    ],
)
def test_it_is_off_where_it_could_do_nothing(settings, pods, reason):
    assert used(settings, snapshot(*pods, cpu_usage=16.0)).reason == reason


def test_it_is_off_while_data_are_stale():
    assert used(Settings(), snapshot(ls(usage=1.0), be(usage=1.0), cpu_usage=2.0, node_age=5.0)).reason == "degraded: node_stale"


def test_it_is_off_while_the_agent_spares_the_node():
    own = OwnUse(thrift=1, reason="0.040 cores used, allowed 0.03")
    found = used(Settings(), snapshot(ls(usage=1.0), be(usage=1.0), cpu_usage=2.0), own)
    assert found.reason == "the agent spares the node while it is over its own budget"


def used(settings, reading, own=None):
    node = Node()
    node.sample = lambda: (reading, Placement(workloads={}))
    fast = FastPath(node.ways, node.clock, node.unsettled)
    record = run_cycle(Edge(node, node, node.clock), Turn(number=1), State(), settings)
    fast.after(replace(record, own=own), settings)
    assert not fast.use.on
    assert node.alarm.groups == {}
    return fast.use


class Meter:
    def __init__(self) -> None:
        self.reads = 0

    def read(self) -> tuple[float, int | None]:
        self.reads += 1
        return float(self.reads), None


def test_a_cycle_before_its_turn_is_no_look_at_what_the_agent_uses():
    # It is never late, which would hide that all others are, and too soon after the last one for a mean.
    node, meter = Node(), Meter()
    edge = Edge(node, node, node.clock, None, Thrift(meter, lambda _: None))
    own = [run_cycle(edge, Turn(number=number, lag=0.4, cause=cause), State(), Settings()).own for number, cause in ((1, ""), (2, "jump"))]
    assert meter.reads == 1
    assert own[0] == own[1] == OwnUse(lag=0.4)


def test_a_wait_in_silence_ends_when_it_is_woken():
    silence = Silence()
    threading.Timer(0.05, silence.wake).start()
    began = time.monotonic()
    silence.wait(60.0)
    assert time.monotonic() - began < 30


# -- memory --------------------------------------------------------------------------------------------------------------------

GIB = 1 << 30
SHORT = Jump(pods={}, urgent=True, reason="300 MiB of memory available")


def guarded(settings=None, *pods, total=100 * GIB, available=40 * GIB):
    """Return what is looked for after one cycle."""
    node = Node()
    node.pods, node.figures = pods or node.pods, {"memory_total": total, "memory_available": available}
    node.ends = 1000.0
    node.run(settings)
    return node.alarm.guarded


def test_where_memory_may_run_out_it_is_looked_at_too():
    # A tenth of 100 GiB; of 2 GiB the 512 MiB at which there is a risk; as seen by the cycle.
    assert guarded() == MemoryGuard(10.0 * GIB, 40 * GIB)
    assert guarded(total=2 * GIB, available=GIB) == MemoryGuard(GIB / 2, GIB)
    # Less than 8 GiB may be gone in a second, however much of the node's that is.
    assert guarded(total=8 * GIB, available=8 * GIB) == MemoryGuard(0.8 * GIB, 8 * GIB)


class Running(Node):
    """A node of 8 GiB on which memory runs out in a second or so; what its hands begin they say."""

    def __init__(self, lasts, *at):
        super().__init__(*at)
        self.figures = {"memory_total": 8 * GIB, "memory_available": GIB // 8, "memory_available_trend": -GIB / 8 / lasts}
        self.pods = (ls(usage=1.0), be(usage=1.0, rss=6 * GIB))
        self.begun = 0

    def apply(self, plan, placement, snapshot, now):
        del placement, snapshot, now
        receipts = tuple(
            Receipt(target="batch/etl", result=Result.APPLIED, action=number, pod="batch/etl")
            for number, action in enumerate(plan.actions)
            if isinstance(action, Evict)
        )
        self.begun += len(receipts)
        self.under_way |= {receipt.pod for receipt in receipts}
        return receipts


@pytest.mark.parametrize(
    ("lasts", "at"),
    [
        (0.8, [0.0, 0.41, 1.0]),  # half of it after the cycle, which took 10 ms
        (0.02, [0.0, 0.05, 1.0]),  # never within 50 ms of another cycle
        (1.94, [0.0, 1.0]),  # as good as in its turn
    ],
)
def test_a_short_grace_period_ends_with_a_cycle_not_with_the_next_one_in_its_turn(lasts, at):
    node = Running(lasts)
    node.ends = 1000.5
    assert node.run() == at
    assert node.begun == 1
    assert causes(node) == ["", *(["the grace period of batch/etl is over"] * (len(at) - 2)), ""]


def test_a_cycle_in_between_does_not_make_a_grace_period_longer():
    node = Running(1.6, 1000.3)
    node.ends, node.alarm.jump = 1000.5, SHORT
    assert node.run() == [0.0, 0.3, 0.81, 1.0]


def test_a_grace_period_that_is_over_when_there_were_too_many_cycles_ends_as_soon_as_there_may_be_another():
    node = Running(0.8, 1000.3)
    node.alarm.jump = SHORT
    assert node.run(Settings(sync_period=3.0, fast_path=FastPathSettings(max_per_second=1))) == [0.0, 0.3, 1.3, 3.0]
    assert causes(node) == ["", SHORT.reason, "the grace period of batch/etl is over", ""]


class Ending:
    """A fast path that is told of cycles which begin to evict."""

    def __init__(self, *under_way):
        self.node = Node()
        self.node.lasting = 0.0
        self.node.under_way = set(under_way)
        self.fast = FastPath(self.node.ways, self.node.clock, self.node.unsettled)
        self.record = run_cycle(Edge(self.node, self.node, self.node.clock), Turn(number=1), State(), Settings())

    def cycle(self, at, pod="", grace=0.0, lasts=0.0):
        self.node.clock.now = at
        self.fast.began()
        self.node.clock.now += lasts
        actions = (Evict(plugin=Plugin.MEMORY_EVICT, reason="test", pod=pod, grace=grace),) if pod else ()
        receipts = tuple(Receipt(target=pod, result=Result.APPLIED, action=0, pod=pod) for _ in actions)
        self.fast.after(replace(self.record, plan=replace(self.record.plan, actions=actions), receipts=receipts), Settings())

    def next(self):
        """Return when, of those before 1001.0, the next cycle comes and why."""
        jump = self.fast.wait(1001.0)
        return round(self.node.clock.now - 1000, 3), jump and jump.reason


def test_each_grace_period_ends_on_time():
    ending = Ending("batch/a", "batch/b")
    ending.cycle(1000.0, "batch/a", 0.8)
    ending.cycle(1000.3, "batch/b", 0.2)
    assert ending.next() == (0.5, "the grace period of batch/b is over")
    ending.cycle(1000.5)
    assert ending.next() == (0.8, "the grace period of batch/a is over")
    ending.cycle(1000.8)
    assert ending.next() == (1.0, None)


def test_a_grace_period_that_is_over_while_a_cycle_runs_ends_with_another_one():
    ending = Ending("batch/a")
    ending.cycle(1000.0, "batch/a", 0.3)
    ending.cycle(1000.29, lasts=0.02)  # it may have looked at the victim before
    assert ending.next() == (0.34, "the grace period of batch/a is over")


def test_a_cycle_that_fails_makes_no_grace_period_longer():
    ending = Ending("batch/a")
    ending.cycle(1000.0, "batch/a", 0.5)
    ending.node.clock.now = 1000.2
    ending.fast.began()
    ending.fast.failed()
    assert ending.next() == (0.5, "the grace period of batch/a is over")


def test_no_cycle_comes_for_who_is_gone_or_goes_without_the_agent():
    ending = Ending("batch/b")
    ending.cycle(1000.0, "batch/a", 0.3)
    ending.cycle(1000.1, "batch/b", 0.5)
    assert ending.next() == (0.6, "the grace period of batch/b is over")


def test_without_the_fast_path_a_grace_period_ends_in_its_turn():
    node = Running(0.8)
    node.ends = 1000.5
    assert node.run(Settings(fast_path=FastPathSettings(enabled=False))) == [0.0, 1.0]


@pytest.mark.parametrize(
    "case",
    [
        {"available": 51 * GIB},
        {"total": 12 * GIB, "available": 8 * GIB + 1},
        {"settings": Settings(memory_evict=MemoryEvictSettings(mode=Mode.OBSERVE))},
        {"settings": Settings(fast_path=FastPathSettings(enabled=False))},
        {"settings": Settings(sync_period=0.4)},
        {"pods": (ls(usage=1.0),)},
        {"pods": (be(usage=1.0, critical=True), be("b", usage=1.0, terminating=True))},
        {"pods": (be(usage=1.0, owner="DaemonSet"), be("b", usage=1.0, labelled=False))},
        {"total": 0},
    ],
)
def test_memory_is_not_looked_at_where_nothing_would_come_of_it(case):
    figures = {name: value for name, value in case.items() if name in ("total", "available")}
    assert guarded(case.get("settings"), *case.get("pods", ()), **figures) is None


def test_memory_is_looked_at_for_unlabelled_pods_where_they_may_be_evicted():
    assert guarded(Settings(evict_unlabelled=True), be(usage=1.0, labelled=False)) == MemoryGuard(10.0 * GIB, 40 * GIB)


def test_the_longer_the_cycle_the_more_memory_may_go_in_it():
    assert guarded(Settings(sync_period=1.5), available=75 * GIB) == MemoryGuard(10.0 * GIB, 75 * GIB)
    assert guarded(Settings(sync_period=1.5), available=76 * GIB) is None
    assert guarded(Settings(sync_period=10), available=100 * GIB) == MemoryGuard(10.0 * GIB, 100 * GIB)


def test_what_cycles_for_memory_owe_keeps_those_of_the_services_waiting_for_a_minute_not_longer():
    node = Node(*(1000.2 + second + part for second in range(5) for part in (0.0, 0.2, 0.4)))
    node.figures, node.alarm.jump, node.ends = {"memory_total": 2 * GIB, "memory_available": GIB}, SHORT, 1090.0
    node.lasting = 0.11

    def jumps_for_services():
        if node.clock.now > 1010 and node.alarm.jump is SHORT:
            node.alarm.jump, node.alarm.at = JUMP, [1060.5, 1080.5]

    # 15 cycles of 0.11 s, of which at most 0.2 s are owed: paid back with 0.3 percent of a core in 67 s.
    moments = node.run(each_cycle=jumps_for_services)
    assert moments.count(60.5) == 0
    assert moments.count(80.5) == 1


def test_memory_that_runs_out_brings_a_cycle_without_services_and_whatever_was_spent():
    node = Node(1000.2, 1000.4, 1000.6)
    node.pods, node.figures, node.alarm.jump = (be(usage=6.0),), {"memory_total": 2 * GIB, "memory_available": GIB}, SHORT
    node.lasting = 0.11
    assert node.run() == [0.0, 0.2, 0.4, 0.6, 1.0, 2.0, 3.0]
    assert causes(node)[1] == "300 MiB of memory available"
