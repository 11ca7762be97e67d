"""The configuration file: from text to Settings, every problem at once (specification, section 6).

In: YAML or JSON with the root key `qosManager`, or a Kubernetes ConfigMap that holds such a file. Out: Settings and where each value
comes from, or DocumentError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Mapping as Table
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from qosmanager.config.node_strategies import GROUP_KEYS, MOST_STRATEGIES, STRATEGIES, Expression, NodeGroup
from qosmanager.config.presets import PRESETS, Preset
from qosmanager.config.settings import (
    CpuBurstSettings,
    CpuEvictSettings,
    CpuSuppressSettings,
    MemoryEvictSettings,
    NodeQosResourceSettings,
    Settings,
    SuppressRatio,
    SystemQosResourceSettings,
    Thresholds,
)
from qosmanager.documents.files import read_text
from qosmanager.documents.problem import DocumentError, Problem
from qosmanager.documents.quantities import ANY
from qosmanager.documents.reader import REFUSED, Checks, Grammar, Reader, as_written, join
from qosmanager.documents.tree import Entry, Mapping, Node, Scalar, Sequence, parse
from qosmanager.model.qos import Mode

ROOT = "qosManager"
_WORKLOADS_ROOT = "workloads"  # of the other kind of file, taken for this one by mistake
CONFIG_MAP_KEY = "koordlet-config.yaml"
DEFAULT = "default"
Labels = Table[str, str]  # of a node
S = TypeVar("S", bound=Struct)

PLUGIN_SECTIONS: tuple[type[Struct], ...] = (
    CpuBurstSettings,
    CpuSuppressSettings,
    CpuEvictSettings,
    MemoryEvictSettings,
    NodeQosResourceSettings,
    SystemQosResourceSettings,
)


class Loaded(Struct, frozen=True):
    """Settings, and for each value by its path ("qosManager.cpuBurst.burstRatio") where it comes from: "default", "preset balanced",
    "config.yaml:7" or "config.yaml:31 (nodeStrategies batch)". `groups`: the nodeStrategies that select the node, in order."""

    settings: Settings
    origins: dict[str, str]
    groups: tuple[str, ...] = ()


def read_settings(path: Path) -> Settings:
    """Read a file. Raises DocumentError, also when there is no such file or it cannot be read."""
    return load_settings(read_text(path), str(path))


def load_settings(text: str, source: str, labels: Labels | None = None) -> Settings:
    """Read a text; an empty one gives the defaults. `labels`: see `load`. Raises DocumentError."""
    return load(text, source, labels).settings


def load(text: str, source: str, labels: Labels | None = None) -> Loaded:
    """Read a text and keep where each value comes from. `labels` are the node's; None: not known, so that no nodeStrategies select it;
    they are checked all the same. Raises DocumentError."""
    root, source = _own_file(parse(text, source), source)
    file = _File(source, labels)
    file.read(root)
    file.reader.finish()
    origins = {path: file.origins.get(path, DEFAULT) for path, _ in _values(file.settings, ROOT)}
    return Loaded(file.settings, origins, tuple(file.groups))


def _own_file(root: Node, source: str) -> tuple[Node, str]:
    """Take the file out of a ConfigMap. Its lines are those of the ConfigMap where the text stands there as it is (`|`)."""
    if not isinstance(root, Mapping) or _text(root.entries.get("kind")) != "ConfigMap":
        return root, source
    data = root.entries.get("data")
    entry = data.value.entries.get(CONFIG_MAP_KEY) if data and isinstance(data.value, Mapping) else None
    if entry is None or not isinstance(entry.value, Scalar):
        line = data.line if data else root.line
        message = f"this ConfigMap holds no text under {CONFIG_MAP_KEY}"
        raise DocumentError([Problem(source=source, line=line, path=f"data.{CONFIG_MAP_KEY}", message=message)])
    inner = entry.value
    if inner.style == "|":
        return parse(inner.text, source, first_line=inner.line + 1), source
    source = f"{source} (in data.{CONFIG_MAP_KEY}, its own line)"
    return parse(inner.text, source), source


def _text(entry: Entry | None) -> str | None:
    return entry.value.text if entry and isinstance(entry.value, Scalar) else None


class _File:
    """One configuration file while it is read: the file's own values, then those of the nodeStrategies that select the node."""

    def __init__(self, source: str, labels: Labels | None) -> None:
        checks: Checks = {
            Thresholds: self._check_thresholds,
            SuppressRatio: self._check_ratios,
            Settings: self._check_plugins,
            Expression: _check_expression,
        }
        also: dict[type[Struct], tuple[str, ...]] = {Settings: ("preset", STRATEGIES), **dict.fromkeys(PLUGIN_SECTIONS, ("enabled",))}
        self.reader = Reader(source, Grammar(also=also, checks=checks))
        self.settings = Settings()
        self.origins: dict[str, str] = {}  # of what is no default
        self.groups: list[str] = []
        self._labels = labels
        self._at = ROOT  # path of the part that is being read
        self._under: dict[str, str] = {}  # where what lies under it comes from

    def read(self, root: Node) -> None:
        if isinstance(root, Scalar) and root.is_null:
            root = Mapping({}, root.line)
        if not isinstance(root, Mapping):
            self.reader.refuse(root.line, "", f"a mapping with the key {ROOT}", value=as_written(root))
            return
        for key, entry in root.entries.items():
            if key == _WORKLOADS_ROOT:
                self.reader.refuse(entry.line, key, "unknown key", hint=f"known are {ROOT}; a workload file goes with --workloads")
            elif key != ROOT:
                self.reader.unknown_key(entry.line, key, key, [ROOT])
        section = root.entries[ROOT].value if ROOT in root.entries else Mapping({}, root.line)
        self.settings, self.origins = self._part(section, ROOT, "")
        strategies = section.entries.get(STRATEGIES) if isinstance(section, Mapping) else None
        if strategies is not None:
            self._read_strategies(strategies)

    def _read_strategies(self, entry: Entry) -> None:
        path = join(ROOT, STRATEGIES)
        if isinstance(entry.value, Scalar) and entry.value.is_null:
            return
        if not isinstance(entry.value, Sequence):
            self.reader.refuse(entry.line, path, "a list", value=as_written(entry.value))
            return
        if len(entry.value.items) > MOST_STRATEGIES:
            self.reader.refuse(entry.line, path, f"holds {len(entry.value.items)}; at most {MOST_STRATEGIES} are allowed")
            return
        own = self.settings, self.origins
        chosen = own
        for index, item in enumerate(entry.value.items):
            where = f"{path}[{index}]"
            if not isinstance(item, Mapping):
                self.reader.refuse(item.line, where, "a mapping with name, nodeSelector and settings", value=as_written(item))
                continue
            head = Mapping({key: each for key, each in item.entries.items() if key in GROUP_KEYS}, item.line)
            rest = Mapping({key: each for key, each in item.entries.items() if key not in GROUP_KEYS}, item.line)
            if STRATEGIES in rest.entries:
                self.reader.refuse(rest.entries[STRATEGIES].line, join(where, STRATEGIES), "is not allowed inside another one")
            selector = head.entries.get("nodeSelector")
            if selector is not None and isinstance(selector.value, Scalar) and selector.value.is_null:
                self.reader.refuse(selector.line, join(where, "nodeSelector"), "a mapping", value="null", hint="{} selects every node")
            group = self.reader.struct(head, NodeGroup, where)
            is_selected = group is not None and self._labels is not None and group.node_selector.selects(self._labels)
            # One that is for other nodes is checked over the file's own values.
            self.settings, self.origins = chosen if is_selected else own
            name = group.name if group is not None and group.name else f"[{index}]"
            found = self._part(rest, where, f" ({STRATEGIES} {name})")
            if is_selected:
                chosen = found
                self.groups.append(name)
        self.settings, self.origins = chosen

    def _part(self, node: Node, path: str, mark: str) -> tuple[Settings, dict[str, str]]:
        """Read settings over those known so far; return them and where each comes from, `mark` behind what this part says."""
        self._at, self._under = path, dict(self.origins)
        base = self._with_preset(node.entries.get("preset") if isinstance(node, Mapping) else None, mark)
        settings = self.reader.struct(node, Settings, path, base)
        assert settings is not None  # every setting has a default
        settings = self._with_short_forms(settings, node)
        given = {inner: self.reader.lines.get(path + inner.removeprefix(ROOT)) for inner, _ in _values(settings, ROOT)}
        said = {inner: f"{self.reader.source}:{line}{mark}" for inner, line in given.items() if line is not None}
        return settings, self._under | said

    def _with_preset(self, entry: Entry | None, mark: str) -> Settings:
        """Return the settings known so far with what a preset changes."""
        if entry is None:
            return self.settings
        preset = self.reader.value(entry.value, Preset, ANY, join(self._at, "preset"))
        if preset is REFUSED:
            return self.settings
        defaults = dict(_values(Settings(), ROOT))
        changed = {path for path, value in _values(PRESETS[preset], ROOT) if value != defaults[path]}
        self._under |= dict.fromkeys(changed, f"preset {preset.value}{mark}")
        return _overlaid(self.settings, PRESETS[preset], ROOT, changed)

    def _with_short_forms(self, settings: Settings, section: Node) -> Settings:
        """Let each plugin's `enabled` stand for its mode."""
        changes: dict[str, Any] = {}
        for field in msgspec.structs.fields(Settings):
            plugin = getattr(settings, field.name)
            entry = section.entries.get(field.encode_name) if isinstance(section, Mapping) else None
            if isinstance(plugin, PLUGIN_SECTIONS) and entry and isinstance(entry.value, Mapping) and "enabled" in entry.value.entries:
                changes[field.name] = self._with_short_form(plugin, entry.value.entries["enabled"], join(self._at, field.encode_name))
        return msgspec.structs.replace(settings, **changes)

    def _with_short_form(self, plugin: Any, enabled: Entry, path: str) -> Any:
        value = self.reader.value(enabled.value, bool, ANY, f"{path}.enabled")
        if value is REFUSED:
            return plugin
        mode = Mode.ENFORCE if value else Mode.OFF
        if f"{path}.mode" not in self.reader.lines:
            self.reader.lines[f"{path}.mode"] = enabled.line
        elif plugin.mode is not mode and not self.reader.refused(f"{path}.mode"):
            message = f"it is short for mode {mode.value}, but mode is {plugin.mode.value}"
            self.reader.refuse(enabled.line, f"{path}.enabled", message, value=as_written(enabled.value), hint="keep one of the two")
        return msgspec.structs.replace(plugin, mode=mode)

    def _check_thresholds(self, _: Reader, thresholds: Thresholds, path: str) -> None:
        self._check_pairs(thresholds, path, lambda lower, upper: lower < upper, "thresholds rise: {} < {}")

    def _check_ratios(self, _: Reader, ratios: SuppressRatio, path: str) -> None:
        self._check_pairs(ratios, path, lambda lower, upper: lower >= upper, "ratios do not rise: {} >= {}")

    def _check_pairs(self, values: Struct, path: str, holds: Callable[[float, float], bool], rule: str) -> None:
        """Refuse neighbours between which the rule does not hold, at a key that the user wrote, naming where the other comes from."""
        names = [name for name in values.__struct_fields__ if not self.reader.refused(f"{path}.{name}")]
        for lower, upper in pairwise(names):
            if holds(getattr(values, lower), getattr(values, upper)):
                continue
            own, other = (upper, lower) if f"{path}.{upper}" in self.reader.lines else (lower, upper)
            if f"{path}.{own}" not in self.reader.lines:
                continue  # what lies under this part is at fault, and has been told so
            hint = f"{other} is {getattr(values, other):g}, {self._origin(f'{path}.{other}')}"
            line = self.reader.lines[f"{path}.{own}"]
            self.reader.refuse(line, f"{path}.{own}", rule.format(lower, upper), value=f"{getattr(values, own):g}", hint=hint)

    def _check_plugins(self, reader: Reader, settings: Settings, path: str) -> None:
        for index, plugin in enumerate(settings.plugins):
            if plugin in settings.plugins[:index]:
                where = f"{path}.plugins"
                if where in reader.lines:
                    reader.refuse(reader.lines[where], where, f"{plugin.value} is named twice")

    def _origin(self, path: str) -> str:
        line = self.reader.lines.get(path)
        return self._under.get(ROOT + path.removeprefix(self._at), DEFAULT) if line is None else f"{self.reader.source}:{line}"


def _check_expression(reader: Reader, expression: Expression, path: str) -> None:
    if expression.takes_values != bool(expression.values):
        what = "takes one value or more" if expression.takes_values else "takes no values"
        reader.refuse(reader.lines[f"{path}.operator"], f"{path}.values", f"{expression.operator.value} {what}")


def _overlaid(settings: S, over: Struct, path: str, changed: set[str]) -> S:
    """Return settings with the values of another at some paths."""
    changes: dict[str, Any] = {}
    for field in msgspec.structs.fields(settings):
        where, value = join(path, field.encode_name), getattr(over, field.name)
        if isinstance(value, Struct):
            changes[field.name] = _overlaid(getattr(settings, field.name), value, where, changed)
        elif where in changed:
            changes[field.name] = value
    return msgspec.structs.replace(settings, **changes)


def _values(settings: Struct, path: str) -> Iterator[tuple[str, Any]]:
    """Yield every single value with its path."""
    for field in msgspec.structs.fields(settings):
        value, where = getattr(settings, field.name), join(path, field.encode_name)
        if isinstance(value, Struct):
            yield from _values(value, where)
        else:
            yield where, value
