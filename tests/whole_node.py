"""A whole agent but its process over a fake kernel: measured, decided, acted and verified, second by second of a clock moved by hand."""

from __future__ import annotations

import math

from acting import FakeBoot
from measuring import Bench, rule
from qosmanager.config.settings import CpuSuppressSettings, Settings, Strategy
from qosmanager.engine.cycle import Edge
from qosmanager.engine.runner import Runner
from qosmanager.execute.actuator import Enforcer
from qosmanager.execute.evictor import Evictor
from qosmanager.execute.resource_executor import ResourceExecutor
from qosmanager.linux.journal import FileJournal
from qosmanager.model.actions import Evict
from qosmanager.model.qos import QoS
from qosmanager.model.state import State
from qosmanager.ports import EvictionProgress

SETTINGS = Settings(cpu_suppress=CpuSuppressSettings(strategy=Strategy.USAGE))
RULES = (
    rule("api", "shop/api", QoS.LS, cpu_request=1.0),
    rule("job", "batch/*", QoS.BE),
)


class NoScores:
    """oom_score_adj of processes that are not there."""

    def identity(self, pid: int) -> str:
        return f"{pid}:1"

    def read(self, pid: int) -> int:
        del pid
        return 1000

    def write(self, identity: str, value: int) -> None:
        raise AssertionError((identity, value))


class NotedEvictions:
    def __init__(self) -> None:
        self.begun: list[str] = []

    def begin(self, action: Evict, workload, now) -> str:
        del workload, now
        self.begun.append(action.pod)
        return ""

    def unsettled(self) -> frozenset[str]:
        return frozenset()

    def poll(self, now) -> dict[str, EvictionProgress]:
        del now
        return {}


class World:
    """A 4-CPU node with an LS pod that uses `ls` cores and BE pods (two at first) that use `be` cores each, second by second."""

    def __init__(self, path, layout: str) -> None:
        self.bench = Bench(path, RULES, layout)
        self.kernel, self.layout = self.bench.kernel, layout
        for group in ("shop/api", "batch/one", "batch/two"):
            self.kernel.add(group)
        self.journal = FileJournal(path / "state")
        self.executor = ResourceExecutor(self.kernel, self.journal, NoScores(), FakeBoot())
        self.evictions = NotedEvictions()
        self.bench.own = {}
        hands = Enforcer(self.executor, Evictor(self.evictions))
        self.records = []
        self.errors: list[Exception] = []
        self.runner = Runner(Edge(self.bench.sampler, hands, self.bench.clock), SETTINGS, State(), self)
        self.used = {"shop/api": 0.0, "batch/one": 0.0, "batch/two": 0.0}
        self.ls, self.be, self.ticks = 1.0, 0.5, 0.0
        self.cpu()

    def cycle_done(self, record, settings) -> None:
        del settings
        self.records.append(record)

    def cycle_failed(self, error: Exception) -> None:
        self.errors.append(error)

    def cpu(self, seconds: float = 0.0) -> None:
        """Let time pass and the counters with it."""
        self.bench.clock.advance(seconds)
        rates = {group: self.ls if group == "shop/api" else self.be for group in self.used}
        for group, rate in rates.items():
            self.used[group] += rate * seconds
            self.put_usage(group, self.used[group])
        self.ticks += sum(rates.values()) * seconds * 100
        idle = self.bench.clock.now * 400 - self.ticks
        self.bench.proc.put(
            "stat", f"cpu  {int(self.ticks)} 0 0 {int(idle)} 0 0 0 0 0 0\n" + "".join(f"cpu{n} 0 0 0 0\n" for n in range(4)) + "ctxt 1\n"
        )

    def put_usage(self, group: str, seconds: float) -> None:
        try:
            if self.layout == "v2":
                self.kernel._put_by_name(
                    group, "cpu_stat", f"usage_usec {int(seconds * 1e6)}\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0"
                )
            else:
                self.kernel._put_by_name(group, "cpuacct_usage", str(int(seconds * 1e9)))
        except FileNotFoundError:
            assert group.startswith("batch/"), "only these are ever removed"

    def born(self, name: str) -> None:
        """One more BE pod."""
        self.kernel.add(f"batch/{name}")
        self.used[f"batch/{name}"] = 0.0
        self.cpu()

    def died(self, name: str) -> None:
        self.kernel.remove(f"batch/{name}")
        del self.used[f"batch/{name}"]

    def second(self):
        self.cpu(1.0)
        return self.runner.once()

    def seconds(self, count: int):
        for _ in range(count):
            last = self.second()
        return last

    def quota(self, group: str) -> float:
        if self.layout == "v2":
            word, period = self.kernel.text(group, "cpu.max").split()
            return math.inf if word == "max" else int(word) / int(period)
        us = int(self.kernel.text(group, "cpu.cfs_quota_us"))
        return math.inf if us < 0 else us / int(self.kernel.text(group, "cpu.cfs_period_us"))
