"""Evictor: ends BE pods (specification, section 9).

In: a plan's evictions, and the pods' specifications. Out: a receipt for each action, and later one when the pod is gone or cannot be ended.
A victim counts as freed when it is gone; until then nobody begins with it again. Nothing here blocks the cycle.
"""

from __future__ import annotations

from qosmanager.model.actions import Evict, Plan, Receipt, Result
from qosmanager.model.qos import Mode, QoS
from qosmanager.model.workload import Placement
from qosmanager.ports import Evictions


class Evictor:
    """Begins evictions and follows them to their end."""

    def __init__(self, evictions: Evictions) -> None:
        self._evictions = evictions
        self._under_way: dict[str, str] = {}  # key -> uid

    def apply(self, plan: Plan, placement: Placement, now: float) -> tuple[Receipt, ...]:
        """Begin what the plan asks for; report what has ended since the last call. `now` is monotonic seconds."""
        receipts = self.poll(now)
        for index, action in enumerate(plan.actions):
            if isinstance(action, Evict):
                receipts.append(self._begin(index, action, placement, now))
        return tuple(receipts)

    def unsettled(self) -> frozenset[str]:
        """Keys of pods under way that would perhaps not go if this agent ended now."""
        return self._evictions.unsettled()

    def poll(self, now: float) -> list[Receipt]:
        """Drive evictions under way; one receipt per pod that is gone or cannot be ended."""
        receipts = []
        for key, progress in sorted(self._evictions.poll(now).items()):
            if progress.error or progress.done:
                result, detail = (Result.FAILED, progress.error) if progress.error else (Result.GONE, "no process is left")
                uid = self._under_way.pop(key, "")
                receipts.append(Receipt(target=key, result=result, pod=key, detail=detail, uid=uid))
        return receipts

    def _begin(self, index: int, action: Evict, placement: Placement, now: float) -> Receipt:
        result, detail = self._verdict(action, placement, now)
        return Receipt(target=action.pod, result=result, action=index, pod=action.pod, detail=detail)

    def _verdict(self, action: Evict, placement: Placement, now: float) -> tuple[Result, str]:
        if action.mode is not Mode.ENFORCE:
            return Result.RECORDED, action.mode.value
        workload = placement.workloads.get(action.pod)
        if workload is None:
            return Result.GONE, "no such pod any more"
        if workload.qos is not QoS.BE:
            return Result.REFUSED, f"a {workload.qos.value} pod is never evicted"
        if action.uid and workload.uid and action.uid != workload.uid:
            return Result.GONE, "another pod has its name now"
        if self._under_way.get(action.pod) == action.uid:
            return Result.UNCHANGED, "under way already"
        error = self._evictions.begin(action, workload, now)
        if error:
            return Result.FAILED, error
        self._under_way[action.pod] = action.uid
        return Result.APPLIED, "under way"
