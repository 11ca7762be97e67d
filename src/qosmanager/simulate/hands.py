"""The model behind the acting side: plans are done on the simulated node at once (engine/cycle.py, `Hands`)."""

from __future__ import annotations

import math

from qosmanager.model.actions import (
    Action,
    Evict,
    Plan,
    Receipt,
    RestoreBeCpuLimit,
    RestoreBeCpuset,
    RestoreCpuLimit,
    Result,
    SetBeCpuLimit,
    SetBeCpuset,
    SetCpuLimit,
)
from qosmanager.model.qos import Mode
from qosmanager.model.snapshot import Snapshot
from qosmanager.model.workload import Placement
from qosmanager.simulate.node import SimulatedNode
from qosmanager.simulate.pods import SimulatedPod


class SimulatedHands:
    """`be_limit` and `be_cpus` are what BE is held at: cores (infinity: no limit) and CPUs (None: all)."""

    def __init__(self, node: SimulatedNode) -> None:
        self._node = node
        self._victims: dict[str, str] = {}  # key -> uid
        self.be_limit = math.inf
        self.be_cpus: str | None = None

    @property
    def holds_batch(self) -> bool:
        """Whether BE is held at all."""
        return self.be_limit < math.inf or self.be_cpus is not None

    def unsettled(self) -> frozenset[str]:
        """Nobody: what is asked to end does so by itself."""
        return frozenset()

    def apply(self, plan: Plan, placement: Placement, snapshot: Snapshot, now: float) -> tuple[Receipt, ...]:
        """Do a plan. `placement`, `snapshot` and `now` say nothing that the node does not know."""
        del placement, snapshot, now
        node = self._node
        node.weigh_batch(smallest=plan.standing.be_weight, idle=plan.standing.be_idle)
        if plan.standing.oom_score_adj is not None:
            node.memory.be_score = plan.standing.oom_score_adj
        receipts = [self._do(index, action) for index, action in enumerate(plan.actions)]
        return (*receipts, *self._ended())

    def _do(self, index: int, action: Action) -> Receipt:
        pod = None if isinstance(action, SetBeCpuLimit | RestoreBeCpuLimit | SetBeCpuset | RestoreBeCpuset) else action.pod
        if action.mode is not Mode.ENFORCE:
            return Receipt(target=pod or "BE", result=Result.RECORDED, action=index, pod=pod, detail=action.mode.value)
        result = Result.APPLIED
        match action:
            case SetBeCpuLimit():
                self._hold(action.cores, self.be_cpus)
            case RestoreBeCpuLimit():
                self._hold(math.inf, self.be_cpus)
            case SetBeCpuset():
                self._hold(self.be_limit, action.cpus)
            case RestoreBeCpuset():
                self._hold(self.be_limit, None)
            case SetCpuLimit() | RestoreCpuLimit() | Evict():
                result = self._act_on(action, self._node.pods[action.pod])
        return Receipt(target=pod or "BE", result=result, action=index, pod=pod)

    def _hold(self, cores: float, cpus: str | None) -> None:
        self.be_limit, self.be_cpus = cores, cpus
        self._node.hold_batch(cores, cpus)

    def _act_on(self, action: SetCpuLimit | RestoreCpuLimit | Evict, pod: SimulatedPod) -> Result:
        if pod.workload is None:
            return Result.GONE
        if isinstance(action, Evict):
            self._victims[pod.key] = pod.workload.uid
            self._node.end(pod, math.inf if action.grace is None else action.grace, marked=action.leaking)
        else:
            self._node.limit(pod, action.cores)
        return Result.APPLIED

    def _ended(self) -> list[Receipt]:
        """Return a receipt for each victim that is gone now."""
        gone = [
            key for key, uid in sorted(self._victims.items()) if (workload := self._node.pods[key].workload) is None or workload.uid != uid
        ]
        return [Receipt(target=key, result=Result.GONE, pod=key, detail="no process is left", uid=self._victims.pop(key)) for key in gone]
