"""What became of the evictions of a single cycle (`qosmanager run --once`): whoever ends before that leaves pods half evicted.

In: the cycle's record, who acts. Out: a line for each eviction, and the record of how they ended, for the audit log. The wait has an end: a
pod of this machine is gone within its grace period and half a minute, or cannot be ended; the API server answers, or was asked in vain. No
cycle runs meanwhile: a burst that the single one granted ends after the wait, which may be later than `burstDuration`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from qosmanager.execute.actuator import Actuator
from qosmanager.model.actions import Evict, Plan, Receipt, Result
from qosmanager.model.record import CycleRecord
from qosmanager.ports import Clock

_LOOK = 0.05  # seconds between two looks


class Conclusion(Struct, frozen=True, kw_only=True):
    """What ended, by pod, and who was still under way when a signal came."""

    ended: dict[str, Receipt] = {}
    unsettled: frozenset[str] = frozenset()

    def lines(self, record: CycleRecord) -> Iterator[str]:
        """Say of each eviction of this cycle what became of it."""
        for begun in record.receipts:
            if begun.action is None or begun.result is Result.RECORDED or not isinstance(record.plan.actions[begun.action], Evict):
                continue
            last = begun if begun.result is not Result.APPLIED else self.ended.get(begun.target)
            yield f"eviction of {begun.target}: {self._words(begun.target, last)}"

    def _words(self, pod: str, last: Receipt | None) -> str:
        if last is not None:
            return last.result.value + (f", {last.detail}" if last.detail else "")
        return "not known, a signal ended the wait" if pod in self.unsettled else "accepted by the API server, which sees to it"

    def after(self, record: CycleRecord) -> CycleRecord:
        """Return a record of nothing but this, after that of the cycle."""
        return replace(record, plan=Plan(), receipts=tuple(self.ended.values()), outcomes=())


def concluded(actuator: Actuator, clock: Clock, stopped: Callable[[], bool]) -> Conclusion:
    """Wait until no eviction needs this process any more, or until `stopped`."""
    ended: dict[str, Receipt] = {}
    while True:
        unsettled = actuator.unsettled()
        ended |= {receipt.target: receipt for receipt in actuator.follow(clock.monotonic())}
        if not unsettled or stopped():
            return Conclusion(ended=ended, unsettled=unsettled - ended.keys())
        time.sleep(_LOOK)
