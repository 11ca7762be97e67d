"""A reading that may fail without harm to the others: its value, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def attempt(missing: dict[str, str], names: tuple[str, ...], reading: Callable[[], T]) -> T | None:
    """Return what `reading` returns; where it cannot be read, None, and say why under each of `names`."""
    try:
        return reading()
    except FileNotFoundError as error:
        reason = f"this kernel has no {error.filename}"
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}"
    except ValueError as error:
        reason = str(error)
    for name in names:
        missing[name] = reason
    return None
