"""How the LS pods fare and when leaks end, in words: for reasons, explanations and plans (specification, section 13)."""

from __future__ import annotations

from collections.abc import Iterator

from qosmanager.model.assessment import Leak, Suffering, Wellbeing

_MB = 1_000_000
_HOUR = 3600.0


def suffering_words(each: Suffering) -> str:
    """Say by what a pod suffers, and why that is not BE's doing, where it is not."""
    where = f"; BE is not the cause: {each.elsewhere}" if each.elsewhere else ""
    if each.measure == "p99":
        return f"{each.pod} has p99 {each.value * 1000:.4g} ms, {each.severity:.0%} above its SLO of {each.bound * 1000:.4g} ms{where}"
    return f"{each.pod} waits for CPU {each.value:.0%} of its running time, it bears {each.bound:.0%}{where}"


def leak_words(leak: Leak) -> str:
    """Say how fast a pod leaks, and for how long that lasts."""
    words = f"leaking {leak.growth / _MB:.1f} MB/min"
    if leak.warming_up:
        return f"growing {leak.growth / _MB:.1f} MB/min, less and less: it is warming up"
    if leak.seconds is None:
        return words
    what = "its own limit" if leak.own_limit else "what the node has available"
    words = f"{words}, which uses up {what} in {_span(leak.seconds)}"
    if leak.earliest is None or leak.latest is None or leak.confidence is None:
        return words
    return f"{words} ({_span(leak.earliest)} to {_span(leak.latest)}, confidence {leak.confidence:.0%})"


def _span(seconds: float) -> str:
    return f"{seconds / _HOUR:.1f} h" if seconds >= _HOUR else f"{seconds / 60:.0f} min"


def wellbeing_lines(wellbeing: Wellbeing | None) -> Iterator[str]:
    """Say who suffers, how much slack there is, and of whom nothing tells; nothing without strategy `slo`."""
    if wellbeing is None:
        return
    for each in wellbeing.suffering:
        yield suffering_words(each)
    if not wellbeing.suffering:
        yield "nobody suffers"
    yield f"slack {wellbeing.slack:.0%}: that of the pod that is nearest to what it bears"
    if wellbeing.unjudged:
        names = ", ".join(wellbeing.unjudged[:3]) + (f" and {len(wellbeing.unjudged) - 3} more" if len(wellbeing.unjudged) > 3 else "")
        yield f"neither latency nor waiting is known: {names}"
