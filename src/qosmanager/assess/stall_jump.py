"""When a group is out of its own habit, so that a cycle should not wait for its turn (specification, section 2: fast path).

In: of a short time, the share in which some task of the group waited for a CPU, and the cores it wanted. Out: its habits so far, and
whether this is a jump. A service may wait always, and one of bursts varies: only what is above both its level and its usual distance from
it counts.
"""

from __future__ import annotations

from math import exp
from typing import NamedTuple

SPREADS = 4.0  # usual distances above the level
RISE = 0.1  # share of stall above the level that is never worth a cycle of its own
MOST = 0.75  # of the way from the level to a stall all the time is always enough
CORES = 0.1  # the same as RISE for the cores wanted, while
CONTENDED = 0.05  # some task waits for at least this share: wanting more of what is free hurts nobody
_MEMORY = 3.0  # seconds in which two thirds of a habit are replaced
_KNOWN = 1.0  # seconds of looks before there is a habit


class Habit(NamedTuple):
    """`level`: the mean; `spread`: the mean distance from it; both of the last seconds. `seconds`: how long it was looked at."""

    level: float = 0.0
    spread: float = 0.0
    seconds: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether it was looked at for long enough to tell what is unusual."""
        return self.seconds >= _KNOWN

    def after(self, value: float, seconds: float) -> Habit:
        """Return the habit with a look that covers so many seconds in it. A jump that lasts becomes the habit within some looks."""
        if not self.seconds:
            return Habit(value, 0.0, seconds)
        known = self.seconds + seconds
        weight = 1 - exp(-seconds / _MEMORY)
        if known < _MEMORY:
            weight = max(weight, seconds / known)  # as long as little is known, all looks count the same
        away = value - self.level
        return Habit(self.level + weight * away, self.spread + weight * (abs(away) - self.spread), known)


def stall_jumps(habit: Habit, share: float) -> bool:
    """Tell whether a share of stall (0 to 1) is out of the habit."""
    unusual = min(max(RISE, SPREADS * habit.spread), max(RISE, MOST * (1 - habit.level)))
    return habit.is_known and share > habit.level + unusual


def demand_jumps(habit: Habit, cores: float, share: float) -> bool:
    """Tell whether the cores that a group wants are out of its habit while some of its tasks wait, for a `share` of the time."""
    return habit.is_known and share >= CONTENDED and cores > habit.level + max(CORES, SPREADS * habit.spread)
