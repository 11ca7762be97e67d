"""The first place in which two values of one shape differ, as a person would point at it.

In: what is recorded and what comes out now. Out: the path of the field ("plan.actions[0].cores") and both values.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterator
from enum import Enum
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
    if type(recorded) is not type(now):
        yield Difference(name, shown(recorded), shown(now))
    elif isinstance(recorded, Struct):
        for field in recorded.__struct_fields__:
            yield from _differences(f"{name}.{field}", getattr(recorded, field), getattr(now, field))
    elif isinstance(recorded, tuple | list):
        for place in range(max(len(recorded), len(now))):
            pair = (values[place] if place < len(values) else None for values in (recorded, now))
            yield from _differences(f"{name}[{place}]", *pair)
    elif isinstance(recorded, dict):
        for key in dict.fromkeys((*recorded, *now)):
            yield from _differences(f"{name}[{key}]", recorded.get(key), now.get(key))
    elif isinstance(recorded, str):
        if recorded != now:
            yield Difference(name, *_around(recorded, now))
    elif recorded != now or repr(recorded) != repr(now):  # 0.0 and -0.0 are the same, and other bytes
        yield Difference(name, shown(recorded), shown(now))


def _around(recorded: str, now: str) -> tuple[str, str]:
    """Return two texts from shortly before where they part."""
    same = len(os.path.commonprefix((recorded, now)))
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
