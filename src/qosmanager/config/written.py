"""Settings as a file writes them: durations and quantities with their units, words for modes (specification, section 6).

In: Settings. Out: every single value with its path, and each as YAML text that reads back to the same value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

import msgspec
from msgspec import Struct

from qosmanager.config.parse import DEFAULT, ROOT, Loaded
from qosmanager.config.presets import PRESETS, Preset
from qosmanager.config.settings import Settings
from qosmanager.documents.quantities import Rule, shown_duration, written_bytes
from qosmanager.documents.reader import unwrapped

_COMMENTS_AT = 36  # column at which the origins stand
_INDENT = "  "
_NO_WORDS = ("on", "off", "yes", "no", "true", "false")  # other readers of YAML take these for truth values


class Leaf(Struct, frozen=True):
    """One value: its keys from the root down, and as a file writes it."""

    keys: tuple[str, ...]
    text: str

    @property
    def path(self) -> str:
        return ".".join(self.keys)


def leaves(settings: Settings) -> Iterator[Leaf]:
    """Yield every single value in the order of the settings."""
    yield from _leaves(settings, (ROOT,))


def own_leaves(loaded: Loaded) -> Iterator[Leaf]:
    """Yield the values that are written somewhere: in a file, in one of its nodeStrategies, or in a preset."""
    return (leaf for leaf in leaves(loaded.settings) if loaded.origins.get(leaf.path, DEFAULT) != DEFAULT)


def effective_yaml(loaded: Loaded, shown: Iterable[Leaf] | None = None) -> str:
    """Return a file that holds the values in force, or some of them, with where each comes from as a comment."""
    lines: list[str] = [f"# of the nodeStrategies, these select the node: {', '.join(loaded.groups)}"] if loaded.groups else []
    above: tuple[str, ...] = ()
    for leaf in leaves(loaded.settings) if shown is None else shown:
        for depth, key in enumerate(leaf.keys[:-1]):
            if above[: depth + 1] != leaf.keys[: depth + 1]:
                lines.append(f"{_INDENT * depth}{key}:")
        above = leaf.keys[:-1]
        line = f"{_INDENT * len(above)}{leaf.keys[-1]}: {leaf.text}"
        lines.append(f"{line:<{_COMMENTS_AT}}  # {loaded.origins.get(leaf.path, DEFAULT)}")
    return "\n".join(lines or ["# every value is the default"]) + "\n"


class Change(Struct, frozen=True):
    """What a preset sets: the path below qosManager, its value, and the default's."""

    path: str
    value: str
    default: str


def changes(preset: Preset) -> tuple[Change, ...]:
    """Return what a preset changes."""
    pairs = zip(leaves(PRESETS[preset]), leaves(Settings()), strict=True)
    return tuple(Change(leaf.path.removeprefix(f"{ROOT}."), leaf.text, default.text) for leaf, default in pairs if leaf != default)


def written(value: Any, rule: Rule) -> str:
    """Write a value as YAML."""
    if isinstance(value, Enum):
        return f'"{value.value}"' if value.value in _NO_WORDS else str(value.value)
    if isinstance(value, tuple):
        return f"[{', '.join(written(each, rule) for each in value)}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if rule.unit == "duration":
        return shown_duration(value)
    if rule.unit == "bytes":
        return written_bytes(value)
    short = f"{value:.15g}"
    return short if float(short) == value else repr(value)


def _leaves(settings: Struct, above: tuple[str, ...]) -> Iterator[Leaf]:
    for field in msgspec.structs.fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, Struct):
            yield from _leaves(value, (*above, field.encode_name))
        else:
            _, rule, _ = unwrapped(field.type)
            yield Leaf((*above, field.encode_name), written(value, rule))
