"""Memory of the model: what pods hold, page cache, reclaim, and the kernel's OOM killer (docs/simulate.md).

In: the pods that are here, once a second. Out: counters as the kernel keeps them, and whom it killed.
"""

from __future__ import annotations

from collections.abc import Sequence

from qosmanager.model.qos import QoS
from qosmanager.simulate.pods import SimulatedPod
from qosmanager.simulate.scenario import Machine, MemoryDemand

_PAGE = 4096
_LOW = 0.02  # of the node's memory: under this the kernel's own reclaim is behind, and tasks reclaim for themselves
_WORST_STALL = 0.9
_UNDER_RECLAIM = 3.0  # times as long that a request takes when all tasks stall
_SMOOTHED = 1 - 0.9048374180359595  # exp(-1 / 10): avg10 moves by this each second
_KUBERNETES_BE = 1000  # oom_score_adj that kubelet gives BestEffort pods
_SCORE = 1000


class Memory:
    """`stall`: share of the last second in which all tasks waited for memory; `average`: its avg10. Amounts in bytes, scans in pages."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.be_score = 0  # oom_score_adj of BE
        self.available = machine.memory
        self.cache = 0
        self.swap_used = 0
        self.direct = 0.0
        self.kswapd = 0.0
        self.stall = self.average = 0.0
        self.stalled = 0.0  # seconds

    def second(self, pods: Sequence[SimulatedPod], now: float) -> list[SimulatedPod]:
        """Pass one second; return whom the kernel killed: first who is above its own limit, then whom the node has no memory for."""
        machine = self._machine
        killed: list[SimulatedPod] = []
        for pod in pods:
            if pod.spec.memory.moves:
                pod.rss = held(pod.spec.memory, now - pod.held_from)
            if pod.rss > pod.most_memory:
                killed.append(pod)
        living = [pod for pod in pods if pod not in killed] if killed else list(pods)
        wanted = machine.system_memory + sum(pod.rss for pod in living)
        while living and wanted > machine.memory + machine.swap:
            victim = max(living, key=lambda pod: (self._badness(pod), pod.key))
            living.remove(victim)
            killed.append(victim)
            wanted -= victim.rss
        self._account(wanted, sum(pod.spec.memory.cache for pod in living))
        return killed

    def _account(self, wanted: int, cache_wanted: int) -> None:
        machine = self._machine
        self.swap_used = min(machine.swap, max(0, wanted - round(machine.memory * (1 - _LOW))))
        free = machine.memory - (wanted - self.swap_used)
        # What files are read into wants the room that is left; what does not fit is scanned, and dropped, over and over.
        fits = max(0, free - round(_LOW * machine.memory))
        short = max(0, cache_wanted - fits)
        self.cache = min(cache_wanted, fits)
        self.available = max(0, free - round(_LOW / 2 * machine.memory))
        self.kswapd += min(short, 256 << 20) / _PAGE
        lacking = max(0.0, 1 - free / (_LOW * machine.memory))
        self.direct += lacking * (256 << 20) / _PAGE
        self.stall = _WORST_STALL * min(1.0, lacking)
        self.stalled += self.stall
        self.average += (self.stall * 100 - self.average) * _SMOOTHED

    @property
    def inflation(self) -> float:
        """How many times as long a request takes now."""
        return 1 + (_UNDER_RECLAIM - 1) * self.stall

    def _badness(self, pod: SimulatedPod) -> float:
        score = self.be_score if pod.spec.qos is QoS.BE else -997 if pod.spec.qos is QoS.SYSTEM else 0
        return pod.rss / self._machine.memory * _SCORE + score


def held(demand: MemoryDemand, age: float) -> int:
    """Return the bytes that a pod of this age (seconds, since it began to hold memory) holds."""
    grown = demand.start + demand.growth * max(0.0, age) / 3600
    if demand.peak is None:
        return round(grown)
    return round(grown + (demand.peak - demand.start) * (age % demand.every) / demand.every)
