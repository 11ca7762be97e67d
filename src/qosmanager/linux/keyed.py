"""Files with a line for each device ("254:0 rbps=1048576 ..."), one line of which is a value of its own: `io.max@254:0`.

In: the file's text and a name with a key. Out: what stands behind the key. A device without a line has what the kernel means by none.
"""

from __future__ import annotations

from typing import Protocol

_WITHOUT_LINE = {"io.max": "rbps=max wbps=max riops=max wiops=max", "io.weight": "100", "io.bfq.weight": "100"}
_NO_LIMIT = "0"  # of v1's blkio.throttle files


class Text(Protocol):
    """What a file holds now; OSError when its group has ended."""

    def read(self) -> str: ...


def line_of(name: str, text: str) -> str:
    """Return the value of one line of a file; `name` is the file's with `@` and the key."""
    base, _, key = name.partition("@")
    for line in text.splitlines():
        first, _, value = line.partition(" ")
        if first == key:
            return value.strip()
    return _WITHOUT_LINE.get(base, _NO_LIMIT)


class LineOfGroup:
    """One line of a file of one group, kept open: the `KeptFile` port."""

    __slots__ = ("_name", "_whole")

    def __init__(self, whole: Text, name: str) -> None:
        self._whole = whole
        self._name = name

    def read(self) -> str:
        return line_of(self._name, self._whole.read())
