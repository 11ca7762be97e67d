"""In which order a set of kernel files is written, so that the kernel accepts every step (specification, section 9).

In: changes (file, text now, text wanted). Out: steps. Bursts fall first and rise last (burst <= quota at every moment); quotas that
tighten are written child before parent, then those that loosen parent before child (v1: child <= parent at every moment); a cpuset
passes through the union of old and new, and is never written empty on the way. A period grows before its quota falls and shrinks after
its quota has risen. An idle group is made busy before, and idle after, its weight is written: while it is idle the kernel refuses one.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from qosmanager.execute.dialect import BURST_NAMES, CPUS_NAME, IDLE_NAME, PERIOD_NAME, QUOTA_NAMES, parse_us
from qosmanager.model.cpu_list import format_cpus, parse_cpus
from qosmanager.model.workload import CgroupFile


class Change(Struct, frozen=True):
    """What a file holds and what it shall hold."""

    file: CgroupFile
    before: str
    after: str


def depth(file: CgroupFile) -> int:
    """How far below the root a file's group lies."""
    return file.group.count("/") + 1 if file.group else 0


def ordered(changes: Iterable[Change]) -> list[Change]:
    """The steps in the order in which they are to be written. A cpuset that moves takes two steps."""
    bursts_down: list[Change] = []
    bursts_up: list[Change] = []
    tighten: list[Change] = []
    loosen: list[Change] = []
    others: list[Change] = []
    widen: list[Change] = []
    narrow: list[Change] = []
    idle: list[Change] = []
    busy: list[Change] = []
    for change in changes:
        name = change.file.name
        if name == CPUS_NAME:
            _split(change, widen, narrow)
        elif name == IDLE_NAME:
            (idle if _rises(change) else busy).append(change)
        elif name in BURST_NAMES:
            (bursts_up if _rises(change) else bursts_down).append(change)
        elif name in QUOTA_NAMES:
            (loosen if _rises(change) else tighten).append(change)
        elif name == PERIOD_NAME:
            (tighten if _rises(change) else loosen).append(change)
        else:
            others.append(change)
    steps = bursts_down + _deepest_first(tighten) + _shallowest_first(loosen) + bursts_up
    return steps + busy + others + idle + _shallowest_first(widen) + _deepest_first(narrow)


def _split(change: Change, widen: list[Change], narrow: list[Change]) -> None:
    before, after = parse_cpus(change.before), parse_cpus(change.after)
    if not after or not before:
        # v2's empty text inherits everything: going there widens, coming from there narrows.
        (widen if not after else narrow).append(change)
        return
    union = before | after
    if union != before:
        widen.append(Change(change.file, change.before, format_cpus(union)))
    if union != after:
        narrow.append(Change(change.file, format_cpus(union), change.after))


def _rises(change: Change) -> bool:
    return parse_us(change.file, change.after) > parse_us(change.file, change.before)


def _deepest_first(changes: list[Change]) -> list[Change]:
    return sorted(changes, key=lambda change: (-depth(change.file), change.file.group, change.file.name != PERIOD_NAME))


def _shallowest_first(changes: list[Change]) -> list[Change]:
    return sorted(changes, key=lambda change: (depth(change.file), change.file.group, change.file.name == PERIOD_NAME))
