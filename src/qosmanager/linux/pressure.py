"""Pressure stall files, of the machine and of groups: `some avg10=0.12 avg60=... avg300=... total=MICROSECONDS`, and the same for full."""

from __future__ import annotations

from functools import partial
from math import isfinite

from qosmanager.collect.readings import Stall
from qosmanager.linux.attempt import attempt
from qosmanager.linux.descriptor import KeptFile
from qosmanager.linux.flat_keyed import whole

_AVERAGE = len(b"some avg10=")  # as long as that of "full"


def parse_stall(content: bytes, kind: bytes = b"some") -> Stall:
    """Return the `some` or `full` line. Raises ValueError when it is not there or not in this form."""
    start = content.find(kind + b" avg10=")
    if start < 0:
        raise ValueError(f"no {kind.decode()} line in a pressure file: {content[:60]!r}")
    end = content.find(b"\n", start)
    line = content[start : end if end >= 0 else len(content)]
    total = line.rfind(b" total=")
    if total < 0:
        raise ValueError(f"no total in a pressure file's line: {line!r}")
    average = float(line[_AVERAGE : line.find(b" ", _AVERAGE)])
    if not isfinite(average):
        raise ValueError(f"no number in a pressure file's line: {line!r}")
    return Stall(average, whole(line[total + 7 :]) / 1e6)


class NodeStalls:
    """The node's three pressure files, of the machine or of a group."""

    def __init__(self, files: dict[str, KeptFile]) -> None:
        """`files`: by "cpu", "memory" and "io"."""
        self._files = files

    def read(self, missing: dict[str, str]) -> dict[str, float | None]:
        """Return avg10 in percent by field of `Node` ("io_psi_some"); what cannot be read is None, with the reason in `missing`."""
        averages: dict[str, float | None] = {}
        for kind, file in self._files.items():
            names = (f"{kind}_psi_some", f"{kind}_psi_full")
            content = attempt(missing, names, file.read)
            for name, line in zip(names, (b"some", b"full"), strict=True):
                # Kernels before 5.13 have no full line for the CPU.
                stall = None if content is None else attempt(missing, (name,), partial(parse_stall, content, line))
                averages[name] = stall.avg10 if stall else None
        return averages
