"""Checks data against the part of JSON Schema (draft 2020-12) that our schemas use; a keyword that it does not know is an error."""

from __future__ import annotations

import re

_TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
_SAID_ONLY = {"$schema", "title", "description", "default"}


def faults(schema, data, path="$"):
    """Return the paths at which the data is not what the schema allows."""
    unknown = set(schema) - _SAID_ONLY - set(_RULES)
    assert not unknown, f"the checker does not know {unknown}"
    return [fault for keyword, rule in _RULES.items() if keyword in schema for fault in rule(schema, data, path)]


def _type(schema, data, path):
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return [] if any(_is(name, data) for name in names) else [path]


def _is(name, data):
    if name in ("number", "integer"):
        number = isinstance(data, int | float) and not isinstance(data, bool)
        return number and (name == "number" or float(data).is_integer())
    return isinstance(data, _TYPES[name])


def _properties(schema, data, path):
    if not isinstance(data, dict):
        return []
    return [fault for key, each in schema["properties"].items() if key in data for fault in faults(each, data[key], f"{path}.{key}")]


def _additional(schema, data, path):
    further, given = schema["additionalProperties"], data if isinstance(data, dict) else {}
    unnamed = [key for key in given if key not in schema.get("properties", {})]
    if further is False:
        return [f"{path}.{key}" for key in unnamed]
    return [fault for key in unnamed for fault in faults(further, given[key], f"{path}.{key}")]


def _items(schema, data, path):
    if not isinstance(data, list):
        return []
    return [fault for number, each in enumerate(data) for fault in faults(schema["items"], each, f"{path}[{number}]")]


def _number(compare):
    def rule(schema, data, path):
        return [path] if isinstance(data, int | float) and not isinstance(data, bool) and not compare(schema, data) else []

    return rule


_RULES = {
    "type": _type,
    "properties": _properties,
    "additionalProperties": _additional,
    "items": _items,
    "required": lambda schema, data, path: [f"{path}.{key}" for key in schema["required"] if isinstance(data, dict) and key not in data],
    "enum": lambda schema, data, path: [] if data in schema["enum"] else [path],
    "pattern": lambda schema, data, path: [path] if isinstance(data, str) and not re.search(schema["pattern"], data) else [],
    "uniqueItems": lambda _, data, path: [path] if isinstance(data, list) and len(data) != len(set(data)) else [],
    "maxItems": lambda schema, data, path: [path] if isinstance(data, list) and len(data) > schema["maxItems"] else [],
    "anyOf": lambda schema, data, path: [] if any(not faults(each, data, path) for each in schema["anyOf"]) else [path],
    "minimum": _number(lambda schema, data: data >= schema["minimum"]),
    "maximum": _number(lambda schema, data: data <= schema["maximum"]),
    "exclusiveMinimum": _number(lambda schema, data: data > schema["exclusiveMinimum"]),
}
