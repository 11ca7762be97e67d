"""When a group's stall is out of its own habit, so that a cycle should not wait for its turn (specification, section 2: fast path).

In: the share of a short time in which some task of the group waited for a CPU. Out: its habit so far, and whether the share is a jump. A
service may wait always, and one of bursts varies: only what is above both its level and its usual distance from it counts.
"""

from __future__ import annotations

from math import exp
from typing import NamedTuple

RISE = 0.1  # share above the level that is never worth a cycle of its own
SPREADS = 4.0  # usual distances above the level
_MEMORY = 3.0  # seconds in which two thirds of a habit are replaced
_KNOWN = 1.0  # seconds of looks before there is a habit


class Habit(NamedTuple):
    """`level`: mean share, 0 to 1; `spread`: mean distance from it; both of the last seconds. `seconds`: how long it was looked at."""

    level: float = 0.0
    spread: float = 0.0
    seconds: float = 0.0

    @property
    def bound(self) -> float:
        """The share above which a look is a jump."""
        return self.level + max(RISE, SPREADS * self.spread)

    def is_jump(self, share: float) -> bool:
        """Tell whether a share is out of this habit; False while there is none yet."""
        return self.seconds >= _KNOWN and share > self.bound

    def after(self, share: float, seconds: float) -> Habit:
        """Return the habit with a look that covers so many seconds in it. A jump that lasts becomes the habit within some looks."""
        known = self.seconds + seconds
        # As long as little is known, all looks count the same.
        weight = max(1 - exp(-seconds / _MEMORY), seconds / known) if known < _MEMORY else 1 - exp(-seconds / _MEMORY)
        away = share - self.level
        return Habit(self.level + weight * away, self.spread + weight * (abs(away) - self.spread), known)
