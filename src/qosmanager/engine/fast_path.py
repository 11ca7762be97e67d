"""Cycles before their turn (specification, section 2: fast path): when they may come, what they may cost, and why there are none.

In: each finished cycle, and the alarm. Out: the wait until the next cycle, which ends early with the reason when one is to run at once.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Mapping
from queue import Empty, SimpleQueue

from msgspec import Struct
from msgspec.structs import replace

from qosmanager.assess.oom_risk import oom_floor
from qosmanager.config.settings import Settings
from qosmanager.decide.facts import never_evicted
from qosmanager.model.actions import Evict, Result
from qosmanager.model.census import is_above
from qosmanager.model.fast_path import FastPathUse
from qosmanager.model.qos import Mode, Plugin, QoS, is_latency_sensitive
from qosmanager.model.record import CycleRecord
from qosmanager.model.snapshot import Pod
from qosmanager.model.workload import Placement
from qosmanager.ports import Alarm, AlarmCost, CannotListenError, Clock, Earlier, Jump, MemoryGuard

APART = 0.05  # seconds between a cycle before its turn and the one before or after it: a rate over less says nothing
SHORTEST_PERIOD = 0.5  # seconds; with a shorter one there is no time to gain
SHARE = 0.003  # of one core that such cycles may take on average, and
SAVED = 0.2  # seconds of CPU that they may take at once
AMPLE = 0.5  # of the node's memory available: that much does not go in a second, unless it is less than
TAKEN = 8 << 30  # bytes; one process was seen to take 4.5 GB in a second


class Silence:
    """An alarm where there is nothing to listen to: only a clock, and whoever wakes it."""

    def __init__(self) -> None:
        # A signal may come while this thread itself waits: an Event would then wait for its own lock for ever, this queue is reentrant.
        self._wake: SimpleQueue[None] = SimpleQueue()

    def watch(self, groups: Collection[str], interval: float) -> str:
        del interval
        if groups:
            raise CannotListenError("nothing listens here")
        return ""

    def guard(self, memory: MemoryGuard | None, interval: float) -> None:
        """Nothing looks here."""

    def wait(self, seconds: float) -> None:
        try:
            self._wake.get(timeout=seconds)
        except Empty:
            return

    def wake(self) -> None:
        self._wake.put(None)

    def cost(self) -> AlarmCost:
        return AlarmCost()

    def cpu_seconds(self) -> float:
        return 0.0


class Ways(Struct, frozen=True):
    """What the fast path reaches: the alarm; where the pods lie; and who is told that the next cycle comes for some pods' sake."""

    alarm: Alarm
    placement: Callable[[], Placement]
    hurry: Callable[[Mapping[str, Earlier]], None]


class FastPath:
    """One runner's. `use` may be read, and `wake` called, from any thread."""

    def __init__(self, ways: Ways, clock: Clock, unsettled: Callable[[], Collection[str]]) -> None:
        """`unsettled`: keys of victims that would perhaps not go without this agent."""
        self._ways = ways
        self._clock = clock
        self._unsettled = unsettled
        self._settings = Settings()
        self._last = -math.inf  # when the last cycle began
        self._early: deque[float] = deque()  # when those before their turn did, in the last second
        self._saved = SAVED
        self._saved_at = 0.0
        self._graces: list[tuple[float, str]] = []  # when a grace period is over that was not when the last cycle began, and whose
        self._spent_before: float | None = None  # CPU seconds of the thread when the cycle that runs was begun before its turn
        self.use = FastPathUse(reason="no cycle has finished yet")

    def after(self, record: CycleRecord, settings: Settings) -> None:
        """Take in a finished cycle, and listen to the services that it has seen, or to none."""
        self._settings = settings
        self._settle()
        self._follow_grace(record)
        how, deaf, why_not = "", "", _why_not(record, settings)
        try:
            how = self._ways.alarm.watch({} if why_not else self._services(), settings.fast_path.interval)
        except (CannotListenError, OSError) as error:
            why_not = deaf = str(error)
        self._ways.alarm.guard(_memory_guard(record, settings), settings.fast_path.interval)
        cost = self._ways.alarm.cost()
        self._tell(on=not why_not, reason=why_not, how=how, deaf=deaf, reads=cost.reads, read_seconds=cost.seconds)

    def _services(self) -> dict[str, str]:
        return {key: each.cgroup for key, each in self._ways.placement().workloads.items() if is_latency_sensitive(each.qos)}

    def _follow_grace(self, record: CycleRecord) -> None:
        """Keep when the evictions begun are to be gone on with."""
        if not self._settings.fast_path.enabled:
            self._graces = []
            return
        now = self._clock.monotonic()
        begun = {receipt.action for receipt in record.receipts if receipt.result is Result.APPLIED}
        for number, action in enumerate(record.plan.actions):
            if number in begun and isinstance(action, Evict) and action.grace is not None:
                self._graces.append((now + action.grace, action.pod))

    def failed(self) -> None:
        """The last cycle failed: the next one comes in its turn, or when a grace period is over."""
        self._settle()
        self._ways.alarm.watch({}, self._settings.fast_path.interval)
        self._ways.alarm.guard(None, self._settings.fast_path.interval)
        self._tell(on=False, reason="the last cycle failed", how="")

    def began(self) -> None:
        """A cycle begins: it goes on with every eviction whose grace period is over by now."""
        self._last = self._clock.monotonic()
        self._graces = [each for each in self._graces if each[0] > self._last]

    def wake(self) -> None:
        """End a wait at once; from any thread or signal handler."""
        self._ways.alarm.wake()

    def wait(self, until: float) -> Jump | None:
        """Wait until the next cycle is due (monotonic seconds), or return at once why one is to run now."""
        alarm, clock = self._ways.alarm, self._clock
        while (left := until - clock.monotonic()) > 0:
            ends_at = self._grace_ends_at(until)
            jump = alarm.wait(max(0.0, min(left, ends_at - clock.monotonic())))
            now = clock.monotonic()
            if jump is None and now < ends_at:
                return None
            if until - now < APART:
                continue  # the one in its turn will do
            if jump is None:
                jump = self._grace_is_over()
            elif not self._may_run(now, jump):
                jump = None
            if jump is not None:
                self._early.append(now)
                self._spent_before = alarm.cpu_seconds()
                self._ways.hurry(jump.pods)
                self._tell(cycles=self.use.cycles + 1, last=jump.reason)
                return jump
        return None

    def _grace_ends_at(self, until: float) -> float:
        """Return when a cycle is to run because a grace period is over: as soon as one may, and never (infinity) where the one in its turn
        will do."""
        if not self._graces:
            return math.inf
        now = self._clock.monotonic()
        ends_at = max(now, min(self._graces)[0], self._last + APART, self._room_at(now))
        return math.inf if until - ends_at < APART else ends_at

    def _grace_is_over(self) -> Jump | None:
        """Return why a cycle is to run; None: whose it was has gone, or goes without this agent."""
        over = min(self._graces)
        if over[1] in self._unsettled():
            return Jump(pods={}, urgent=True, reason=f"the grace period of {over[1]} is over")
        self._graces.remove(over)
        return None

    def _room_at(self, now: float) -> float:
        """Return when fewer than `maxPerSecond` came before their turn within a second."""
        while self._early and now - self._early[0] >= 1.0:
            self._early.popleft()
        most = self._settings.fast_path.max_per_second
        return now if len(self._early) < most else self._early[-most] + 1.0

    def _may_run(self, now: float, jump: Jump) -> bool:
        if now - self._last < APART:
            return False
        self._saved = min(SAVED, self._saved + SHARE * (now - self._saved_at))
        self._saved_at = now
        if self._room_at(now) <= now and (jump.urgent or self._saved > 0):
            return True
        self._tell(held_back=self.use.held_back + 1)
        return False

    def _settle(self) -> None:
        """Count what a cycle before its turn has cost, with all that was told of it."""
        if self._spent_before is None:
            return
        spent = max(0.0, self._ways.alarm.cpu_seconds() - self._spent_before)
        self._spent_before = None
        # Cycles for memory wait for nothing: what they owe keeps the services' cycles waiting for a minute or so, not for hours.
        self._saved = max(-SAVED, self._saved - spent)
        self._tell(cycle_seconds=self.use.cycle_seconds + spent)

    def _tell(self, **changes: object) -> None:
        self.use = replace(self.use, **changes)


def _memory_guard(record: CycleRecord, settings: Settings) -> MemoryGuard | None:
    """Return the available memory below which MemoryEvict acts at once, where it may and somebody can go; None: nothing to look for."""
    snapshot, node = record.snapshot, record.snapshot.node
    acts = settings.mode(Plugin.MEMORY_EVICT) is Mode.ENFORCE and not snapshot.paused and not record.plan.degraded
    if not acts or not settings.fast_path.enabled or settings.sync_period < SHORTEST_PERIOD:
        return None
    total, available = node.memory_total, node.memory_available
    if not total or available is None:
        return None
    ample = max(AMPLE * total, TAKEN) * max(1.0, settings.sync_period)
    if available > ample or not any(_may_go(pod, settings) for pod in snapshot.pods):
        return None
    return MemoryGuard(max(oom_floor(total), settings.memory_evict.min_available * total), available)


def _may_go(pod: Pod, settings: Settings) -> bool:
    return pod.qos is QoS.BE and not pod.terminating and never_evicted(pod, settings) is None


def _why_not(record: CycleRecord, settings: Settings) -> str:
    """Return why no cycle is to come before its turn, "" when one may."""
    snapshot = record.snapshot
    limit, least = record.state.be_limit, settings.cpu_suppress.min_cores
    if not settings.fast_path.enabled:
        return "fastPath.enabled is false"
    if settings.sync_period < SHORTEST_PERIOD:
        return f"syncPeriod is shorter than {SHORTEST_PERIOD:g} s"
    if snapshot.paused:
        return "the agent is paused"
    if record.plan.degraded:
        return f"degraded: {', '.join(record.plan.degraded)}"
    if settings.mode(Plugin.CPU_SUPPRESS) is Mode.OFF:
        return "CPUSuppress is off"
    if record.own is not None and record.own.thrift:
        return "the agent spares the node while it is over its own budget"
    if not any(is_latency_sensitive(pod.qos) for pod in snapshot.pods):
        return "no service runs here"
    if not any(pod.qos is QoS.BE for pod in snapshot.pods):
        return "no batch runs here"
    if limit is not None and not is_above(limit, least):
        return f"BE is at its floor of {least:g} cores already"
    return ""
