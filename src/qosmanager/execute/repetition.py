"""Receipts that no action asked for, said once (specification, section 9: never the same error each second).

In: receipts of standing work, cycle after cycle. Out: whether this one is news: another result or reason, or a minute has passed.
"""

from __future__ import annotations

from qosmanager.model.actions import Receipt, Result

_AGAIN_AFTER = 60.0


class Repetition:
    """Remembers what was said about each target."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, Result, str], float] = {}

    def first(self, receipt: Receipt, now: float) -> bool:
        """Whether a receipt is to be shown; what was done is always news."""
        if receipt.result not in (Result.REFUSED, Result.FAILED, Result.GONE):
            return True
        key = (receipt.target, receipt.result, receipt.detail)
        self._said = {each: until for each, until in self._said.items() if until > now}
        if key in self._said:
            return False
        self._said[key] = now + _AGAIN_AFTER
        return True
