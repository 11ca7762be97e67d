"""The disk of the model: one queue of bytes (docs/simulate.md). What waits for it longer than the queue is deep is asked later."""

from __future__ import annotations

from collections.abc import Sequence

from qosmanager.simulate.pods import SimulatedPod
from qosmanager.simulate.scenario import IoDemand, Machine

_DEEPEST = 0.5  # seconds of work that the queue holds
_SMOOTHED = 1 - 0.9048374180359595  # exp(-1 / 10)


class Disk:
    """`busy` seconds since the beginning; `delay`: seconds that a request waits for it now; `stall`: share of the last second in which
    some task waited; `average`: its avg10, percent."""

    def __init__(self, machine: Machine) -> None:
        self._rate = machine.disk
        self._queue = 0.0  # bytes
        self.busy = 0.0
        self.delay = 0.0
        self.stall = self.average = 0.0
        self.stalled = 0.0

    def second(self, pods: Sequence[SimulatedPod], now: float) -> None:
        """Pass one second."""
        asked = sum(wanted(pod.spec.io, now) for pod in pods if pod.spec.io.rate)
        before = self._queue
        waiting = before + asked
        done = min(waiting, self._rate)
        self._queue = min(waiting - done, _DEEPEST * self._rate)
        self.busy += done / self._rate
        self.delay = (before + self._queue) / 2 / self._rate
        # Even without a queue some task waits while what it asked for is read.
        self.stall = 1.0 if self._queue > 0 else done / self._rate / 2
        self.stalled += self.stall
        self.average += (self.stall * 100 - self.average) * _SMOOTHED


def wanted(demand: IoDemand, now: float) -> float:
    """Return the bytes that a pod asks for in this second."""
    if now < demand.begin or (demand.length is not None and now >= demand.begin + demand.length):
        return 0.0
    return float(demand.rate)
