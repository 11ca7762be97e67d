"""Readings as numbers of steps, and those as bytes that compress well: differences to the row before, in the fewest bytes, low bytes first.

In: values on a grid (None: not measured). Out: bytes, and back. ValueError for bytes that are none of ours.

A float that ends at its grid's step (grid.py) holds the number of steps in its last bits. So the floats' 64 bits are subtracted as they
are, all at once, as one large number with 64 binary digits for each: in Python much faster than one by one.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence
from itertools import chain, repeat
from operator import add, sub
from typing import TypeAlias

from qosmanager.record.grid import Grid

Codes: TypeAlias = "array[float]"
Value: TypeAlias = float | int | None

_CELL = 8  # bytes
_BELOW = 1 << 30  # steps below 0 at which "not measured" stands: no reading is there, and the way to it is short
_ZERO = 0x80  # added to each byte of a difference: one that is small, up or down, then changes nothing in the bytes above
_SWAP = sys.byteorder == "big"


class Columns:
    """The numbers that stand for the values of some grids: those of the first for all rows, then those of the second, and so on."""

    def __init__(self, grids: Sequence[Grid]) -> None:
        self.width = len(grids)
        self._grids = grids
        self._unknowns = [grid.shift - _BELOW * grid.step for grid in grids]
        self._shifts: dict[int, tuple[float, ...]] = {}

    def unknown(self, rows: int) -> Codes:
        """Return the numbers of rows of which nothing is measured."""
        return array("d", chain.from_iterable(repeat(none, rows) for none in self._unknowns))

    def codes(self, values: Sequence[Value], rows: int) -> Codes:
        """Return the numbers of values."""
        try:
            # Twice as fast as to give the values to the array one by one.
            return array("d", struct.pack(f"{len(values)}d", *map(add, values, self._of(rows))))
        except TypeError:
            pass  # there is a None among them
        codes = array("d", map(add, [value or 0.0 for value in values], self._of(rows)))
        for place, value in enumerate(values):
            if value is None:
                codes[place] = self._unknowns[place // rows]
        return codes

    def values(self, codes: Codes, rows: int) -> list[Value]:
        """Return the values again."""
        values: list[Value] = list(map(sub, codes, self._of(rows)))
        for number, (grid, none) in enumerate(zip(self._grids, self._unknowns, strict=True)):
            part = slice(number * rows, (number + 1) * rows)
            column = codes[part]
            if none in column:
                values[part] = [None if code == none else value for code, value in zip(column, values[part], strict=True)]
            if grid.whole:
                values[part] = [None if value is None else int(value) for value in values[part]]
        return values

    def _of(self, rows: int) -> tuple[float, ...]:
        """Return the shift of each value's grid."""
        if rows not in self._shifts:
            if len(self._shifts) > 256:
                self._shifts.clear()
            self._shifts[rows] = tuple(chain.from_iterable(repeat(grid.shift, rows) for grid in self._grids))
        return self._shifts[rows]


def pack(codes: Codes, before: Codes) -> bytes:
    """Return the differences to numbers of the same count: how many bytes each has, then all lowest bytes, all second ones, and so on."""
    count = len(codes)
    mask, zeros, nothing = _constants(count)
    raw = ((_large(codes) + zeros - _large(before)) & mask).to_bytes(_CELL * count, "little")
    width = _CELL
    while width and raw[width - 1 :: _CELL] == nothing:
        width -= 1
    planes = [raw[place::_CELL] for place in range(width)]
    return bytes((width,)) + b"".join(planes)


def unpack(data: memoryview, before: Codes) -> Codes:
    """Return the numbers that differ by that from those before."""
    width, count = data[0] if len(data) else _CELL + 1, len(before)
    if width > _CELL or len(data) != 1 + width * count:
        raise ValueError("columns of another length")
    raw = bytearray((_ZERO,)) * (_CELL * count)
    for place in range(width):
        raw[place::_CELL] = data[1 + place * count : 1 + (place + 1) * count]
    mask, zeros, _ = _constants(count)
    number = (int.from_bytes(raw, "little") - zeros + _large(before)) & mask
    codes = array("d", number.to_bytes(_CELL * count, "little"))
    if _SWAP:
        codes.byteswap()
    return codes


def _large(codes: Codes) -> int:
    if _SWAP:
        codes = array("d", codes)
        codes.byteswap()
    return int.from_bytes(codes.tobytes(), "little")


_CONSTANTS: dict[int, tuple[int, int, bytes]] = {}


def _constants(count: int) -> tuple[int, int, bytes]:
    """Return the mask of so many cells, what is added to their differences, and a plane without any; a few counts come again and again."""
    if count not in _CONSTANTS:
        if len(_CONSTANTS) > 256:
            _CONSTANTS.clear()
        nothing = bytes((_ZERO,)) * count
        _CONSTANTS[count] = (1 << 8 * _CELL * count) - 1, int.from_bytes(nothing * _CELL, "little"), nothing
    return _CONSTANTS[count]
