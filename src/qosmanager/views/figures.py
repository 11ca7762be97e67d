"""How figures are shown: rounded for JSON, short for people, times as ISO 8601 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

MIB = 1024 * 1024


def rounded(value: float | None) -> float | None:
    """Return a number with the 4 decimals of section 8; None stays None (not measured)."""
    return None if value is None else round(value, 4)


def iso(wall: float) -> str:
    """Return epoch seconds as ISO 8601 with milliseconds in UTC."""
    return datetime.fromtimestamp(wall, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def short(value: float | None) -> str:
    """Return a number with two decimals for a log line; a quantity that is not measured is a dash."""
    return "-" if value is None else f"{value:.2f}"


def topic(reason: str) -> str:
    """Return the part of a reason that names it: the text before the first colon, without the numbers of the moment."""
    return reason.split(":", 1)[0].strip()
