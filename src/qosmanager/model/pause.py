"""A pause of the whole agent: for how long, by whom, why (specification, section 2)."""

from __future__ import annotations

from msgspec import Struct


class Pause(Struct, frozen=True, kw_only=True):
    """Ends at `ends` (CLOCK_BOOTTIME seconds) of the boot `boot_id`; `since` and `until` are the same in epoch seconds, for people."""

    boot_id: str
    ends: float
    since: float
    until: float
    by: str
    reason: str = ""
