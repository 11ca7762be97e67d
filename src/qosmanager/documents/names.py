"""Names of pods in documents: what a name may be, and that a namespace holds each name once."""

from __future__ import annotations

from typing import Protocol

from qosmanager.documents.problem import printable
from qosmanager.documents.reader import Reader

_LONGEST = 253
ALLOWED = f"1 to {_LONGEST} printable characters without a space or a slash"


class Named(Protocol):
    """Whatever a document names: a pod, a workload's declaration."""

    @property
    def name(self) -> str: ...

    @property
    def namespace(self) -> str: ...


class Names:
    """The names of one document."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str], int] = {}

    def check(self, reader: Reader, item: Named, path: str) -> None:
        """Refuse a name that is none, or that its namespace already has."""
        fit = [_check_name(reader, text, f"{path}.{field}") for field, text in (("name", item.name), ("namespace", item.namespace))]
        line = reader.lines[f"{path}.name"]
        key = (item.namespace, item.name)
        if key in self._lines and all(fit):
            message = f"{item.namespace}/{item.name} was already given in line {self._lines[key]}"
            reader.refuse(line, f"{path}.name", message)
        self._lines.setdefault(key, line)


def check_key(reader: Reader, key: str, path: str) -> None:
    """Refuse a reference to a pod that is not `namespace/name`."""
    namespace, _, name = key.partition("/")
    if not (is_name(namespace) and is_name(name)):
        reader.refuse(reader.lines[path], path, "a pod is written namespace/name", value=printable(key))


def _check_name(reader: Reader, text: str, path: str) -> bool:
    if is_name(text):
        return True
    reader.refuse(reader.lines[path], path, ALLOWED, value=f'"{printable(text)}"')
    return False


def is_name(text: str) -> bool:
    """Tell whether a pod or a namespace may be called so."""
    return 0 < len(text) <= _LONGEST and text.isprintable() and " " not in text and "/" not in text
