"""Field selectors: which objects a list or a watch is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loopback_api.store import Object


def selected(found: Object, query: dict[str, str]) -> bool:
    """Whether an object meets the field selector."""
    for term in filter(None, query.get("fieldSelector", "").split(",")):
        path, _, wanted = term.replace("==", "=").partition("=")
        value: Any = found
        for key in path.split("."):
            value = value.get(key, "") if isinstance(value, dict) else ""
        if value != wanted:
            return False
    return True
