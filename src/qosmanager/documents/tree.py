"""YAML (of which JSON is a part) as a tree in which every value knows its line. In: text. Out: nodes, or DocumentError.

Only what a configuration file needs: one document, unique plain keys, no tags, no aliases, bounded size and depth. Scalars stay text;
what a text means is up to the type that is asked for (`reader`), so that `mode: off` is a word and `1:30` no number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml
from msgspec import Struct

from qosmanager.documents.problem import DocumentError, Problem, printable

LARGEST = 2 * 1024 * 1024  # bytes; ten times a snapshot of 1000 pods
DEEPEST = 32

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


class Scalar(Struct, frozen=True):
    """A text as written; `style` is the quote (`'`, `"`), the block sign (`|`, `>`) or "" for a plain one."""

    text: str
    line: int
    style: str = ""

    @property
    def is_null(self) -> bool:
        return not self.style and self.text in _NULLS


class Sequence(Struct, frozen=True):
    """A list."""

    items: tuple[Node, ...]
    line: int


class Entry(Struct, frozen=True):
    """A value and the line of its key."""

    value: Node
    line: int


class Mapping(Struct, frozen=True):
    """Keys in the order of the text."""

    entries: dict[str, Entry]
    line: int


Node = Scalar | Sequence | Mapping


def parse(text: str, source: str, first_line: int = 1) -> Node:
    """Return the tree of the one document in `text`; an empty text is a null. `first_line` is the number of its first line."""
    try:
        if len(text.encode()) > LARGEST:
            raise DocumentError([Problem(source=source, line=first_line, message=f"is larger than {LARGEST} bytes")])
    except UnicodeEncodeError as error:
        line = first_line + text.count("\n", 0, error.start)
        raise DocumentError([Problem(source=source, line=line, message="holds half of a surrogate pair, which is no character")]) from None
    builder = _Builder(source, first_line)
    try:
        return builder.document(yaml.parse(text, Loader=_LOADER))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = first_line + (min(mark.line, text.count("\n")) if mark else 0)
        context, problem = getattr(error, "context", None), getattr(error, "problem", None)
        parts = [part for part in (context, problem) if part] or [str(error)]
        hint = "a tab indents it; YAML is indented by spaces" if _tab_indents(text, line - first_line) else ""
        message = f"cannot be read as YAML or JSON: {': '.join(map(printable, parts))}"
        raise DocumentError([Problem(source=source, line=line, message=message, hint=hint)]) from None


def _tab_indents(text: str, number: int) -> bool:
    line = text.split("\n")[number]
    return "\t" in line[: len(line) - len(line.lstrip())]


def foreign(text: str) -> Any:
    """Return what a file that others define holds (a kubeconfig, kubelet's configuration), as plain values. ValueError says where it is no
    YAML, and shows nothing of the text: it may hold a secret."""
    if len(text) > LARGEST:
        raise ValueError(f"is larger than {LARGEST} bytes")
    try:
        return yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe one
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise ValueError(f"is not YAML{f' (line {mark.line + 1})' if mark else ''}") from None
    except (ValueError, RecursionError):
        raise ValueError("holds a value that is none: a time that never was, or too large a number") from None


class _Builder:
    """Builds nodes from parser events; the first thing that is refused ends it, because what follows has lost its meaning."""

    def __init__(self, source: str, first_line: int) -> None:
        self._source = source
        self._first_line = first_line

    def document(self, events: Iterator[Any]) -> Node:
        root: Node = Scalar("", self._first_line)
        documents = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._refusal(event, "a second document starts here; one file holds one")
            elif isinstance(event, yaml.NodeEvent):
                root = self._node(event, events, depth=0)
        return root

    def _node(self, event: Any, events: Iterator[Any], depth: int) -> Node:
        if isinstance(event, yaml.AliasEvent):
            raise self._refusal(event, "aliases are not read; write the value out")
        if getattr(event, "tag", None) is not None:
            raise self._refusal(event, f"tags ({printable(event.tag)}) are not read; write the plain value")
        line = self._line(event)
        if isinstance(event, yaml.ScalarEvent):
            return Scalar(event.value, line, event.style or "")
        if depth >= DEEPEST:
            raise self._refusal(event, f"is nested deeper than {DEEPEST} levels")
        if isinstance(event, yaml.SequenceStartEvent):
            items = []
            while not isinstance(event := next(events), yaml.SequenceEndEvent):
                items.append(self._node(event, events, depth + 1))
            return Sequence(tuple(items), line)
        return self._mapping(events, line, depth)

    def _mapping(self, events: Iterator[Any], line: int, depth: int) -> Mapping:
        entries: dict[str, Entry] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise self._refusal(event, "a key is a single word, not a list or a mapping")
            key = self._node(event, events, depth + 1)
            assert isinstance(key, Scalar)
            if key.text in entries:
                raise self._refusal(event, f"the key {printable(key.text)} was already given in line {entries[key.text].line}")
            entries[key.text] = Entry(self._node(next(events), events, depth + 1), key.line)
        return Mapping(entries, line)

    def _line(self, event: Any) -> int:
        return self._first_line + int(event.start_mark.line)

    def _refusal(self, event: Any, message: str) -> DocumentError:
        return DocumentError([Problem(source=self._source, line=self._line(event), message=message)])
