"""What became of each action of a cycle: the receipts of one action taken together."""

from __future__ import annotations

from msgspec import Struct

from qosmanager.model.actions import KINDS, Action, Evict, Receipt, RestoreCpuLimit, Result, SetBeCpuLimit, SetBeCpuset, SetCpuLimit
from qosmanager.model.qos import Mode
from qosmanager.model.record import CycleRecord

# The first of these among an action's receipts is what is said of the whole.
_TELLING = (Result.FAILED, Result.REFUSED, Result.APPLIED, Result.DRIFTED, Result.GONE, Result.RECORDED, Result.UNCHANGED)

CONFLICT = "conflict"  # how the detail of a drift receipt begins when a file is fought over


class Effect(Struct, frozen=True, kw_only=True):
    """An action with its receipts; `result` None: enforced, but the executor said nothing about it."""

    action: Action
    result: Result | None
    receipts: tuple[Receipt, ...] = ()

    @property
    def kind(self) -> str:
        """The action's name in documents ("set_be_cpu_limit", ...)."""
        return KINDS[type(self.action)]

    @property
    def done(self) -> bool:
        """Whether something changed in the world: enforced, and a write or an eviction that took place."""
        return self.action.mode is Mode.ENFORCE and any(receipt.result is Result.APPLIED for receipt in self.receipts)


def effects(record: CycleRecord) -> tuple[Effect, ...]:
    """Return the cycle's actions in their order, each with what became of it."""
    return tuple(
        _effect(action, tuple(r for r in record.receipts if r.action == index)) for index, action in enumerate(record.plan.actions)
    )


def evicted(record: CycleRecord) -> tuple[tuple[str, str], ...]:
    """Return key and uid of each pod whose eviction took place; one that was refused or only observed did not."""
    return tuple((each.action.pod, each.action.uid) for each in effects(record) if each.done and isinstance(each.action, Evict))


def later(record: CycleRecord) -> tuple[Receipt, ...]:
    """Return the receipts that tell how evictions of earlier cycles ended."""
    ends = (Result.GONE, Result.FAILED)
    return tuple(r for r in record.receipts if r.action is None and r.pod is not None and r.target == r.pod and r.result in ends)


def foreign(record: CycleRecord) -> tuple[Receipt, ...]:
    """Return the receipts about values that somebody else changed (section 9: drift)."""
    return tuple(receipt for receipt in record.receipts if receipt.result is Result.DRIFTED)


def standing(record: CycleRecord) -> tuple[Receipt, ...]:
    """Return the receipts of what was written without an action asking for it: standing properties kept, a limit taken to a new group."""
    return tuple(r for r in record.receipts if r.action is None and r.result is Result.APPLIED and r.before != r.after)


def is_conflict(receipt: Receipt) -> bool:
    """Tell whether a drift is the fourth in a minute on its file, that is, a conflict (section 9)."""
    return receipt.detail.startswith(CONFLICT)


def subject(action: Action) -> str:
    """Return the pod's key, or "BE" for an action on all of BE."""
    if isinstance(action, SetCpuLimit | RestoreCpuLimit | Evict):
        return action.pod
    return "BE"


def amount(action: Action) -> str:
    """Return what the action sets, for people: "0.60 cores", "CPUs 0-1", "" where it sets nothing."""
    if isinstance(action, SetCpuLimit | RestoreCpuLimit | SetBeCpuLimit):
        return f"{action.cores:.2f} cores"
    return f"CPUs {action.cpus}" if isinstance(action, SetBeCpuset) else ""


def _effect(action: Action, receipts: tuple[Receipt, ...]) -> Effect:
    if action.mode is not Mode.ENFORCE:
        return Effect(action=action, result=Result.RECORDED, receipts=receipts)
    found = {receipt.result for receipt in receipts}
    return Effect(action=action, result=next((result for result in _TELLING if result in found), None), receipts=receipts)
