"""What BE is held at, kept up (specification, section 9): written when it or the groups change, tried again where it could not be.

A group that is gone is looked at in each cycle, for it may come back under its name; what could not be written is tried in the next
cycle, then every 10 s: with a hundred pods, one that the machine refuses for ever must not cost all of them each second.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from qosmanager.execute.family import Family, Hands
from qosmanager.model.actions import Receipt, Result

RETRY = 10.0  # seconds

Work = Callable[[Collection[str]], Mapping[str, Family | Receipt]]
"""The families of some groups, or why a group has none."""


class _Kept:
    """Files that stay as they are: those refused, and those of groups below, which were brought in line with them."""

    def __init__(self, targets: Collection[str]) -> None:
        self._targets = targets
        self._above = tuple(f"{group}/" for target in targets if (group := target.rpartition("/")[0]))

    def __contains__(self, target: object) -> bool:
        return target in self._targets or (bool(self._above) and str(target).startswith(self._above))


class Holding:
    """Keeps files of some names at what is wished for them."""

    def __init__(self, names: frozenset[str], hands: Hands) -> None:
        self._names = names
        self._hands = hands
        self._basis: object = None
        self._again: dict[str, float] = {}  # group that could not be written -> when it is tried again

    def forget(self) -> None:
        """Have everything looked at again: a value is new, or a file was found changed."""
        self._basis = None

    def keep(self, basis: object, groups: Collection[str], work: Work, now: float) -> list[Receipt]:
        """Write what `work` wishes for these groups, if `basis` (all that its answer depends on) has changed; else what is due again."""
        changed = basis != self._basis
        due = groups if changed else [group for group, time in self._again.items() if time <= now]
        if not changed and not due:
            return []
        found = work(due)
        families = {group: each for group, each in found.items() if isinstance(each, Family)}
        refusals = {group: each for group, each in found.items() if isinstance(each, Receipt)}
        receipts = [*refusals.values(), *self._hands.carry_out(list(families.values()))]
        gone = {receipt.target for receipt in receipts if receipt.result is Result.GONE}
        refused = {receipt.target for receipt in receipts if receipt.result in (Result.REFUSED, Result.FAILED)}
        known, self._again = self._again, {} if changed else {group: time for group, time in self._again.items() if group not in found}
        for group in found if gone or refused else ():
            targets = {str(wish.file) for wish in families[group].wishes} if group in families else refused
            if targets & refused:
                self._again[group] = now + RETRY if group in known else now
            elif targets & gone:
                self._again[group] = now
        if changed:
            # What is new is held before what is left opens: BE is never open in between.
            receipts += self._hands.let_go(self._names, families.values(), _Kept({receipt.target for receipt in refusals.values()}))
        self._basis = basis
        return receipts
