"""When a group is out of its own habit, so that a cycle should not wait for its turn (specification, section 2: fast path).

In: of a short time, the share in which some task of the group waited for a CPU, and the cores it wanted. Out: its habits so far, and
whether this is a jump. A service may wait always, and one of bursts varies: only what is far above both its level and its usual distance
from it counts, at once or in several looks together.
"""

from __future__ import annotations

from math import exp
from typing import NamedTuple

RISE = 0.1  # share of stall above the level that is never worth a cycle of its own
CORES = 0.1  # the same for the cores wanted, while
CONTENDED = 0.05  # some task waits for at least this share: wanting more of what is free hurts nobody
MOST = 0.75  # of the way from the level to a stall all the time is always enough
_USUAL = 2.0  # distances above the level that say nothing, however often they come
_JUMP = 2.0  # distances above that, in one look or added up over several
_MEMORY = 3.0  # seconds in which two thirds of a habit are replaced
_KNOWN = 1.0  # seconds of looks before there is a habit


class Habit(NamedTuple):
    """`least`: a rise that is never a jump; of the last seconds `level`, the mean, and `spread`, the mean distance from it; `seconds`: how
    long it was looked at; `beyond`: what the last looks were above the usual, added up, no more than a jump takes."""

    least: float
    level: float = 0.0
    spread: float = 0.0
    seconds: float = 0.0
    beyond: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether it was looked at for long enough to tell what is unusual."""
        return self.seconds >= _KNOWN

    @property
    def distance(self) -> float:
        """The usual one from the level, or what makes `least` one look's jump."""
        return max(self.spread, self.least / (_USUAL + _JUMP))

    def jumps_with(self, value: float) -> bool:
        """Tell whether the looks before and one of this value are together out of the habit."""
        return self.is_known and self._beyond(value) > _JUMP * self.distance

    def after(self, value: float, seconds: float) -> Habit:
        """Return the habit with a look that covers so many seconds in it. A jump that lasts becomes the habit within some looks."""
        if not self.seconds:
            return self._replace(level=value, seconds=seconds)
        known = self.seconds + seconds
        weight = 1 - exp(-seconds / _MEMORY)
        if known < _MEMORY:
            weight = max(weight, seconds / known)  # as long as little is known, all looks count the same
        away = value - self.level
        # After a jump the next look that is above the usual is one too: what it began goes on.
        beyond = min(self._beyond(value), _JUMP * self.distance) if self.is_known else 0.0
        return Habit(self.least, self.level + weight * away, self.spread + weight * (abs(away) - self.spread), known, beyond)

    def _beyond(self, value: float) -> float:
        return max(0.0, self.beyond + value - self.level - _USUAL * self.distance)


def stall_jumps(habit: Habit, share: float) -> bool:
    """Tell whether a share of stall (0 to 1) is out of the habit."""
    return habit.jumps_with(share) or (habit.is_known and share > habit.level + max(RISE, MOST * (1 - habit.level)))


def demand_jumps(habit: Habit, cores: float, share: float) -> bool:
    """Tell whether the cores that a group wants are out of its habit while some of its tasks wait, for a `share` of the time."""
    return share >= CONTENDED and habit.jumps_with(cores)
