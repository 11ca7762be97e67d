"""Which BE pods are likely to be the cause when a service suffers (specification, section 3: attribution). Pure arithmetic.

In: what the service stalled and what each BE pod used, moment by moment over the last minutes. Out: suspects with a confidence. What counts
is that both change together: a level that both happen to have says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt

from qosmanager.model.attribution import Attribution, Suspect

LEAST = 0.2  # confidence below which nobody is named
_MOMENTS = 7  # changes that both histories need before they say anything
_EVENTS = 3.0  # moments of change at which half of the certainty is reached
_NAMED = 5
_SAME = 1e-9

Series = Sequence[float | None]
"""A value for each moment, oldest first; None: not measured."""


def attribute(pod: str, stalls: Mapping[str, Series], uses: Mapping[str, Mapping[str, Series]]) -> Attribution:
    """Name the suspects for one suffering service. `stalls`: its stall by kind ("cpu", "io", "memory"); `uses`: what each BE pod (key) used
    of the same kind, over the same moments."""
    found: list[Suspect] = []
    compared = False
    for key, used in uses.items():
        by_kind = [(likeness(used[kind], stall), kind) for kind, stall in stalls.items() if kind in used]
        known = [(confidence, kind) for confidence, kind in by_kind if confidence is not None]
        if not known:
            continue
        compared = True
        confidence, kind = max(known)
        if confidence >= LEAST:
            found.append(Suspect(key, kind, confidence))
    found.sort(key=lambda suspect: (-suspect.confidence, suspect.pod))
    if found:
        return Attribution(pod, tuple(found[:_NAMED]))
    if not uses:
        return Attribution(pod, why_none="no BE pod runs here")
    return Attribution(pod, why_none=_nobody(compared))


def _nobody(compared: bool) -> str:
    if compared:
        return "no BE pod's use changes with its stall"
    return f"not enough history: fewer than {_MOMENTS} changes are known, or nothing changed"


def likeness(use: Series, stall: Series) -> float | None:
    """Return how surely one goes with the other, 0 to 1; None where there is too little to tell: too few moments, or one of them constant.

    r^2 x events / (events + 3): r is the correlation of the changes from moment to moment (0 where they go against each other), and
    events is how many moments that rests on: one change together may be chance, ten are not.
    """
    pairs = list(_changes(use, stall))
    if len(pairs) < _MOMENTS:
        return None
    mean_use = sum(one for one, _ in pairs) / len(pairs)
    mean_stall = sum(other for _, other in pairs) / len(pairs)
    products = [(one - mean_use) * (other - mean_stall) for one, other in pairs]
    spread = sqrt(sum((one - mean_use) ** 2 for one, _ in pairs)) * sqrt(sum((other - mean_stall) ** 2 for _, other in pairs))
    if spread <= _SAME:
        return None
    r = sum(products) / spread
    if r <= _SAME:
        return 0.0
    events = sum(map(abs, products)) ** 2 / sum(product * product for product in products)
    return round(r * r * events / (events + _EVENTS), 2)


def _changes(use: Series, stall: Series) -> Iterable[tuple[float, float]]:
    """Yield both changes of each moment at which both are known, as is the moment before. Each series is taken in units of its largest
    value, so that bytes and cores are compared alike."""
    largest_use, largest_stall = _largest(use), _largest(stall)
    if not largest_use or not largest_stall:
        return
    before: tuple[float, float] | None = None
    for one, other in zip(use, stall, strict=True):
        if one is None or other is None:
            before = None
            continue
        now = (one / largest_use, other / largest_stall)
        if before is not None:
            yield now[0] - before[0], now[1] - before[1]
        before = now


def _largest(series: Series) -> float:
    return max((abs(value) for value in series if value is not None), default=0.0)
