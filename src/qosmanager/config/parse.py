"""The configuration file: from text to Settings, every problem at once (specification, section 6).

In: YAML or JSON with the root key `qosManager`, or a Kubernetes ConfigMap that holds such a file. Out: Settings and where each value
comes from, or DocumentError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

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
from qosmanager.documents.tree import Entry, Mapping, Node, Scalar, parse
from qosmanager.model.qos import Mode

ROOT = "qosManager"
_WORKLOADS_ROOT = "workloads"  # of the other kind of file, taken for this one by mistake
CONFIG_MAP_KEY = "koordlet-config.yaml"
DEFAULT = "default"

PLUGIN_SECTIONS: tuple[type[Struct], ...] = (
    CpuBurstSettings,
    CpuSuppressSettings,
    CpuEvictSettings,
    MemoryEvictSettings,
    NodeQosResourceSettings,
    SystemQosResourceSettings,
)


class Loaded(Struct, frozen=True):
    """Settings, and for each value by its path ("qosManager.cpuBurst.burstRatio") where it comes from: "default", "preset balanced" or
    "config.yaml:7"."""

    settings: Settings
    origins: dict[str, str]


def read_settings(path: Path) -> Settings:
    """Read a file. Raises DocumentError, also when there is no such file or it cannot be read."""
    return load_settings(read_text(path), str(path))


def load_settings(text: str, source: str) -> Settings:
    """Read a text; an empty one gives the defaults. Raises DocumentError."""
    return load(text, source).settings


def load(text: str, source: str) -> Loaded:
    """Read a text and keep where each value comes from. Raises DocumentError."""
    root, source = _own_file(parse(text, source), source)
    file = _File(source)
    file.read(root)
    file.reader.finish()
    return Loaded(file.settings, file.origins)


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
    """One configuration file while it is read. `base` is what lies under the user's own keys."""

    def __init__(self, source: str) -> None:
        checks: Checks = {Thresholds: self._check_thresholds, SuppressRatio: self._check_ratios, Settings: self._check_plugins}
        also: dict[type[Struct], tuple[str, ...]] = {Settings: ("preset",), **dict.fromkeys(PLUGIN_SECTIONS, ("enabled",))}
        self.reader = Reader(source, Grammar(also=also, checks=checks))
        self.settings = Settings()
        self.origins: dict[str, str] = {}
        self._base = Settings()
        self._under: dict[str, str] = {}  # path -> the preset that changes it

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
        if isinstance(section, Mapping):
            self._choose_preset(section.entries.get("preset"))
        settings = self.reader.struct(section, Settings, ROOT, self._base)
        assert settings is not None  # every setting has a default
        self.settings = self._with_short_forms(settings, section)
        self.origins = {path: self._origin(path) for path, _ in _values(self.settings, ROOT)}

    def _choose_preset(self, entry: Entry | None) -> None:
        if entry is None:
            return
        preset = self.reader.value(entry.value, Preset, ANY, join(ROOT, "preset"))
        if preset is not REFUSED:
            self._base = PRESETS[preset]
            defaults = dict(_values(Settings(), ROOT))
            self._under = {path: f"preset {preset.value}" for path, value in _values(self._base, ROOT) if value != defaults[path]}

    def _with_short_forms(self, settings: Settings, section: Node) -> Settings:
        """Let each plugin's `enabled` stand for its mode."""
        changes: dict[str, Any] = {}
        for field in msgspec.structs.fields(Settings):
            plugin = getattr(settings, field.name)
            entry = section.entries.get(field.encode_name) if isinstance(section, Mapping) else None
            if isinstance(plugin, PLUGIN_SECTIONS) and entry and isinstance(entry.value, Mapping) and "enabled" in entry.value.entries:
                changes[field.name] = self._with_short_form(plugin, entry.value.entries["enabled"], join(ROOT, field.encode_name))
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
            hint = f"{other} is {getattr(values, other):g}, {self._origin(f'{path}.{other}')}"
            line = self.reader.lines[f"{path}.{own}"]
            self.reader.refuse(line, f"{path}.{own}", rule.format(lower, upper), value=f"{getattr(values, own):g}", hint=hint)

    def _check_plugins(self, reader: Reader, settings: Settings, path: str) -> None:
        for index, plugin in enumerate(settings.plugins):
            if plugin in settings.plugins[:index]:
                where = f"{path}.plugins"
                reader.refuse(reader.lines[where], where, f"{plugin.value} is named twice")

    def _origin(self, path: str) -> str:
        line = self.reader.lines.get(path)
        return self._under.get(path, DEFAULT) if line is None else f"{self.reader.source}:{line}"


def _values(settings: Struct, path: str) -> Iterator[tuple[str, Any]]:
    """Yield every single value with its path."""
    for field in msgspec.structs.fields(settings):
        value, where = getattr(settings, field.name), join(path, field.encode_name)
        if isinstance(value, Struct):
            yield from _values(value, where)
        else:
            yield where, value
