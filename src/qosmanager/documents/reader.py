"""Turns a document's tree into frozen Structs by their annotations, collecting every problem on the way (specification, section 6).

In: nodes of `tree`, a Struct type, and, for types without `Meta` of their own, a table of rules. Out: the Struct, where a value that is
refused is replaced by its default so that the rest can still be checked; `Reader.finish` raises DocumentError when there were any.
"""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Callable, Iterable
from collections.abc import Mapping as Table
from enum import Enum
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo

from qosmanager.documents import quantities
from qosmanager.documents.problem import MOST, DocumentError, Problem, printable
from qosmanager.documents.quantities import ANY, Rule
from qosmanager.documents.tree import Mapping, Node, Scalar, Sequence
from qosmanager.model.count import counted

S = TypeVar("S", bound=Struct)
Rules = Table[type[Struct], Table[str, Rule]]
Checks = Table[type[Struct], Callable[["Reader", Any, str], None]]


class _Refused:
    """Stands for a value with a problem."""


REFUSED = _Refused()


class Grammar(Struct, frozen=True, kw_only=True):
    """What a kind of document says about its types beyond their annotations.

    `rules` by type and field; `also` names keys that a type's mapping may hold beside its fields (whoever allows them reads them);
    `checks` are called with each value of a type and its path, for what no field can tell alone.
    """

    rules: Rules = {}
    also: Table[type[Struct], tuple[str, ...]] = {}
    checks: Checks = {}


class Reader:
    """Reads one document. `lines` maps the path of every value that was given to the line of its key."""

    def __init__(self, source: str, grammar: Grammar) -> None:
        self.source = source
        self.lines: dict[str, int] = {}
        self._grammar = grammar
        self._problems: list[Problem] = []
        self._further = 0

    def refuse(self, line: int, path: str, message: str, *, value: str | None = None, hint: str = "") -> _Refused:
        """Note a problem; returns the sign for a refused value."""
        if len(self._problems) < MOST:
            problem = Problem(source=self.source, line=line, path=printable(path), value=value, message=message, hint=hint)
            self._problems.append(problem)
        else:
            self._further += 1
        return REFUSED

    def refused(self, *paths: str) -> bool:
        """Whether one of these values already has a problem."""
        return any(problem.path in paths for problem in self._problems)

    def finish(self) -> None:
        """Raise DocumentError when anything was refused."""
        if self._further:
            last = max(problem.line or 1 for problem in self._problems)
            message = f"{counted(self._further, 'further problem')} not shown"
            self._problems.append(Problem(source=self.source, line=last, message=message))
        if self._problems:
            raise DocumentError(self._problems)

    def struct(self, node: Node, kind: type[S], path: str, base: S | None = None) -> S | None:
        """Read a mapping into `kind`; what is left out keeps the value of `base`. None when a required value is not there."""
        if isinstance(node, Scalar) and node.is_null:
            node = Mapping({}, node.line)
        fields = _fields(kind)
        known = (*fields, *self._grammar.also.get(kind, ()))
        if not isinstance(node, Mapping):
            self.refuse(node.line, path, f"a mapping with keys such as {', '.join(known[:4])}", value=as_written(node))
            return base
        for key, entry in node.entries.items():
            if key not in known:
                self.unknown_key(entry.line, join(path, key), key, known)
        values: dict[str, Any] = {}
        for key, field in fields.items():
            default = _default(field) if base is None else getattr(base, field.name)
            values[field.name] = self._field(node, field, self._rule(kind, field), join(path, key), default)
        if any(value is NODEFAULT for value in values.values()):
            return None
        result = kind(**values)
        if kind in self._grammar.checks:
            self._grammar.checks[kind](self, result, path)
        return result

    def value(self, node: Node, annotation: Any, rule: Rule, path: str, base: Any = None) -> Any:
        """Read one value of the annotated type; REFUSED when it has a problem, which is then noted."""
        kind, rule, optional = unwrapped(annotation, rule)
        null = isinstance(node, Scalar) and node.is_null
        if optional and null:
            return None
        origin = typing.get_origin(kind)
        if origin is tuple:
            return self._list(node, typing.get_args(kind)[0], rule, path)
        if origin is dict:
            return self._table(node, typing.get_args(kind)[1], rule, path)
        if issubclass(kind, Struct):
            result = self.struct(node, kind, path, base)
            return REFUSED if result is None else result
        if null or not isinstance(node, Scalar):
            return self.refuse(node.line, path, allowed(kind, rule), value=as_written(node))
        return self._scalar(node, kind, rule, path)

    def unknown_key(self, line: int, path: str, key: str, known: Iterable[str]) -> None:
        """Note a key that does not exist, with the nearest that does."""
        if len(self._problems) >= MOST:
            self._further += 1
            return
        near = nearest(key, known)
        self.refuse(line, path, "unknown key", hint=f"did you mean {near}?" if near else f"known are {', '.join(known)}")

    def _field(self, node: Mapping, field: FieldInfo, rule: Rule, path: str, default: Any) -> Any:
        entry = node.entries.get(field.encode_name)
        if entry is None:
            if rule.required or default is NODEFAULT:
                self.refuse(node.line, path, f"is required: {allowed(unwrapped(field.type, rule)[0], rule)}")
            return default
        self.lines[path] = entry.line
        value = self.value(entry.value, field.type, rule, path, None if default is NODEFAULT else default)
        return default if value is REFUSED else value

    def _rule(self, kind: type[Struct], field: FieldInfo) -> Rule:
        return self._grammar.rules.get(kind, {}).get(field.name, ANY)

    def _list(self, node: Node, annotation: Any, rule: Rule, path: str) -> Any:
        if isinstance(node, Scalar) and node.is_null:
            return ()
        if not isinstance(node, Sequence):
            return self.refuse(node.line, path, "a list", value=as_written(node))
        items = []
        for index, item in enumerate(node.items):
            where = f"{path}[{index}]"
            self.lines[where] = item.line
            items.append(self.value(item, annotation, rule, where))
        return tuple(item for item in items if item is not REFUSED)

    def _table(self, node: Node, annotation: Any, rule: Rule, path: str) -> Any:
        if isinstance(node, Scalar) and node.is_null:
            return {}
        if not isinstance(node, Mapping):
            return self.refuse(node.line, path, "a mapping", value=as_written(node))
        table = {}
        for key, entry in node.entries.items():
            where = join(path, key)
            self.lines[where] = entry.line
            table[key] = self.value(entry.value, annotation, rule, where)
        return {key: value for key, value in table.items() if value is not REFUSED}

    def _scalar(self, node: Scalar, kind: type, rule: Rule, path: str) -> Any:
        try:
            value = _meaning(node, kind, rule)
        except ValueError as error:
            return self.refuse(node.line, path, allowed(kind, rule), value=as_written(node), hint=str(error))
        if isinstance(value, int | float) and not rule.allows(value):
            return self.refuse(node.line, path, allowed(kind, rule), value=as_written(node))
        return value


def join(path: str, key: str) -> str:
    """Return the path of a key below another path."""
    return f"{path}.{key}" if path else key


def as_written(node: Node) -> str:
    """Show a value in a message."""
    if isinstance(node, Scalar):
        if node.is_null:
            return "null"
        text = printable(node.text)
        return f'"{text}"' if node.style else text
    return "a list" if isinstance(node, Sequence) else "a mapping"


def allowed(kind: type, rule: Rule) -> str:
    """Say in words what a value of this type may be."""
    if typing.get_origin(kind) is tuple:
        return "a list"
    if issubclass(kind, Enum):
        return f"one of {', '.join(str(member.value) for member in kind)}"
    if issubclass(kind, bool):
        return "true or false"
    if issubclass(kind, int | float):
        return rule.allowed(whole=issubclass(kind, int))
    return "a text" if issubclass(kind, str) else "a mapping"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that a mistyped one most resembles."""
    by_lower = {name.lower(): name for name in known}
    plain = word[:64].lower().replace("_", "").replace("-", "")
    return next((by_lower[near] for near in difflib.get_close_matches(plain, by_lower, n=1, cutoff=0.7)), None)


@cache
def _fields(kind: type[Struct]) -> dict[str, FieldInfo]:
    """Return a type's fields by their keys in a document; resolving annotations takes longer than reading a pod."""
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


def _default(field: FieldInfo) -> Any:
    if field.default_factory is not NODEFAULT:
        return typing.cast("typing.Callable[[], Any]", field.default_factory)()
    return field.default


def unwrapped(annotation: Any, rule: Rule = ANY) -> tuple[Any, Rule, bool]:
    """Take `Annotated[X | None, Meta(extra=rule)]` apart: X, the rule, whether null is allowed."""
    if typing.get_origin(annotation) is typing.Annotated:
        annotation, *metas = typing.get_args(annotation)
        for meta in metas:
            if isinstance(meta, msgspec.Meta) and meta.extra:
                rule = Rule(**meta.extra)
    if typing.get_origin(annotation) not in (types.UnionType, typing.Union):
        return annotation, rule, False
    (inner,) = (kind for kind in typing.get_args(annotation) if kind is not types.NoneType)
    kind, rule, _ = unwrapped(inner, rule)
    return kind, rule, True


def _meaning(node: Scalar, kind: type, rule: Rule) -> Any:
    """Return what a scalar's text means as a value of this type. ValueError: nothing; its text is a hint."""
    if issubclass(kind, Enum):
        members = {str(member.value): member for member in kind}
        if node.text in members:
            return members[node.text]
        near = nearest(node.text, members)
        raise ValueError(f"did you mean {near}?" if near else "")
    if issubclass(kind, str):
        if not node.style and _reads_as_no_text(node.text):
            raise ValueError(f'write "{node.text}" in quotes')
        return node.text
    if issubclass(kind, bool):
        words = {"true": True, "false": False}
        if node.style or node.text.lower() not in words:
            raise ValueError("without quotes" if node.style and node.text.lower() in words else "")
        return words[node.text.lower()]
    if node.style and not rule.has_suffix:
        raise ValueError("without quotes")
    if issubclass(kind, int) and rule.unit != "bytes":
        return quantities.whole(node.text)
    return quantities.number(node.text, rule)


def _reads_as_no_text(text: str) -> bool:
    """Whether other readers of YAML take this plain word for a number or a truth value."""
    if text.lower() in ("true", "false", "yes", "no", "on", "off"):
        return True
    try:
        quantities.plain(text)
    except ValueError:
        return False
    return True
