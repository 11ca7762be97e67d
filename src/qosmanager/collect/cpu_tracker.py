"""A pod's CPU: usage, 5-minute mean, waiting, throttling and its own limit (specification, section 3)."""

from __future__ import annotations

import math
from typing import NamedTuple

from qosmanager.collect.conditions import Conditions, Missing, OwnLimit, Pace, why
from qosmanager.collect.metric_cache import PodHistory
from qosmanager.collect.rates import ABSURD, FIRST, GAP, LEAST, MOST_CORES, RESET, ThrottleWindow, Trail
from qosmanager.collect.readings import GroupGoneError, GroupReader, GroupReaders
from qosmanager.model.qos import is_latency_sensitive
from qosmanager.model.snapshot import PodCpu
from qosmanager.model.workload import Workload

MEAN = 300.0
STALL = 2.0  # seconds between two questions to a group that has told no pressure
SAME_LIMIT = 0.01  # the kernel keeps microseconds: a declared limit this close to its own is the same one, told exactly


class Over(NamedTuple):
    """What time a rate is taken over, in seconds: at least `least` where the cycles are shorter, never across more than `gap`."""

    least: float
    gap: float


class ContainerTracker:
    """A container's throttling, read only while the container has a limit."""

    __slots__ = ("_reader", "_window", "cgroup", "limit", "throttled")

    def __init__(self, cgroup: str, readers: GroupReaders) -> None:
        self.cgroup = cgroup
        self.limit: float | None = None
        self.throttled: float | None = None
        self._reader = readers.open(cgroup)
        self._window = ThrottleWindow()

    def read_limit(self, own_limit: OwnLimit) -> None:
        """Look at the limit. Raises GroupGoneError."""
        own = own_limit(self.cgroup)
        try:
            limit = self._reader.quota() if own is None else own
        except (OSError, ValueError):
            limit = math.inf
        self.limit = limit if limit < math.inf else None

    def look(self, now: float, gap: float) -> None:
        """Measure `throttled`, the ratio of throttled periods (None: not known). Raises GroupGoneError."""
        self.throttled = None
        if self.limit is None:
            return
        try:
            self.throttled = self._window.add(now, *self._reader.throttling(), gap)
        except (OSError, ValueError):
            self.limit = None  # looked at again with the next limits

    def close(self) -> None:
        self._reader.close()


class CpuTracker:
    """Keeps one pod's CPU counters between cycles. `lost_container`: a container has ended and the pod must be looked at anew."""

    def __init__(self, workload: Workload, reader: GroupReader, readers: GroupReaders, history: PodHistory, missing: Missing) -> None:
        """`reader`: the pod's own group, closed by its owner; `readers` opens the containers."""
        self.lost_container = False
        self._readers = readers
        self._history = history
        self._missing = missing
        self._reader = reader
        self._containers: list[ContainerTracker] = []
        self._used: Trail[float] = Trail()  # CPU time
        self._stalled: Trail[float] = Trail()
        self._stall_pace = Pace(STALL, 1.0)
        self._waiting: float | None = None
        self._window = ThrottleWindow()
        self._over = Over(LEAST, 0.0)
        self._complete = False  # nothing was missing of the last usage
        self._limit: float | None = None
        self._raised = False
        self.stall_average: float | None = None  # avg10 of the last reading, percent
        self._mean: float | None = None
        self.adopt(workload)

    def adopt(self, workload: Workload) -> None:
        """Take a changed declaration of the same group: counters go on, containers come and go."""
        self._workload = workload
        # Only an LS pod's waiting and throttling call for an answer: of the others, containers are left alone and waiting is looked at
        # with the limits.
        self._hurried = is_latency_sensitive(workload.qos)
        self.lost_container = False
        known = {container.cgroup: container for container in self._containers}
        wanted = [container.cgroup for container in workload.containers] if self._hurried else []
        for cgroup in known.keys() - set(wanted):
            known[cgroup].close()
        self._containers = [known.get(cgroup) or ContainerTracker(cgroup, self._readers) for cgroup in wanted]
        self._missing.note("cpu.request", "" if workload.cpu_request is not None else "none declared")

    def sample(self, conditions: Conditions, throttled: dict[str, float], *, now: float, dear: bool) -> PodCpu:
        """Measure at `now`, limits only when `dear` (each 10 s); containers' ratios go into `throttled` by group. Raises GroupGoneError."""
        over = self._look_back(conditions)
        usage, ratio = self._usage(now, over)
        if dear or self._hurried:
            self._waiting = self._wait(now, over, usage, dear)
        for container in self._containers:
            try:
                if dear:
                    container.read_limit(conditions.own_limit)
                container.look(now, conditions.gap)
            except GroupGoneError:
                self.lost_container = True
                continue
            if container.throttled is not None:
                throttled[container.cgroup] = container.throttled
                ratio = container.throttled if ratio is None else max(ratio, container.throttled)
        if dear or self._hurried or self._raised:
            self._read_limit(conditions.own_limit, dear)
        if usage is not None and not conditions.early:
            self._history.usage.add(now, usage)
        if dear or self._mean is None:
            self._mean = self._history.usage.mean(now - MEAN)
            self._missing.note("cpu.usage_mean", "" if self._mean is not None else FIRST)
        return PodCpu(
            request=self._workload.cpu_request,
            limit=self._limit,
            usage=usage,
            usage_mean=self._mean,
            wait=self._waiting,
            throttled=ratio,
        )

    def _look_back(self, conditions: Conditions) -> Over:
        """Say what time this cycle's rates are taken over. For a pod that made it come early that is the last moment, whose beginning was
        read between two cycles; of all others so short a time would be noise."""
        if conditions.gap != self._over.gap:
            self._over = Over(LEAST, conditions.gap)
        earlier = conditions.hurried.get(self._workload.key) if conditions.hurried else None
        if earlier is None:
            return self._over
        then = conditions.hurried_at - earlier.age
        for trail, counter in ((self._used, earlier.used), (self._stalled, earlier.stalled)):
            newest = trail.newest
            if counter is not None and newest is not None and newest[0] < then and newest[1] <= counter:
                trail.add(then, counter)
        return Over(0.0, conditions.gap)

    def _usage(self, now: float, over: Over) -> tuple[float | None, float | None]:
        """Return usage in cores and the throttled ratio of the pod's own group."""
        try:
            counters = self._reader.cpu()
        except (OSError, ValueError) as error:
            self._used.clear()
            self._complete = False
            self._missing.note("cpu.usage", why(error))
            self._missing.note("cpu.throttled", why(error))
            return None, None
        usage, reason = _rate(self._used, now, counters.usage, over)
        if usage is not None and usage > MOST_CORES:
            usage, reason = None, ABSURD
        if counters.periods is None or counters.throttled is None:
            ratio, unknown = None, "the group has no cpu controller"
        else:
            ratio = self._window.add(now, counters.periods, counters.throttled, over.gap)
            unknown = "" if ratio is not None else FIRST
        complete = usage is not None and ratio is not None
        if not (complete and self._complete):
            self._complete = complete
            self._missing.note("cpu.usage", reason)
            self._missing.note("cpu.throttled", unknown)
        return usage, ratio

    def _wait(self, now: float, over: Over, usage: float | None, dear: bool) -> float | None:
        """Return the CPU that the pod waits for, in cores: its own group's stall rate x its usage."""
        if self._stalled.newest is None and not dear and not self._stall_pace.due(now):
            return None  # a group without pressure is asked again only now and then
        try:
            stall = self._reader.cpu_stall()
        except (OSError, ValueError) as error:
            self._stalled.clear()
            self.stall_average = None
            self._missing.note("cpu.wait", why(error))
            self._missing.note("observed.cpu_psi_some", why(error))
            return None
        self.stall_average = stall.avg10
        stalled, reason = _rate(self._stalled, now, stall.total, over)
        if stalled is not None and usage is None:
            reason = "the pod's usage is not known"
        self._missing.note("cpu.wait", reason)
        return None if stalled is None or usage is None else min(1.0, stalled) * usage

    def _read_limit(self, own_limit: OwnLimit, dear: bool) -> None:
        """Find the pod's own limit: what the kernel holds, or held before our burst."""
        own = own_limit(self._workload.cgroup)
        if own is not None:
            self._raised = True
        elif dear or self._raised:
            # Also right after a burst: a quota read while it lasted was ours.
            try:
                own = self._reader.quota()
            except (OSError, ValueError) as error:
                self._limit = self._workload.cpu_limit
                self._missing.note("cpu.limit", "" if self._limit is not None else why(error))
                return
            self._raised = False
        else:
            return
        declared = self._workload.cpu_limit
        if own == math.inf:
            together = self._containers_together()
            self._limit = together
            unlimited = "no limit" if declared is None else "a limit is declared, but the kernel holds none for this group"
            self._missing.note("cpu.limit", "" if together is not None else unlimited)
            return
        self._limit = declared if declared is not None and abs(declared - own) <= SAME_LIMIT * own else own
        self._missing.note("cpu.limit", "")

    def _containers_together(self) -> float | None:
        """Return the containers' limits summed, for a pod whose own group has none; one without a limit makes the pod unlimited."""
        limits = [container.limit for container in self._containers if container.limit is not None]
        return sum(limits) if limits and len(limits) == len(self._containers) else None

    def close(self) -> None:
        """Let the containers' descriptors go."""
        for container in self._containers:
            container.close()


def _rate(trail: Trail[float], now: float, counter: float, over: Over) -> tuple[float | None, str]:
    """Keep a counter, and return its rise per second, or None and why there is none."""
    newest = trail.newest
    if newest is None:
        trail.add(now, counter)
        return None, FIRST
    elapsed = now - newest[0]
    begin = newest if elapsed >= over.least else trail.begin(now, over.least) or newest
    if counter < newest[1] or elapsed > over.gap:
        trail.clear()
    trail.add(now, counter)
    if not 0 < elapsed <= over.gap:
        return None, GAP
    return (None, RESET) if counter < newest[1] else ((counter - begin[1]) / (now - begin[0]), "")
