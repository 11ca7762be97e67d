"""What the kernel says about CPU limits in the cgroup tree, originals looked up in the ledger (specification, section 9).

In: a group. Out: its limit now, its own limit (the original, where we hold it), the groups below it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from posixpath import dirname

from msgspec import Struct

from qosmanager.execute.dialect import PERIOD_US, Quota, parse_quota, parse_us, period_file, quota_file
from qosmanager.execute.ledger import Ledger
from qosmanager.execute.writing import Trouble, read
from qosmanager.model.workload import CgroupFile
from qosmanager.ports import KernelFiles


class GroupLimit(Struct, frozen=True, kw_only=True):
    """A group's CPU limit as the kernel has it, and its own one; `text` is the original's spelling."""

    file: CgroupFile
    version: int
    now: Quota
    own: Quota
    text: str


def cpu_version(kernel: KernelFiles) -> int:
    """The dialect of the CPU controller; without one, v2's names serve for the messages."""
    return kernel.version("cpu") or 2


def group_limit(kernel: KernelFiles, ledger: Ledger, group: str) -> GroupLimit | Trouble:
    """Read a group's CPU limit."""
    version = cpu_version(kernel)
    file = quota_file(version, group)
    text = read(kernel, file)
    if isinstance(text, Trouble):
        return text
    entry = ledger.entries.get(file)
    original = text if entry is None else entry.original
    if version == 2:
        return GroupLimit(file=file, version=2, now=parse_quota(file, text), own=parse_quota(file, original), text=original)
    us, own = parse_us(file, text), parse_us(file, original)
    period = PERIOD_US
    if math.isfinite(us) or math.isfinite(own) or entry is None:
        found = read(kernel, period_file(group))
        if isinstance(found, Trouble):
            return found
        period = int(parse_us(period_file(group), found)) or PERIOD_US
    lengthened = ledger.entries.get(period_file(group))
    own_period = period if lengthened is None else int(parse_us(lengthened.file, lengthened.original))
    return GroupLimit(file=file, version=1, now=Quota(us, period), own=Quota(own, own_period), text=original)


def below(kernel: KernelFiles, controller: str, group: str) -> Iterator[str]:
    """Paths of all groups below a group, parents first. Groups that vanish meanwhile are left out."""
    waiting = [group]
    while waiting:
        above = waiting.pop()
        try:
            names = kernel.children(controller, above)
        except OSError:
            continue
        # No recursion: whoever may make groups below a pod may make them a thousand deep.
        paths = [f"{above}/{name}" if above else name for name in names]
        yield from paths
        waiting += reversed(paths)


def ceiling(kernel: KernelFiles, ledger: Ledger, group: str) -> float:
    """Cores that a group allows the groups below it: the least of its own limit and of those above it; infinite without any."""
    cores = math.inf
    while group:
        limit = group_limit(kernel, ledger, group)
        if not isinstance(limit, Trouble):
            cores = min(cores, limit.own.cores)
        group = dirname(group)
    return cores
