"""JSON Schema (draft 2020-12) of the two kinds of file that people write, for editors that check while one types (section 6).

In: the types that the parser reads, with their `Meta`. Out: a schema as data. What it cannot say (thresholds that rise, a bound of a
duration) stands in the descriptions; `qosmanager config check` knows it all.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec
from msgspec import NODEFAULT, Struct

from qosmanager.config.node_strategies import MOST_STRATEGIES, STRATEGIES, NodeGroup
from qosmanager.config.parse import PLUGIN_SECTIONS, ROOT
from qosmanager.config.presets import Preset
from qosmanager.config.settings import Settings
from qosmanager.config.written import written
from qosmanager.documents.quantities import DURATION_TEXT, QUANTITY_TEXT, Rule
from qosmanager.documents.reader import allowed, unwrapped
from qosmanager.documents.workloads import DOCUMENT

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]

_SIGN = "[-+]?"


def config_schema() -> Schema:
    """Return the schema of a configuration file."""
    enabled = {"type": "boolean", "description": "short for mode: true is enforce, false is off"}
    also: dict[type[Struct], Schema] = {kind: {"enabled": enabled} for kind in PLUGIN_SECTIONS}
    names = [preset.value for preset in Preset]
    also[Settings] = {
        "preset": {"enum": names, "description": "settings by name, under the keys of this file; see `qosmanager config presets`"}
    }
    group = _struct(NodeGroup, None, {})
    overrides = _without_defaults(_struct(Settings, Settings(), also)["properties"])
    strategy = {**group, "properties": {**group["properties"], **overrides}}
    groups = {"type": ["array", "null"], "description": _doc(NodeGroup), "maxItems": MOST_STRATEGIES, "items": strategy}
    also[Settings] = {**also[Settings], STRATEGIES: groups}
    return {
        "$schema": DIALECT,
        "title": "QOSManager configuration",
        "type": ["object", "null"],
        "properties": {ROOT: _struct(Settings, Settings(), also)},
        "additionalProperties": False,
    }


def workloads_schema() -> Schema:
    """Return the schema of a workload file."""
    return document_schema(DOCUMENT, "QOSManager workloads")


def document_schema(kind: type[Struct], title: str) -> Schema:
    """Return the schema of a kind of file that is read by its types alone."""
    return {"$schema": DIALECT, "title": title, **_struct(kind, None, {})}


def _struct(kind: type[Struct], base: Struct | None, also: Mapping[type[Struct], Schema]) -> Schema:
    properties: Schema = dict(also.get(kind, {}))
    required = []
    for field in msgspec.structs.fields(kind):
        value = field.default if base is None else getattr(base, field.name)
        properties[field.encode_name] = _value(field.type, value, also)
        if value is NODEFAULT and field.default_factory is NODEFAULT:
            required.append(field.encode_name)
    schema = {"type": ["object", "null"], "description": _doc(kind), "properties": properties, "additionalProperties": False}
    return {**schema, "type": "object", "required": required} if required else schema


def _value(annotation: Any, default: Any, also: Mapping[type[Struct], Schema]) -> Schema:
    kind, rule, optional = unwrapped(annotation)
    schema: Schema
    if typing.get_origin(kind) is dict:
        schema = {"type": ["object", "null"], "description": _meaning(annotation), "additionalProperties": {"type": "string"}}
        default = NODEFAULT
    elif typing.get_origin(kind) is tuple:
        schema = _list(typing.get_args(kind)[0], rule, also)
    elif issubclass(kind, Struct):
        schema = _struct(kind, default if isinstance(default, Struct) else None, also)
    else:
        schema = _scalar(kind, rule)
        words = " ".join(part for part in (_meaning(annotation), f"({allowed(kind, rule)})") if part)
        schema["description"] = words
    if optional:
        schema = {"anyOf": [schema, {"type": "null"}]}
    if default is not NODEFAULT and default is not None and not isinstance(default, Struct):
        schema["default"] = _as_json(default, rule)
    return schema


def _without_defaults(schema: Any) -> Any:
    """Return a schema of what only overrides: what is left out is as it is elsewhere."""
    if isinstance(schema, dict):
        return {key: _without_defaults(value) for key, value in schema.items() if key != "default"}
    return schema


def _list(item: Any, rule: Rule, also: Mapping[type[Struct], Schema]) -> Schema:
    kind, _, _ = unwrapped(item, rule)
    if issubclass(kind, Struct):
        return {"type": ["array", "null"], "items": _struct(kind, None, also)}
    return {"type": ["array", "null"], "items": _scalar(kind, rule), "uniqueItems": True}


def _scalar(kind: type, rule: Rule) -> Schema:
    if issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    if issubclass(kind, bool):
        return {"type": "boolean"}
    if issubclass(kind, str):
        return {"type": "string"}
    if rule.unit == "duration":
        return {"type": "string", "pattern": DURATION_TEXT}
    bounds: Schema = {}
    for name, bound in (("minimum", rule.low), ("maximum", rule.high), ("exclusiveMinimum", rule.above)):
        if bound is not None:
            bounds[name] = bound
    if rule.has_suffix:
        lowest = rule.low if rule.low is not None else rule.above
        pattern = QUANTITY_TEXT if lowest is None or lowest < 0 else QUANTITY_TEXT.replace(_SIGN, "[+]?", 1)
        return {"anyOf": [{"type": "number", **bounds}, {"type": "string", "pattern": pattern}]}
    return {"type": "integer" if issubclass(kind, int) else "number", **bounds}


def _as_json(default: Any, rule: Rule) -> Any:
    """Write a default as a file would have it, in JSON's types."""
    if isinstance(default, Enum):
        return default.value
    if isinstance(default, tuple):
        return [_as_json(each, rule) for each in default]
    return written(default, rule) if rule.unit in ("duration", "bytes") else default


def _meaning(annotation: Any) -> str:
    """Return what a field's `Meta` says that it means, "" where it says nothing."""
    metas = typing.get_args(annotation)[1:] if typing.get_origin(annotation) is typing.Annotated else ()
    return next((meta.description for meta in metas if isinstance(meta, msgspec.Meta) and meta.description), "")


def _doc(kind: type[Struct]) -> str:
    return " ".join((kind.__doc__ or "").split("\n\n")[0].split())
