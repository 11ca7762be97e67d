"""The bodies of the answers that are no view of their own: the server encodes them, the client decodes them, openapi.py describes them."""

from __future__ import annotations

from msgspec import Struct

from qosmanager.model.snapshot import Snapshot
from qosmanager.views.decisions import Entry


class Health(Struct, frozen=True):
    """Whether all is well, and why (not)."""

    ok: bool
    reason: str


class Reading(Struct, frozen=True, kw_only=True):
    """The readings of the last cycle: its number, when it was (epoch seconds), and what it decided on."""

    cycle: int
    wall: float
    snapshot: Snapshot


class DecisionList(Struct, frozen=True):
    """Decisions and events, oldest first."""

    decisions: tuple[Entry, ...]


class ErrorAnswer(Struct, frozen=True, omit_defaults=True):
    """Why there is no other answer. `allowed`: what would do, left out where asking otherwise does not help."""

    error: str
    allowed: str = ""
