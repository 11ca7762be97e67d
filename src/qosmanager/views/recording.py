"""What is said of a recording that runs, for /status and /metrics."""

from __future__ import annotations

from msgspec import Struct


class RecordingView(Struct, frozen=True, kw_only=True):
    """Where cycles are recorded, how many are on the disk since the start, in how many bytes, and how many were lost because the disk did
    not keep up. `stopped`: why no more are recorded; "" while they are."""

    directory: str
    cycles: int
    bytes: int
    lost: int
    stopped: str = ""
