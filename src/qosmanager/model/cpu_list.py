"""Sets of CPUs in the kernel's list format, as cpuset files, /sys and kubelet spell them (specification, sections 5.4 and 8)."""

from __future__ import annotations

import re
from collections.abc import Iterable

MOST_CPUS = 1 << 16  # more than any kernel knows; a list that goes beyond is no list
_RUN = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")


def parse_cpus(text: str) -> frozenset[int]:
    """Read "0-3,8"; an empty text is the empty set. Raises ValueError."""
    cpus: set[int] = set()
    for part in text.split(",") if text.strip() else ():
        run = _RUN.fullmatch(part.strip())
        first, last = (int(run[1]), int(run[2] or run[1])) if run else (1, 0)
        if not first <= last < MOST_CPUS:
            raise ValueError(f"{text[:60]!r} is no list of CPUs (such as 0-3,8)")
        cpus.update(range(first, last + 1))
    return frozenset(cpus)


def format_cpus(cpus: Iterable[int]) -> str:
    """Write CPU ids, lowest first: 8,2,1,0 -> "0-2,8"."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
