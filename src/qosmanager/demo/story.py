"""What the demo shows, in its order, and what it measured, as data."""

from __future__ import annotations

import math

from msgspec import Struct

from qosmanager.views.decisions import Entry
from qosmanager.views.status import Status

ALONE, UNMANAGED, MANAGED = "LS alone", "BE unmanaged", "BE managed"
QUIET, SURGE, CALM, MEMORY = "quiet", "surge", "calm again", "memory runs out"
DEFAULT_SECONDS = 120.0
SHORTEST_SECONDS = 20.0
SETTLE = 1.0  # seconds between two parts, measured in neither
_MARGIN = 12.0  # seconds for starting and ending processes


class Interrupted(Exception):  # noqa: N818 - not an error
    """Somebody asked the demo to end."""


class Stage(Struct, frozen=True, kw_only=True):
    """A stretch of time with one rate of requests (per second). `grow`: a BE pod takes more and more memory."""

    part: str
    name: str
    seconds: float
    rate: float
    what: str
    grow: bool = False

    @property
    def key(self) -> str:
        """Name by which the load generator keeps its latencies apart; one word."""
        return f"{self.part}/{self.name}".replace(" ", "-")


def stages(seconds: float, quiet: float, surge: float) -> tuple[Stage, ...]:
    """Return the stages of a demo that lasts about `seconds`; `quiet` and `surge` are rates in requests/s."""
    scale = (seconds - _MARGIN) / (DEFAULT_SECONDS - _MARGIN)

    def stage(part: str, name: str, length: float, rate: float, what: str) -> Stage:
        return Stage(part=part, name=name, seconds=length * scale, rate=rate, what=what, grow=name == MEMORY)

    return (
        stage(ALONE, QUIET, 8, quiet, "the service has the machine to itself"),
        stage(ALONE, SURGE, 8, surge, "more requests, still alone"),
        stage(UNMANAGED, QUIET, 7, quiet, "batch work beside it, equal weights, nobody manages"),
        stage(UNMANAGED, SURGE, 8, surge, "more requests, batch work takes what it can"),
        stage(UNMANAGED, MEMORY, 14, quiet, "one batch pod takes more and more memory, until the kernel kills"),
        stage(MANAGED, QUIET, 15, quiet, "qosmanager runs: batch gets what the service leaves"),
        stage(MANAGED, SURGE, 17, surge, "more requests: batch stays in what the service leaves, and makes way"),
        stage(MANAGED, CALM, 7, quiet, "fewer requests: batch gets more a minute after its limit fell"),
        stage(MANAGED, MEMORY, 24, quiet, "one batch pod takes more and more memory, until it is evicted"),
    )


class Measured(Struct, frozen=True, kw_only=True):
    """What one stage came to: latencies in ms, CPU in cores. None: no request was answered."""

    key: str
    part: str
    name: str
    requests: int = 0
    unanswered: int = 0
    p50: float | None = None
    p99: float | None = None
    seconds: float
    ls_cores: float
    be_cores: float
    other_cores: float  # used by whatever else runs on this machine
    evictions: tuple[str, ...] = ()
    kernel_kills: int | None = 0


class Difference(Struct, frozen=True):
    """A kernel file whose value is not the one it had before the agent came."""

    file: str
    before: str
    after: str | None


class Proof(Struct, frozen=True, kw_only=True):
    """Whether the agent put back all it changed: of `compared` files, those that `changed` while it ran and those that `differ` now."""

    compared: int
    changed: int
    differ: tuple[Difference, ...]


class Now(Struct, kw_only=True):
    """What the screen shows at one moment. Latencies in ms, CPU in cores; None: not known yet."""

    stage: Stage
    index: int
    count: int
    left: float
    settings: str
    p50: float | None = None
    p99: float | None = None
    slo: float | None = None
    history: tuple[float | None, ...] = ()
    ls_cores: float | None = None
    be_cores: float | None = None
    status: Status | None = None
    decisions: tuple[Entry, ...] = ()


def percentile(values: list[float], percent: float) -> float | None:
    """Return the nearest-rank percentile; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def proof(before: dict[str, str], during: dict[str, str], after: dict[str, str]) -> Proof:
    """Compare the values before, while and after the agent ran. A process's value that is gone with the process is not compared."""
    compared = [file for file in before if file in after or not file.startswith("/proc/")]
    differ = tuple(Difference(file, before[file], after.get(file)) for file in compared if after.get(file) != before[file])
    changed = sum(1 for file in compared if file in during and during[file] != before[file])
    return Proof(compared=len(compared), changed=changed, differ=differ)
