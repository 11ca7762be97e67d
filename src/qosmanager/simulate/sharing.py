"""How the kernel divides CPU: weights among siblings, level by level, nobody above what it wants (docs/simulate.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Sharer:
    """A group that wants CPU. `want` and `given` in cores of one tick; `weight` in cpu.shares."""

    __slots__ = ("given", "want", "weight")

    def __init__(self, weight: float) -> None:
        self.weight = weight
        self.want = 0.0
        self.given = 0.0

    def gather(self) -> float:
        """Return what it wants now, with all below it."""
        return self.want

    def hand_out(self, amount: float) -> None:
        """Take `amount`, at most what it wants, and hand it on below."""
        self.given = amount


class Branch(Sharer):
    """A group of groups; it may use at most `cap` cores."""

    __slots__ = ("cap", "children")

    def __init__(self, weight: float, cap: float, children: Iterable[Sharer] = ()) -> None:
        super().__init__(weight)
        self.cap = cap
        self.children: list[Sharer] = list(children)

    def gather(self) -> float:
        self.want = min(self.cap, sum(child.gather() for child in self.children))
        return self.want

    def hand_out(self, amount: float) -> None:
        self.given = amount
        divide(amount, self.children)


def divide(amount: float, sharers: Sequence[Sharer]) -> None:
    """Divide `amount` by weight; who wants less than its share leaves the rest to the others."""
    hungry = [sharer for sharer in sharers if sharer.want > 0.0]
    for sharer in sharers:
        if sharer.want <= 0.0:
            sharer.hand_out(0.0)
    if sum(sharer.want for sharer in hungry) <= amount:
        for sharer in hungry:
            sharer.hand_out(sharer.want)
        return
    # By what each wants for its weight: whoever is content below the present share is so below every later one too.
    hungry.sort(key=lambda sharer: sharer.want / sharer.weight)
    left, weights = amount, sum(sharer.weight for sharer in hungry)
    for sharer in hungry:
        part = min(sharer.want, left * sharer.weight / weights)
        sharer.hand_out(part)
        left -= part
        weights -= sharer.weight
