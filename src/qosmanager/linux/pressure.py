"""Pressure stall files, of the machine and of groups: `some avg10=0.12 avg60=... avg300=... total=MICROSECONDS`, and the same for full."""

from __future__ import annotations

from qosmanager.collect.readings import Stall


def parse_stall(content: bytes, kind: bytes = b"some") -> Stall:
    """Return the `some` or `full` line. Raises ValueError when it is not there or not in this form."""
    start = content.find(kind + b" avg10=")
    if start < 0:
        raise ValueError(f"no {kind.decode()} line in a pressure file: {content[:60]!r}")
    line = content[start : content.find(b"\n", start) if b"\n" in content[start:] else len(content)]
    fields = line.split(b" ")
    total = fields[-1]
    if not total.startswith(b"total="):
        raise ValueError(f"no total in a pressure file's line: {line!r}")
    return Stall(float(fields[1][6:]), int(total[6:]) / 1e6)
