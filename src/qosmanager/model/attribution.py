"""Who makes a service wait, as far as their histories tell (specification, section 3: attribution)."""

from __future__ import annotations

from msgspec import Struct


class Suspect(Struct, frozen=True, gc=False):
    """A BE pod (key) whose use of `by` ("cpu", "io" or "memory") changes with the service's stall. `confidence`: 0 to 1."""

    pod: str
    by: str
    confidence: float


class Attribution(Struct, frozen=True, gc=False):
    """A service (key) that suffers, and who is likely to be the cause, likeliest first. `why_none`: why nobody is named, else ""."""

    pod: str
    suspects: tuple[Suspect, ...] = ()
    why_none: str = ""
