"""What the fast path does and costs (specification, section 2)."""

from __future__ import annotations

from msgspec import Struct


class FastPathUse(Struct, frozen=True, kw_only=True):
    """`on`: stalls of services are listened to between cycles, `how`; else `reason` says why not. Since the start: `cycles` that came
    before their turn and the CPU seconds they took, `held_back`: those that did not come because of their number or cost, `reads` of stall
    files and the CPU seconds of listening. `last`: why the last one came.
    `deaf`: why no service can be listened to here, "" while that is possible or not tried."""

    on: bool = False
    reason: str = ""
    how: str = ""
    cycles: int = 0
    cycle_seconds: float = 0.0
    held_back: int = 0
    reads: int = 0
    read_seconds: float = 0.0
    last: str = ""
    deaf: str = ""
