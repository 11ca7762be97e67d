"""The first place in which two values of one shape differ, as a person would point at it.

In: what is recorded and what comes out now. Out: the path of the field ("plan.actions[0].cores") and both values.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from itertools import zip_longest
from typing import Any

import msgspec
from msgspec import Struct

from qosmanager.documents.problem import printable

_NOTHING = "nothing"
_LEAD = 20  # characters


class Difference(Struct, frozen=True):
    """Which field, what was recorded there, and what comes out now."""

    field: str
    recorded: str
    now: str


def first_difference(name: str, recorded: object, now: object) -> Difference | None:
    """Return the first field that differs, in the order of the fields; None: none does."""
    return next(_differences(name, recorded, now), None)


def _differences(name: str, recorded: Any, now: Any) -> Iterator[Difference]:
    parts = _parts(name, recorded, now) if type(recorded) is type(now) else None
    if parts is not None:
        for part in parts:
            yield from _differences(*part)
    elif recorded != now or repr(recorded) != repr(now):  # 0.0 and -0.0 are the same, and other bytes
        yield Difference(
            name, *(_around(recorded, now) if isinstance(recorded, str) and isinstance(now, str) else (shown(recorded), shown(now)))
        )


def _parts(name: str, recorded: Any, now: Any) -> list[tuple[str, Any, Any]] | None:
    """Return what two values of one type consist of, side by side; None: nothing smaller."""
    if isinstance(recorded, Struct):
        return [(f"{name}.{field}", getattr(recorded, field), getattr(now, field)) for field in recorded.__struct_fields__]
    if isinstance(recorded, tuple | list):
        return [(f"{name}[{place}]", *pair) for place, pair in enumerate(zip_longest(recorded, now))]
    if isinstance(recorded, dict):
        return [(f"{name}[{key}]", recorded.get(key), now.get(key)) for key in dict.fromkeys((*recorded, *now))]
    return None


def _around(recorded: str, now: str) -> tuple[str, str]:
    """Return two texts from shortly before where they part."""
    same = next((place for place, pair in enumerate(zip_longest(recorded, now)) if pair[0] != pair[1]), 0)
    begin = same - _LEAD if same > 2 * _LEAD else 0
    lead = "..." if begin else ""
    return lead + printable(recorded[begin:]), lead + printable(now[begin:])


def shown(value: object) -> str:
    """Return a value on one line, bounded."""
    if value is None:
        return _NOTHING
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, float | int):
        return repr(value)
    if isinstance(value, str):
        return printable(value)
    try:
        return printable(msgspec.json.encode(value).decode())
    except UnicodeEncodeError:
        return printable(repr(value))
