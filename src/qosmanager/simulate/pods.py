"""A pod of the model: its claims, its counters, its life (docs/simulate.md). Counters are what the kernel's files would hold."""

from __future__ import annotations

import math
from collections.abc import Iterable

from qosmanager.model.workload import LatencySource, Workload
from qosmanager.simulate.curve import TICK, Curve
from qosmanager.simulate.scenario import WorkloadSpec
from qosmanager.simulate.sharing import Branch, Sharer

SOURCE = LatencySource("simulated", "latency")
SMALLEST_WEIGHT = 2.0  # cpu.shares
IDLE_WEIGHT = 3.0  # what the scheduler counts for cpu.idle, beside 1024 for the default
_FULL = 0.999999  # of a quota: rounding is no room


class SimulatedPod(Sharer):
    """A pod that computes with `demand` threads all the time. Its group gets at most `cap` cores: its quota, and the CPUs it may use.

    `usage` and `stalled` are seconds since its beginning, `periods` and `throttled` periods of its quota.
    """

    def __init__(self, spec: WorkloadSpec, name: str, group: str, weight: float, curve: Curve) -> None:
        super().__init__(weight)
        self.spec = spec
        self.name = name
        self.key = f"{spec.namespace}/{name}"
        self.group = group
        self.curve = curve
        self.width = math.inf  # CPUs that it may run on
        self.limit = math.inf if spec.limits.cpu is None else spec.limits.cpu
        self.most_memory = math.inf if spec.limits.memory is None else spec.limits.memory
        self.own_cpus: tuple[int, ...] = ()
        self.workload: Workload | None = None  # None: it is not here
        self.begins: float | None = spec.starts  # when it comes; None: it is here, or never comes
        self.ends: float | None = None  # when it is gone; None: nobody asked it to go
        self.marked = False  # evicted for leaking: a person decides before it comes back
        self.rss = 0  # bytes
        self.held_from = 0.0  # seconds of the run since which it holds memory
        self.reset()

    def reset(self) -> None:
        """Count anew: another pod under the same name."""
        self.set_quota(self.limit)
        self.demand = self.want = self.given = self.spread = 0.0
        self.until = 0
        self.usage = self.stalled = 0.0
        self.periods = self.throttled = 0
        self.ends = None

    def begin(self, now: float, wall: float, uid: str, age: float) -> None:
        """Come to life at `now` (seconds of the run; `wall`: epoch seconds), `age` seconds old."""
        self.reset()
        self.begins = None
        self.marked = False
        self.held_from = now - age
        self.rss = self.spec.memory.start
        spec = self.spec
        self.workload = Workload(
            name=self.name,
            namespace=spec.namespace,
            qos=spec.qos,
            cgroup=self.group,
            uid=uid,
            priority=spec.priority,
            created=wall - age,
            critical=spec.critical,
            owner=spec.owner,
            labelled=spec.labelled,
            cpu_request=spec.requests.cpu,
            cpu_limit=spec.limits.cpu,
            memory_request=spec.requests.memory,
            memory_limit=spec.limits.memory,
            slo_p99=spec.slo.p99,
            latency=SOURCE if spec.service is not None else None,
            grace=spec.grace,
            exclusive_cpus=self.own_cpus,
        )

    def end(self, now: float) -> None:
        """Be gone, and come back when it is to."""
        self.workload = None
        self.ends = None
        back = self.spec.comes_back
        self.begins = None if back is None or self.marked else now + back
        self.demand = self.want = self.usage = 0.0
        self.rss = 0

    def set_quota(self, cores: float) -> None:
        """Give its group another CPU limit."""
        self.quota = cores
        self.cap = min(cores, float(self.spec.cpus or math.inf))
        self.until = 0

    def follow(self, tick: int) -> None:
        """Take the demand of this tick."""
        self.demand, self.until = self.curve.at(tick)
        self.want = min(self.demand, self.cap)

    def ask(self) -> float:
        """Return what it wants in this tick, in cores."""
        return self.want

    def serve(self, given: float) -> None:
        """Use what it is given in this tick, in cores."""
        self.use(given, TICK)

    @property
    def runnable(self) -> float:
        """How many of its threads run or wait for a CPU, on average."""
        return self.demand if self.quota >= self.demand else self.given or self.want

    @property
    def is_calm(self) -> bool:
        """Whether it wants the same in each tick, but for a deviation of `spread` core-seconds, and gets it where there is room."""
        return True

    def serve_second(self) -> float:
        """Use what it wants for a whole second; return that, in cores."""
        self.use(self.want, 1.0)
        return self.want

    def use(self, given: float, seconds: float) -> None:
        """Count a time at `given` cores."""
        threads = self.demand
        if threads <= 0:
            return
        self.usage += given * seconds
        if self.quota < math.inf:
            self.periods += round(seconds / TICK)
            if self.quota < threads and given >= self.quota * _FULL:
                self.throttled += round(seconds / TICK)
        if given < threads * _FULL:
            self.stalled += seconds * self._stall(given, threads)

    def _stall(self, given: float, threads: float) -> float:
        """Return the share of the time in which at least one of its threads waits."""
        if threads > self.width:
            return 1.0
        if given >= self.quota * _FULL:
            return 1 - given / threads  # a quota stops all of them at the same time
        return float(1 - (given / threads) ** max(1.0, threads))  # other groups keep each of them waiting by itself


class Batch(Branch):
    """The group of all BE. What its pods get of a tick is added up and divided among them once a second, or when one comes or goes."""

    def __init__(self, weight: float) -> None:
        super().__init__(weight, math.inf)
        self.quota = math.inf
        self.cpus = math.inf  # how many it may use
        self.idle = False
        self.until = 0
        self.threads = 0.0  # runnable, if nothing held them
        self.used = 0.0  # core-seconds since its beginning
        self.pods: list[SimulatedPod] = []
        self._seconds = 0.0  # not yet divided
        self._core_seconds = 0.0

    def hold(self, quota: float, cpus: float) -> None:
        """Limit all together, in cores and in CPUs."""
        self.quota, self.cpus = quota, cpus
        self.cap = min(quota, cpus)
        self.until = 0

    def make_idle(self) -> None:
        """Put cpu.idle on it: weaker than any weight, and whoever wakes takes its CPU at once."""
        self.idle = True
        self.weight = IDLE_WEIGHT

    def adopt(self, pods: Iterable[SimulatedPod]) -> None:
        """Take those that are here now."""
        self.settle()
        self.pods = list(pods)
        self.children = list(self.pods)
        self.until = 0

    def follow(self, tick: int) -> None:
        """Take the demand of this tick. What has been used so far is divided by what was wanted so far."""
        self.settle()
        for pod in self.pods:
            if tick >= pod.until:
                pod.follow(tick)
        self.until = min((pod.until for pod in self.pods), default=1 << 60)
        self.threads = sum(pod.want for pod in self.pods)
        self.want = min(self.cap, self.threads)

    def gather(self) -> float:
        return self.want

    def hand_out(self, amount: float) -> None:
        self.given = amount

    def runnable(self, cpus: float) -> float:
        """Return how many threads run or wait for a CPU, on average: held by a quota, all of them for a part of each period."""
        if self.quota >= self.threads:
            return self.threads
        return self.threads * min(1.0, self.want / min(self.threads, cpus))

    def consume(self, given: float, seconds: float) -> None:
        """Count a time at `given` cores."""
        self._core_seconds += given * seconds
        self._seconds += seconds

    def settle(self) -> None:
        """Divide what was used among the pods."""
        if self._seconds <= 0:
            return
        mean = min(self._core_seconds / self._seconds, self.threads)
        super().hand_out(mean)
        for pod in self.pods:
            pod.use(pod.given, self._seconds)
        self.used += self._core_seconds
        self._seconds = self._core_seconds = 0.0
