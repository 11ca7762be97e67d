"""How each quantity is spelled in the kernel's two dialects, cgroup v1 and v2 (specification, section 9, the table of files).

In: a cgroup version, a group, cores or sets of CPUs. Out: `CgroupFile`s and texts, and back. CPU limits keep the group's own period,
unless it is too short for them; "-1" and "max" are infinity; the kernel may round, so texts are compared by `same`, never by ==.
"""

from __future__ import annotations

import math
import re

from msgspec import Struct

from qosmanager.model.cpu_list import parse_cpus
from qosmanager.model.workload import CgroupFile

MINIMUM_US = 1000  # the kernel takes no shorter quota
PERIOD_US = 100_000
SMALLEST_WEIGHT = {1: "2", 2: "1"}
DEFAULT_WEIGHT = {1: "1024", 2: "100"}  # also what the kernel sets when cpu.idle goes back to 0
IDLE_WEIGHT = {1: "3", 2: "1"}  # what the weight's file shows while cpu.idle is 1
UNBOUNDED_IO = "rbps=max wbps=max riops=max wiops=max"

_QUOTA = {1: "cpu.cfs_quota_us", 2: "cpu.max"}
_BURST = {1: "cpu.cfs_burst_us", 2: "cpu.max.burst"}
_WEIGHT = {1: "cpu.shares", 2: "cpu.weight"}
_UNLIMITED = ("-1", "max")

QUOTA_NAMES = frozenset(_QUOTA.values())
BURST_NAMES = frozenset(_BURST.values())
WEIGHT_NAMES = frozenset(_WEIGHT.values())
CPUS_NAME = "cpuset.cpus"
PERIOD_NAME = "cpu.cfs_period_us"
IDLE_NAME = "cpu.idle"
MEMORY_HIGH_NAME = "memory.high"
MEMORY_LOW_NAME = "memory.low"
IO_WEIGHT_NAMES = frozenset({"io.bfq.weight", "io.weight", "blkio.bfq.weight", "blkio.weight"})
IO_LIMIT_NAMES = frozenset({"io.max", "blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"})
OWNED_NAMES = (  # all that we ever write, and put back
    QUOTA_NAMES
    | BURST_NAMES
    | WEIGHT_NAMES
    | IO_WEIGHT_NAMES
    | IO_LIMIT_NAMES
    | {PERIOD_NAME, CPUS_NAME, IDLE_NAME, MEMORY_HIGH_NAME, MEMORY_LOW_NAME}
)
_KEY = re.compile(r"default|[0-9]{1,10}:[0-9]{1,10}")

_NOT_A = "{file} holds {text!r}, which is no {what}"


class UnreadableError(ValueError):
    """A kernel file holds a text that is not understood; the message names the file and the text."""


class Quota(Struct, frozen=True):
    """A group's CPU limit: microseconds per period; `us` is infinite when there is no limit."""

    us: float
    period: int

    @property
    def cores(self) -> float:
        return self.us / self.period


def quota_file(version: int, group: str) -> CgroupFile:
    return CgroupFile("cpu", group, _QUOTA[version])


def period_file(group: str) -> CgroupFile:
    """The period's own file, which only v1 has."""
    return CgroupFile("cpu", group, PERIOD_NAME)


def burst_file(version: int, group: str) -> CgroupFile:
    return CgroupFile("cpu", group, _BURST[version])


def weight_file(version: int, group: str) -> CgroupFile:
    return CgroupFile("cpu", group, _WEIGHT[version])


def idle_file(group: str) -> CgroupFile:
    return CgroupFile("cpu", group, IDLE_NAME)


def memory_file(group: str, name: str) -> CgroupFile:
    return CgroupFile("memory", group, name)


def io_file(group: str, name: str, key: str | None = None) -> CgroupFile:
    """A file of the I/O controller, or the line of it that is about one device."""
    return CgroupFile("blkio", group, name if key is None else f"{name}@{key}")


def is_owned_name(name: str) -> bool:
    """Whether a file's name, with or without the key of one line, is of those that we write."""
    base, at, key = name.partition("@")
    return base in OWNED_NAMES and (not at or _KEY.fullmatch(key) is not None)


def io_limits(file: CgroupFile, text: str) -> dict[str, float]:
    """A device's line of v2's `io.max`: bytes/s and operations/s, infinity for no limit. Raises UnreadableError."""
    words = [word.partition("=") for word in text.split()]
    limits = {name: math.inf if value == "max" else float(value) for name, _, value in words if value == "max" or _is_number(value)}
    if sorted(limits) != sorted(name for name, _, _ in words) or limits.keys() != {"rbps", "wbps", "riops", "wiops"}:
        raise UnreadableError(_NOT_A.format(file=file, text=text, what="list of I/O limits"))
    return limits


def io_limits_text(limits: dict[str, float]) -> str:
    """Spell a device's limits for `io.max`."""
    return " ".join(f"{name}={'max' if math.isinf(limits[name]) else int(limits[name])}" for name in ("rbps", "wbps", "riops", "wiops"))


def cpus_file(group: str) -> CgroupFile:
    return CgroupFile("cpuset", group, CPUS_NAME)


def fit_period(cores: float, period: int) -> int:
    """The period (us) under which `cores` can be had: a short one would make the kernel's least quota too much of it."""
    return period if cores * period >= MINIMUM_US else max(period, PERIOD_US)


def quota_text(version: int, cores: float, period: int) -> str:
    """Spell a CPU limit of `cores` under `period` (us); infinite cores are no limit, less than the kernel's minimum is the minimum. On v2
    the period is a longer one where it is too short; on v1 it has its own file."""
    if math.isinf(cores):
        return "-1" if version == 1 else f"max {period}"
    if version == 2:
        period = fit_period(cores, period)
    # Rounded down: shares that sum to the BE limit must not exceed it in the kernel.
    us = max(MINIMUM_US, math.floor(cores * period + 1e-6))
    return str(us) if version == 1 else f"{us} {period}"


def parse_us(file: CgroupFile, text: str) -> float:
    """Microseconds of a quota or burst file; infinity for no limit. Raises UnreadableError."""
    word, *_ = text.split() or [""]
    if word in _UNLIMITED:
        return math.inf
    if not _is_number(word):
        raise UnreadableError(_NOT_A.format(file=file, text=text, what="number of microseconds"))
    return float(word)


def parse_quota(file: CgroupFile, text: str) -> Quota:
    """A v2 `cpu.max`. Raises UnreadableError."""
    words = text.split()
    if len(words) != 2 or not _is_number(words[1]) or int(words[1]) == 0:
        raise UnreadableError(_NOT_A.format(file=file, text=text, what="limit and period"))
    return Quota(parse_us(file, words[0]), int(words[1]))


def _is_number(word: str) -> bool:
    """Whether a word is a number that a kernel's file can hold: 64 bits are at most 20 digits."""
    return word.isascii() and word.isdecimal() and len(word) <= 20


def check(file: CgroupFile, text: str) -> None:
    """Raise UnreadableError when a file's text is not of its quantity: then there is no original to put back later."""
    if file.name == CPUS_NAME:
        _cpus(file, text)
    elif file.name == "cpu.max":
        parse_quota(file, text)
    elif file.name.startswith("io.max@"):
        io_limits(file, text)
    else:
        parse_us(file, text)


def same(file: CgroupFile, one: str, other: str) -> bool:
    """Whether two texts of a file mean the same value, within the kernel's rounding (1 us or 0.1 percent)."""
    if one == other:
        return True
    try:
        if file.name == CPUS_NAME:
            return _cpus(file, one) == _cpus(file, other)
        if file.name == "cpu.max":
            a, b = parse_quota(file, one), parse_quota(file, other)
            return a.period == b.period and _close(a.us, b.us)
        if file.name.startswith("io.max@"):
            return io_limits(file, one) == io_limits(file, other)
        if file.name == "cpu.weight" and {one, other} == {"0", "1"}:
            return True  # older kernels show an idle group's as 0
        return _close(parse_us(file, one), parse_us(file, other))
    except UnreadableError:
        return False


def _cpus(file: CgroupFile, text: str) -> frozenset[int]:
    try:
        return parse_cpus(text)
    except ValueError:
        raise UnreadableError(_NOT_A.format(file=file, text=text, what="list of CPUs")) from None


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-3, abs_tol=1.0) if a > MINIMUM_US else a == b
