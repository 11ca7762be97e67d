"""What acts on a plan: the ResourceExecutor and the Evictor together, or one that only records (specification, sections 2 and 9)."""

from __future__ import annotations

from typing import Protocol

from qosmanager.execute.evictor import Evictor
from qosmanager.execute.ledger import LEASE
from qosmanager.execute.resource_executor import Adopted, ResourceExecutor, target
from qosmanager.model.actions import Plan, Receipt, Result
from qosmanager.model.snapshot import Snapshot
from qosmanager.model.workload import Placement


class Actuator(Protocol):
    """The acting side as the cycle sees it."""

    def apply(self, plan: Plan, placement: Placement, snapshot: Snapshot, now: float) -> tuple[Receipt, ...]:
        """Do a plan; `now` is monotonic seconds. Receipts with an `action` come in the plan's order."""

    def follow(self, now: float) -> tuple[Receipt, ...]:
        """Between cycles: drive the evictions under way; what has ended since the last call. `now` is monotonic seconds."""

    def unsettled(self) -> frozenset[str]:
        """Keys of pods being evicted that would perhaps not go if this agent ended now."""

    def adopt(self) -> Adopted:
        """Before the first cycle: take over what a predecessor left. Raises JournalError."""

    def leave(self, lease: float = LEASE, state: bytes | None = None) -> tuple[Receipt, ...]:
        """Clean stop: bursts end, BE limits stay for `lease` seconds; `state` is for the successor."""

    def restore_all(self) -> tuple[Receipt, ...]:
        """Put everything back."""


class Enforcer:
    """Acts: kernel files first, then evictions."""

    def __init__(self, executor: ResourceExecutor, evictor: Evictor) -> None:
        self._executor = executor
        self._evictor = evictor

    def apply(self, plan: Plan, placement: Placement, snapshot: Snapshot, now: float) -> tuple[Receipt, ...]:
        receipts = self._executor.apply(plan, placement, snapshot, now) + self._evictor.apply(plan, placement, now)
        last = len(plan.actions)
        return tuple(sorted(receipts, key=lambda receipt: last if receipt.action is None else receipt.action))

    def follow(self, now: float) -> tuple[Receipt, ...]:
        return tuple(self._evictor.poll(now))

    def unsettled(self) -> frozenset[str]:
        return self._evictor.unsettled()

    def adopt(self) -> Adopted:
        return self._executor.adopt()

    def leave(self, lease: float = LEASE, state: bytes | None = None) -> tuple[Receipt, ...]:
        return self._executor.leave(lease, state)

    def restore_all(self) -> tuple[Receipt, ...]:
        return self._executor.restore_all()


class Recorder:
    """Dry run: every action is answered with RECORDED, nothing is written anywhere."""

    def apply(self, plan: Plan, placement: Placement, snapshot: Snapshot, now: float) -> tuple[Receipt, ...]:
        del placement, snapshot, now
        return tuple(
            Receipt(target=target(action), result=Result.RECORDED, action=index, pod=getattr(action, "pod", None), detail="dry run")
            for index, action in enumerate(plan.actions)
        )

    def follow(self, now: float) -> tuple[Receipt, ...]:
        del now
        return ()

    def unsettled(self) -> frozenset[str]:
        return frozenset()

    def adopt(self) -> Adopted:
        return Adopted()

    def leave(self, lease: float = LEASE, state: bytes | None = None) -> tuple[Receipt, ...]:
        del lease, state
        return ()

    def restore_all(self) -> tuple[Receipt, ...]:
        return ()
