"""What BE may use now, as the extended resources that Koordinator's users know: kubernetes.io/batch-cpu (millicores), batch-memory (bytes).

In: a cycle's record. Out: amounts, and whether it is time to publish them: after a change of more than 10 percent, and never twice in 15 s.
While the node is at CRITICAL or worse, or memory runs out, they are 0, so that evicted pods do not come straight back.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from qosmanager.documents.quantities import size
from qosmanager.model.qos import Level
from qosmanager.model.record import CycleRecord
from qosmanager.views.figures import topic
from qosmanager.views.reports import EVICTS_NOBODY

BATCH_CPU, BATCH_MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"
BETWEEN_WRITES = 15.0  # seconds
_CHANGE = 0.1


class Batch(Struct, frozen=True):
    """Millicores and bytes; None: not known, and not published."""

    cpu: int
    memory: int | None

    def as_status(self) -> dict[str, Any]:
        """Return the patch of the node's status."""
        amounts = {BATCH_CPU: str(self.cpu)} | ({} if self.memory is None else {BATCH_MEMORY: str(self.memory)})
        return {"status": {"capacity": amounts, "allocatable": amounts}}


WITHDRAWN = {"status": {part: {BATCH_CPU: None, BATCH_MEMORY: None} for part in ("capacity", "allocatable")}}


class BatchNote:
    """What is to be published, and when."""

    def __init__(self) -> None:
        self._published: Batch | None = None
        self._at = -BETWEEN_WRITES

    def due(self, record: CycleRecord, now: float) -> Batch | None:
        """Return what to publish now (monotonic seconds); None: nothing. `published` has to be told that it was."""
        if now - self._at < BETWEEN_WRITES:
            return None
        amounts = batch(record)
        return amounts if amounts is not None and _differs(self._published, amounts) else None

    def published(self, amounts: Batch, now: float) -> None:
        """Note what the node's status holds now."""
        self._published, self._at = amounts, now

    def seen(self, allocatable: dict[str, Any]) -> None:
        """Take in what the node's status shows: kubelet may have made it anew without them."""
        if self._published is not None and not _shows(allocatable, self._published):
            self._published = None


def batch(record: CycleRecord) -> Batch | None:
    """Return what BE may use now; None: nothing is decided now, so that what is published stays."""
    resources, assessment = record.plan.resources, record.assessment
    if resources is None or any(topic(reason) not in EVICTS_NOBODY for reason in record.plan.degraded):
        return None
    if max(assessment.effective_level, assessment.memory.level) >= Level.CRITICAL or assessment.oom.present:
        return Batch(0, 0)
    state = record.state
    cores = resources.be_allowance if state.be_limit is None or state.be_observed else state.be_limit
    return Batch(max(0, int(cores * 1000)), None if resources.be_memory is None else max(0, resources.be_memory))


def _shows(allocatable: dict[str, Any], amounts: Batch) -> bool:
    """Whether these are the amounts; the API server writes 2000 as 2k."""
    wanted = {BATCH_CPU: amounts.cpu} | ({} if amounts.memory is None else {BATCH_MEMORY: amounts.memory})
    try:
        return all(size(str(allocatable[name])) == amount for name, amount in wanted.items())
    except (KeyError, ValueError, ArithmeticError):
        return False


def _differs(published: Batch | None, amounts: Batch) -> bool:
    return published is None or _moved(published.cpu, amounts.cpu) or _moved(published.memory, amounts.memory)


def _moved(before: int | None, after: int | None) -> bool:
    if before is None or after is None:
        return before is not after
    return abs(after - before) > _CHANGE * before
