"""What runs in pairs say: medians of paired ratios with a bootstrap interval, and who is better. Pure.

The rule, fixed before any run: a service inside its objective (its SLO, which the agent knows too) comes first, then batch's CPU time (on a
disk: bytes). Where two treatments both keep it, more of that is better; else the smaller p99. Better means that the interval of the ratio
leaves 1 out. A kill by the kernel's OOM killer is worse than any run without one.
"""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass

TRIES = 4000
OUTSIDE = 0.10  # cores of others: a run with more is made again


@dataclass(frozen=True)
class Ratio:
    """The median of paired ratios and its 95 percent bootstrap interval."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"


def ratio(numerators: list[float], denominators: list[float], seed: int = 1) -> Ratio:
    """Pair by pair; the lists are of one length, at least 1, denominators above 0."""
    ratios = [above / below for above, below in zip(numerators, denominators, strict=True)]
    chance = random.Random(seed)
    medians = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(TRIES))
    return Ratio(statistics.median(ratios), medians[int(TRIES * 0.025)], medians[int(TRIES * 0.975)])


def is_disturbed(outside: float) -> bool:
    return outside > OUTSIDE


def work_of(row: dict) -> float:
    """What batch is judged by in a run: on a disk its MB a second, else its CPU in cores."""
    moved = row.get("moved")
    return row["be_cores"] if moved is None else moved


@dataclass(frozen=True)
class Runs:
    """All runs of one treatment in a situation, in the order of the pairs. A kill by the kernel breaks the objective."""

    p99: list[float]
    work: list[float]
    kills: int = 0

    def keeps(self, objective: float) -> bool:
        return self.kills == 0 and statistics.median(self.p99) <= objective


@dataclass(frozen=True)
class Verdict:
    """`p99` and `work`: this treatment's over the other's. `better`: True, False, or None where the interval holds 1."""

    p99: Ratio
    work: Ratio
    better: bool | None
    why: str


def verdict(mine: Runs, other: Runs, objective: float) -> Verdict:
    p99 = ratio(mine.p99, other.p99)
    work = ratio(mine.work, other.work) if min(other.work) > 0 else Ratio(1.0, 1.0, 1.0)
    kept, other_kept = mine.keeps(objective), other.keeps(objective)
    if mine.kills != other.kills and 0 in (mine.kills, other.kills):
        return Verdict(p99, work, mine.kills == 0, "the kernel killed in the one and not in the other")
    if kept and other_kept:
        return Verdict(p99, work, _clear(1 / work.median, 1 / work.high, 1 / work.low), "both keep the objective: batch")
    why = "neither keeps the objective: p99" if kept is other_kept else "one keeps the objective: p99"
    return Verdict(p99, work, _clear(p99.median, p99.low, p99.high), why)


def _clear(_: float, low: float, high: float) -> bool | None:
    if high < 1:
        return True
    return False if low > 1 else None
