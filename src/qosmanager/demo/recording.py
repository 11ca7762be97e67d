"""A recording of the demo's managed part: the snapshots that were decided on, and what was measured beside them.

In and out: one gzipped JSON file. The package ships `recording.json.gz`, made with `qosmanager demo --save FILE` on real cgroups.
"""

from __future__ import annotations

import gzip
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec import Struct

from qosmanager.config.settings import Settings
from qosmanager.demo.story import Measured, Stage
from qosmanager.model.snapshot import Snapshot


class Frame(Struct, frozen=True, kw_only=True):
    """One cycle: in which stage, its number, when (epoch seconds), and its readings."""

    stage: Stage
    cycle: int
    wall: float
    snapshot: Snapshot


class Recording(Struct, frozen=True, kw_only=True):
    """What was recorded, where, and under which settings."""

    version: str
    machine: str
    settings: Settings
    note: str
    slo: float
    frames: tuple[Frame, ...]
    measured: tuple[Measured, ...]

    def save(self, path: Path) -> None:
        """Write the file. Raises OSError."""
        path.write_bytes(gzip.compress(msgspec.json.encode(self), mtime=0))

    @classmethod
    def parse(cls, data: bytes) -> Recording:
        """Read a file's content. Raises OSError, msgspec.DecodeError."""
        return msgspec.json.decode(gzip.decompress(data), type=cls)


def shipped() -> Recording:
    """Return the recording that comes with the package."""
    return Recording.parse((files("qosmanager.demo") / "recording.json.gz").read_bytes())
