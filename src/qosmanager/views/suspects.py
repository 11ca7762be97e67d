"""Who is suspected, in words (specification, section 3: attribution)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from qosmanager.model.attribution import Attribution


def attribution_text(attribution: Attribution) -> str:
    """Say of a suffering service who is likely to be the cause, or why nobody is named."""
    if not attribution.suspects:
        return f"it suffers; nobody is suspected: {attribution.why_none}"
    named = ", ".join(f"the {_BY[each.by]} of {each.pod} (confidence {each.confidence:.2f})" for each in attribution.suspects)
    return f"it suffers; its stall changes with {named}"


def accusations(attributions: Iterable[Attribution], pod: str) -> Iterator[str]:
    """Say which services suspect a BE pod."""
    for attribution in attributions:
        for each in attribution.suspects:
            if each.pod == pod:
                yield f"{attribution.pod} suffers, and its stall changes with this pod's {_BY[each.by]} (confidence {each.confidence:.2f})"


_BY = {"cpu": "CPU use", "io": "I/O", "memory": "memory"}
