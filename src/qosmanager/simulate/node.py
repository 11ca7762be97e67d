"""The node of the model: CPU divided tick by tick as the kernel does it; memory, disk and load once a second (docs/simulate.md).

In: a scenario and a seed. Out: counters as a kernel keeps them. What acts on it: `limit`, `hold_batch`, `weigh_batch`, `end`.
"""

from __future__ import annotations

import math

from qosmanager.model.cpu_list import parse_cpus
from qosmanager.model.qos import QoS
from qosmanager.simulate.curve import TICK
from qosmanager.simulate.disk import Disk
from qosmanager.simulate.groups import SHARES, Groups
from qosmanager.simulate.load import Loaded
from qosmanager.simulate.memory import Memory
from qosmanager.simulate.pods import SMALLEST_WEIGHT, SimulatedPod
from qosmanager.simulate.scenario import Does, Event, Layout
from qosmanager.simulate.service import FAR, ServicePod

SECOND = round(1 / TICK)  # ticks
_LOAD = 1 - math.exp(-1 / 60)
_AVERAGE = 1 - math.exp(-1 / 10)
_KUBELET_SCORE = 1000  # oom_score_adj that kubelet gives BestEffort pods
_RESTART = 1.0  # seconds until a pod that the kernel killed begins again

Happening = tuple[str, str]
"""What happened ("came", "ended", "oom-killed") and to which pod (its key)."""


class SimulatedNode:
    """`tick` counts from 0, `now` is its time in seconds. `busy`: core-seconds used since the beginning; `stalled`:
    seconds in which a task waited for a CPU, `stall_average` its avg10 in percent."""

    def __init__(self, loaded: Loaded, seed: int, epoch: float) -> None:
        """`epoch`: wall time of tick 0."""
        scenario = loaded.scenario
        self.machine = scenario.node
        self.cpus = scenario.node.cpus
        self.tick = 0
        self.now = 0.0
        self.busy = self.load = self.stalled = self.stall_average = 0.0
        self.given_up = 0.0  # requests since the beginning
        self.generation = 0  # changes when a pod comes or goes
        self.memory, self.disk = Memory(scenario.node), Disk(scenario.node)
        self.groups = Groups(scenario.node, seed)
        self.batch = self.groups.batch
        self.pods = self.groups.make(loaded, seed)
        self.here: list[SimulatedPod] = []
        self.services: list[ServicePod] = []
        self.happenings: list[Happening] = []
        self._epoch = epoch
        self._kubernetes = scenario.node.layout is Layout.KUBERNETES
        self.memory.be_score = _KUBELET_SCORE if self._kubernetes else 0
        self._events = sorted(scenario.events, key=lambda event: event.at)
        self._slow: list[tuple[float, Event]] = []
        self._running: list[SimulatedPod] = []
        self._daemons: list[SimulatedPod] = []  # SYSTEM pods
        self._born = 0
        self._due = 0
        self._stalled_before = self._system_ended = 0.0
        self.groups.system.begin(0.0, epoch, "", 0.0)
        self._attend()
        self._pass_second()

    @property
    def ls_used(self) -> float:
        """Core-seconds that LS pods have used."""
        system = self._system_ended + self.groups.system.usage
        system += sum(pod.usage for pod in self._daemons)
        return self.busy - self.batch.used - system

    # -- what acts on it ---------------------------------------------------------------------------------------------------------

    def limit(self, pod: SimulatedPod, cores: float) -> None:
        """Give a pod's group another CPU limit."""
        pod.set_quota(cores)
        self.batch.until = 0

    def hold_batch(self, cores: float, cpus: str | None) -> None:
        """Hold all BE at a quota (infinity: none) and on some CPUs (None: all)."""
        self.batch.hold(cores, self.cpus if cpus is None else float(len(parse_cpus(cpus))))

    def weigh_batch(self, *, smallest: bool, idle: bool = False) -> None:
        """Give the BE group the smallest weight, or make it idle, or give its own back. kubelet's has the smallest and keeps it."""
        if idle and not self._kubernetes:
            if not self.batch.idle:
                self.batch.make_idle()
                self.groups.weigh()
            return
        self.batch.idle = False
        weight = SMALLEST_WEIGHT if smallest or self._kubernetes else SHARES
        if weight != self.batch.weight:
            self.batch.weight = weight
            self.groups.weigh()

    def end(self, pod: SimulatedPod, grace: float, *, marked: bool) -> None:
        """Ask a pod to end; it is gone after the time it takes, at most `grace` seconds. `marked`: it does not come back."""
        pod.marked = marked
        if pod.ends is None:
            pod.ends = self.now + min(pod.spec.ending, grace, pod.spec.grace)
            self._due = min(self._due, self._tick_of(pod.ends))

    # -- time --------------------------------------------------------------------------------------------------------------------

    def advance(self, ticks: int) -> None:
        """Let time pass."""
        self.happenings.clear()
        end = self.tick + ticks
        while self.tick < end:
            if self.tick % SECOND == 0 and self.tick + SECOND <= end and self._is_calm():
                self._pass_calm_second()
                self.tick += SECOND
            else:
                self._pass_tick()
                self.tick += 1
            self.now = self.tick * TICK
            if self.tick >= self._due:
                self._attend()  # first: who is gone holds no memory any more
            if self.tick % SECOND == 0:
                self._pass_second()
        self.batch.settle()

    def _pass_tick(self) -> None:
        tick, batch, running = self.tick, self.batch, self._running
        if tick >= batch.until:
            batch.follow(tick)
        wanted = 0.0
        for pod in running:
            if tick >= pod.until:
                pod.follow(tick)
            wanted += pod.ask()
        if wanted + batch.want <= self.cpus:
            used = wanted + batch.want
            for pod in running:
                pod.serve(pod.want)
            batch.consume(batch.want, TICK)
            given = batch.want
        else:
            used = self.cpus
            self.groups.share_out()
            for pod in running:
                pod.serve(pod.given)
            given = batch.given
            batch.consume(given, TICK)
            self.stalled += TICK
        self.busy += used * TICK
        if self.groups.is_rival and batch.threads + wanted > self.cpus:
            # Without a limit BE runs all the time; with one, at the beginning of each period on all CPUs it can get.
            share = given / min(batch.threads, self.cpus) if batch.quota < batch.threads and given >= batch.quota * 0.999 else 1.0
            for service in self.services:
                service.compete(self.groups.late(service) * min(1.0, share))

    def _is_calm(self) -> bool:
        """Tell whether the next second's ticks can be taken together: nothing changes in it, and no chance fills a queue or the node."""
        tick, end, batch = self.tick, self.tick + SECOND, self.batch
        if self._due < end or self.groups.is_rival:
            return False
        if tick >= batch.until:
            batch.follow(tick)
        wanted, variance = batch.want, 0.0
        for pod in self._running:
            if tick >= pod.until:
                pod.follow(tick)
            if pod.until < end or not pod.is_calm:
                return False
            wanted += min(pod.demand, pod.cap)
            variance += pod.spread * pod.spread
        return batch.until >= end and wanted + FAR * math.sqrt(variance) / TICK <= self.cpus

    def _pass_calm_second(self) -> None:
        used = self.batch.want
        for pod in self._running:
            used += pod.serve_second()
        self.batch.consume(self.batch.want, 1.0)
        self.busy += used

    def _pass_second(self) -> None:
        """Pass what is looked at once a second: latencies, memory, the disk, the load."""
        now, disk, memory = self.now, self.disk, self.memory
        self._slow = [(until, event) for until, event in self._slow if until > now - 1]
        for service in self.services:
            service.elsewhere = disk.delay if service.service.io else 0.0
            if self._slow:
                service.elsewhere += sum(event.by for _, event in self._slow if event.workload == service.spec.name and event.at < now)
            service.close_second()
            self.given_up += service.given_up
        killed = memory.second(self.here, now)
        disk.second(self.here, now)
        for service in self.services:
            service.inflated = memory.inflation
        runnable = sum(pod.runnable for pod in self._running) + self.batch.runnable(self.cpus)
        self.load += (runnable - self.load) * _LOAD
        self.stall_average += ((self.stalled - self._stalled_before) * 100 - self.stall_average) * _AVERAGE
        self._stalled_before = self.stalled
        for pod in killed:
            self._kill(pod)

    # -- who is here -------------------------------------------------------------------------------------------------------------

    def _kill(self, pod: SimulatedPod) -> None:
        """The kernel kills a pod; it begins again when its kind comes back, a service in any case (its process is started anew)."""
        self.happenings.append(("oom-killed", pod.key))
        self._remove(pod)
        if pod.begins is None and pod.spec.qos is not QoS.BE:
            pod.begins = self.now + _RESTART
        self._due = self.tick

    def _attend(self) -> None:
        """Let those end and come whose time it is, and what is to happen now."""
        now = self.now + TICK / 2
        while self._events and self._events[0].at <= now:
            self._happen(self._events.pop(0))
        for pod in self.pods.values():
            if pod.ends is not None and pod.ends <= now:
                self.happenings.append(("ended", pod.key))
                self._remove(pod)
            if pod.begins is not None and pod.begins <= now:
                self._begin(pod)
        moments = [event.at for event in self._events[:1]]
        moments += [moment for pod in self.pods.values() for moment in (pod.ends, pod.begins) if moment is not None]
        self._due = min((self._tick_of(moment) for moment in moments), default=1 << 60)
        self._regroup()

    def _happen(self, event: Event) -> None:
        if event.do is Does.SLOW:
            self._slow.append((event.at + event.during, event))
            return
        for pod in self.pods.values():
            if pod.spec.name != event.workload:
                continue
            if event.do is Does.START and pod.workload is None:
                pod.begins = event.at
            elif event.do is Does.STOP:
                pod.begins = None
                if pod.workload is not None:
                    self.end(pod, math.inf, marked=True)

    def _begin(self, pod: SimulatedPod) -> None:
        if self.tick > 0:
            self.happenings.append(("came", pod.key))
        self._born += 1
        age = pod.spec.age if self.tick == 0 else 0.0
        pod.begin(self.now, self._epoch + self.now, f"{pod.name}-{self._born}", age)

    def _remove(self, pod: SimulatedPod) -> None:
        self.batch.settle()
        if pod.spec.qos is QoS.SYSTEM:
            self._system_ended += pod.usage
        pod.end(self.now)

    def _regroup(self) -> None:
        self.here = [pod for pod in self.pods.values() if pod.workload is not None]
        self.services = [pod for pod in self.here if isinstance(pod, ServicePod)]
        self._running = [self.groups.system, *(pod for pod in self.here if pod.spec.qos is not QoS.BE)]
        self._daemons = [pod for pod in self.here if pod.spec.qos is QoS.SYSTEM]
        self.groups.arrange(self.here)
        self.generation += 1

    @staticmethod
    def _tick_of(moment: float) -> int:
        return math.ceil(moment / TICK - 1e-6)
