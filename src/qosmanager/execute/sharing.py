"""One BE limit shared among BE groups that have no parent of their own (specification, section 11).

In: the limit and each group's own limit and usage (cores). Out: cores for each group: water-filling over min(own limit, 1.5 x usage +
5 percent of the BE limit), so that one that wakes up is not starved; what is left after everyone's want is handed out evenly, up to
the own limits. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct

_DEAD_BAND = 0.05  # of the BE limit: a share that would move by less stays


class Claim(Struct, frozen=True, kw_only=True):
    """What one BE group may use at most (cores, infinite: no limit of its own) and what it uses now (None: not measured)."""

    own: float = math.inf
    usage: float | None = None


def shares(limit: float, claims: Mapping[str, Claim]) -> dict[str, float]:
    """Divide `limit` cores. The sum is at most `limit`, nobody gets more than its own limit."""
    if not claims:
        return {}
    even = limit / len(claims)
    wants = {key: min(claim.own, _want(claim, limit, even)) for key, claim in claims.items()}
    granted = _fill(limit, wants)
    room = {key: claims[key].own - granted[key] for key in claims}
    rest = _fill(limit - sum(granted.values()), room)
    return {key: granted[key] + rest[key] for key in claims}


def settled(limit: float, before: Mapping[str, float], after: Mapping[str, float]) -> bool:
    """Whether the shares in force can stay: the same groups, and none would move by more than 5 percent of the limit."""
    if before.keys() != after.keys():
        return False
    return all(abs(before[key] - after[key]) <= _DEAD_BAND * limit for key in after)


def _want(claim: Claim, limit: float, even: float) -> float:
    return even if claim.usage is None else 1.5 * claim.usage + 0.05 * limit


def _fill(amount: float, wants: Mapping[str, float]) -> dict[str, float]:
    """Water-filling: the smallest wants first, each at most an even part of what is left."""
    filled: dict[str, float] = {}
    left = max(0.0, amount)
    for index, key in enumerate(sorted(wants, key=lambda key: (wants[key], key))):
        filled[key] = max(0.0, min(wants[key], left / (len(wants) - index)))
        left = max(0.0, left - filled[key])
    return filled
