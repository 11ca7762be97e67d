"""The BE limit in the kernel: at the parent of all BE, or shared among the BE pods' groups (specification, sections 5.4, 9 and 11).

In: cores, who BE is, their usage. Out: families of wishes. A group is never raised above its own limit; its kernel burst stays within
its quota; where its period is too short for the limit it gets a longer one; on v1 limits of groups below it are lowered with it (the
kernel wants child <= parent) and rise with it again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from posixpath import dirname

from msgspec import Struct

from qosmanager.execute.be_groups import BeGroups
from qosmanager.execute.dialect import PERIOD_US, burst_file, fit_period, parse_us, period_file, quota_file, quota_text
from qosmanager.execute.family import Family, Wish
from qosmanager.execute.ledger import Ledger
from qosmanager.execute.sharing import Claim, settled, shares
from qosmanager.execute.tree import GroupLimit, below, ceiling, cpu_version, group_limit
from qosmanager.execute.writing import Trouble, read
from qosmanager.model.workload import CgroupFile
from qosmanager.ports import KernelFiles

_AGAIN = 10.0  # seconds between two looks at a limit that is not ours


class _Allowed(Struct, frozen=True):
    """What a group may use at most without us, in cores, and until when that counts as known: for ever once we own `file`, for then a
    change is drift, which is noticed."""

    cores: float
    file: CgroupFile
    until: float


class BeLimit:
    """Divides the BE limit over the groups that hold BE; remembers the shares in force."""

    def __init__(self, kernel: KernelFiles, ledger: Ledger) -> None:
        self._kernel = kernel
        self._ledger = ledger
        self._limit = math.nan
        self._allowed: dict[str, _Allowed] = {}
        self.in_force: dict[str, float] = {}

    def forget(self) -> None:
        """Have all limits read again."""
        self._allowed = {}

    def divide(self, cores: float, be: BeGroups, usage: Mapping[str, float | None], now: float) -> dict[str, float]:
        """Cores by group; `now` is monotonic seconds. Shares that would hardly move stay as they are."""
        if be.parent is not None:
            divided = {be.parent: cores}
        else:
            divided = shares(cores, self._claims(be, usage, now))
            if cores == self._limit and settled(cores, self.in_force, divided):
                divided = self.in_force
        self._limit, self.in_force = cores, divided
        return divided

    def _claims(self, be: BeGroups, usage: Mapping[str, float | None], now: float) -> dict[str, Claim]:
        before, owned = self._allowed, self._ledger.entries
        self._allowed = {}
        ceilings: dict[str, float] = {}  # pods lie in few groups: what those allow is read once
        claims: dict[str, Claim] = {}
        for number, (group, key) in enumerate(be.holders.items()):
            allowed = before.get(group)
            if allowed is None or (allowed.until <= now and allowed.file not in owned):
                # Not all in one cycle: a hundred at once would show.
                patience = _AGAIN if allowed else _AGAIN * (number % 10 + 1) / 10
                allowed = _Allowed(self._read(group, ceilings), quota_file(cpu_version(self._kernel), group), now + patience)
            self._allowed[group] = allowed
            claims[group] = Claim(own=allowed.cores, usage=usage.get(key or ""))
        return claims

    def _read(self, group: str, ceilings: dict[str, float]) -> float:
        above = dirname(group)
        if above not in ceilings:
            ceilings[above] = ceiling(self._kernel, self._ledger, above)
        limit = group_limit(self._kernel, self._ledger, group)
        return ceilings[above] if isinstance(limit, Trouble) else min(limit.own.cores, ceilings[above])

    def family(self, group: str, cores: float, pod: str | None) -> Family:
        """What is to be written so that a group holds its cores."""
        wishes: list[Wish] = []
        limit = group_limit(self._kernel, self._ledger, group)
        if isinstance(limit, Trouble):
            # The wish meets the same trouble, which then is its receipt.
            version = cpu_version(self._kernel)
            return Family(wishes=(Wish(quota_file(version, group), quota_text(version, cores, PERIOD_US)),), pod=pod)
        held = min(cores, limit.own.cores)
        if limit.version == 1:
            held = min(held, ceiling(self._kernel, self._ledger, dirname(group)))
        wishes += self._hold(group, limit, held)
        if limit.version == 1:
            for child in below(self._kernel, "cpu", group):
                inner = group_limit(self._kernel, self._ledger, child)
                if not isinstance(inner, Trouble) and math.isfinite(inner.own.us):
                    wishes += self._hold(child, inner, min(held, inner.own.cores))
        return Family(wishes=tuple(wishes), pod=pod)

    def _hold(self, group: str, limit: GroupLimit, cores: float) -> list[Wish]:
        period = limit.own.period
        lengthened = self._ledger.entries.get(period_file(group))
        if cores < limit.own.cores:
            # A period of ours stays until the limit goes: it would only be written to and fro.
            period = fit_period(0.0 if lengthened else cores, period)
        text = limit.text if cores >= limit.own.cores else quota_text(limit.version, cores, period)
        wishes = [Wish(limit.file, text)]
        if limit.version == 1 and (lengthened or period != limit.own.period):
            wishes.append(Wish(period_file(group), str(period)))
        burst = burst_file(limit.version, group)
        now = read(self._kernel, burst)
        if isinstance(now, str):  # older kernels have no burst
            entry = self._ledger.entries.get(burst)
            own = parse_us(burst, now if entry is None else entry.original)
            most = min(own, parse_us(limit.file, text))
            if entry is not None or most < own:
                wishes.append(Wish(burst, str(int(most))))
        return wishes
