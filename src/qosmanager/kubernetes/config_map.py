"""The configuration in a ConfigMap that is watched by name (specification, section 6).

In: each state of the ConfigMap. Out: its text under `koordlet-config.yaml`, kept in a file of the state directory, which is then read again
as any other that has changed; so what was last told is still there when the agent starts while the API server is away. A ConfigMap that is
deleted, or holds no such key, changes nothing: that is told as a problem.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from qosmanager.config.parse import CONFIG_MAP_KEY


class ConfigMapName(Struct, frozen=True):
    """NAMESPACE/NAME."""

    namespace: str
    name: str

    @classmethod
    def parse(cls, text: str) -> ConfigMapName:
        """Take it apart. Raises ValueError for anything else."""
        namespace, slash, name = text.partition("/")
        if not namespace or not slash or not name or "/" in name:
            raise ValueError(f"{text!r} is not allowed; NAMESPACE/NAME is")
        return cls(namespace, name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class _ConfigMap(Struct):
    data: dict[str, str] | None = None


class KeptConfigMap:
    """`keep` is given each new text; it may raise OSError. `known`: whether there ever was one."""

    def __init__(self, name: ConfigMapName, keep: Callable[[str], None]) -> None:
        self.problem = ""  # why the ConfigMap is not what is in force, for people
        self.known = False
        self._name = name
        self._keep = keep
        self._last: str | None = None

    def take(self, raw: bytes | None) -> None:
        """Take one state of it; None: there is none. Raises msgspec.DecodeError."""
        if raw is None:
            self.problem = f"ConfigMap {self._name} does not exist; what it last said stays in force"
            return
        text = (msgspec.json.decode(raw, type=_ConfigMap).data or {}).get(CONFIG_MAP_KEY)
        if text is None:
            self.problem = f"ConfigMap {self._name} holds nothing under {CONFIG_MAP_KEY}; what it last said stays in force"
            return
        if text != self._last:
            try:
                self._keep(text)
            except OSError as error:
                self.problem = f"ConfigMap {self._name} cannot be kept: {error.strerror or error}"
                return
            self._last = text
        self.problem, self.known = "", True
