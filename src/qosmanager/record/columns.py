"""Readings as numbers of steps, and those as bytes that compress well: differences to what was before, in few bytes, column by column.

In: values on a grid (None: not measured). Out: bytes, and back. ValueError for bytes that are none of ours.

A float that ends at its grid's step (grid.py) holds the number of steps in its last bits. So the floats' 64 bits are subtracted as they
are, all at once, as one large number with 64 binary digits for each: in Python much faster than one by one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import repeat
from operator import add, sub
from typing import TypeAlias

from qosmanager.record.grid import Grid

Codes: TypeAlias = bytes  # of floats, 8 bytes each, lowest first; column after column
Value: TypeAlias = float | int | None

CELL = 8  # bytes
_BELOW = 1 << 30  # steps below 0 at which "not measured" stands: no reading is there, and the way to it is short
_ZERO = 0x80  # added to each byte of a difference: one that is small, up or down, then changes nothing in the bytes above
_KEPT = 256  # sizes that come again and again


class Columns:
    """The numbers that stand for values of some grids: those of the first grid of all rows, then those of the next one."""

    def __init__(self, grids: Sequence[Grid]) -> None:
        self.width = len(grids)
        self._grids = grids
        self._shifts = tuple(grid.shift for grid in grids)
        self._unknowns = tuple(grid.shift - _BELOW * grid.step for grid in grids)
        self._spread: dict[int, tuple[tuple[float, ...], tuple[float, ...]]] = {}  # shifts and unknowns, by rows

    def unknown(self, rows: int) -> Codes:
        """Return the numbers of rows of which nothing is measured."""
        return struct.pack(f"<{self.width * rows}d", *self._for_each(rows)[1])

    def codes(self, values: Sequence[Value], rows: int) -> Codes:
        """Return the numbers of values, column after column."""
        layout, (shifts, unknowns) = f"<{len(values)}d", self._for_each(rows)
        try:
            return struct.pack(layout, *map(add, values, shifts))
        except TypeError:
            pass  # there is a None among them
        pairs = zip(values, shifts, unknowns, strict=True)
        return struct.pack(layout, *[none if value is None else value + shift for value, shift, none in pairs])

    def values(self, codes: Codes, rows: int) -> list[Value]:
        """Return the values again."""
        floats = struct.unpack(f"<{self.width * rows}d", codes)
        if rows == 1:
            return [
                None if code == none else int(code - grid.shift) if grid.whole else code - grid.shift
                for code, grid, none in zip(floats, self._grids, self._unknowns, strict=True)
            ]
        values: list[Value] = []
        for begin, grid, none in zip(range(0, len(floats), rows), self._grids, self._unknowns, strict=True):
            column = floats[begin : begin + rows]
            found: Iterable[Value] = map(sub, column, repeat(grid.shift))
            if none in column:
                found = (None if code == none else value for code, value in zip(column, found, strict=True))
            values += (None if value is None else int(value) for value in found) if grid.whole else found
        return values

    def _for_each(self, rows: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return what each value of so many rows is shifted by, and what stands for it when it is unknown."""
        if rows not in self._spread:
            if len(self._spread) > _KEPT:
                self._spread.clear()
            self._spread[rows] = _repeated(self._shifts, rows), _repeated(self._unknowns, rows)
        return self._spread[rows]


def _repeated(numbers: tuple[float, ...], rows: int) -> tuple[float, ...]:
    return tuple(number for number in numbers for _ in range(rows))


def pack(codes: Codes, before: Codes) -> bytes:
    """Return the differences to as many numbers: how many bytes each has, then all lowest bytes, all second ones, and so on."""
    size = len(codes)
    mask, zeros, nothing = _constants(size)
    number = (int.from_bytes(codes, "little") + zeros - int.from_bytes(before, "little")) & mask
    raw = number.to_bytes(size, "little")
    used = CELL
    while used and raw[used - 1 :: CELL] == nothing:
        used -= 1
    return bytes((used,)) + b"".join([raw[place::CELL] for place in range(used)])


def unpack(data: memoryview, before: Codes) -> Codes:
    """Return the numbers that differ by that from those before."""
    used, size = data[0] if len(data) else CELL + 1, len(before)
    count = size // CELL
    if used > CELL or len(data) != 1 + used * count:
        raise ValueError("columns of another length")
    raw = bytearray((_ZERO,)) * size
    for place in range(used):
        raw[place::CELL] = data[1 + place * count : 1 + (place + 1) * count]
    mask, zeros, _ = _constants(size)
    return ((int.from_bytes(raw, "little") - zeros + int.from_bytes(before, "little")) & mask).to_bytes(size, "little")


_CONSTANTS: dict[int, tuple[int, int, bytes]] = {}


def _constants(size: int) -> tuple[int, int, bytes]:
    """Return the mask of so many bytes, what is added to differences, and a plane without any; a few sizes come again and again."""
    if size not in _CONSTANTS:
        if len(_CONSTANTS) > _KEPT:
            _CONSTANTS.clear()
        _CONSTANTS[size] = (1 << 8 * size) - 1, int.from_bytes(bytes((_ZERO,)) * size, "little"), bytes((_ZERO,)) * (size // CELL)
    return _CONSTANTS[size]
