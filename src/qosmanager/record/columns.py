"""Readings as numbers of steps, and those as bytes that compress well: differences to what was before, in few bytes, column by column.

In: values on a grid (None: not measured). Out: bytes, and back. ValueError for bytes that are none of ours.

A float that ends at its grid's step (grid.py) holds the number of steps in its last bits. So the floats' 64 bits are subtracted as they
are, all at once, as one large number with 64 binary digits for each: in Python much faster than one by one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from operator import add, sub
from typing import TypeAlias

from qosmanager.record.grid import Grid

Codes: TypeAlias = bytes  # of floats, 8 bytes each, lowest first; row after row
Value: TypeAlias = float | int | None

CELL = 8  # bytes
_BELOW = 1 << 30  # steps below 0 at which "not measured" stands: no reading is there, and the way to it is short
_ZERO = 0x80  # added to each byte of a difference: one that is small, up or down, then changes nothing in the bytes above


class Columns:
    """The numbers that stand for values of some grids; of each row the values of all grids, then the next row."""

    def __init__(self, grids: Sequence[Grid]) -> None:
        self.width = len(grids)
        self._grids = grids
        self._shifts = tuple(grid.shift for grid in grids)
        self._unknowns = tuple(grid.shift - _BELOW * grid.step for grid in grids)

    def unknown(self, rows: int) -> Codes:
        """Return the numbers of rows of which nothing is measured."""
        return struct.pack(f"<{self.width}d", *self._unknowns) * rows

    def codes(self, values: Sequence[Value], rows: int) -> Codes:
        """Return the numbers of values."""
        layout = f"<{len(values)}d"
        try:
            return struct.pack(layout, *map(add, values, self._shifts * rows))
        except TypeError:
            pass  # there is a None among them
        pairs = zip(values, self._shifts * rows, self._unknowns * rows, strict=True)
        return struct.pack(layout, *[none if value is None else value + shift for value, shift, none in pairs])

    def values(self, codes: Codes, rows: int) -> list[Value]:
        """Return the values again."""
        floats = struct.unpack(f"<{self.width * rows}d", codes)
        if rows == 1:
            return [
                None if code == none else int(code - grid.shift) if grid.whole else code - grid.shift
                for code, grid, none in zip(floats, self._grids, self._unknowns, strict=True)
            ]
        values: list[Value] = list(map(sub, floats, self._shifts * rows))
        for number, (grid, none) in enumerate(zip(self._grids, self._unknowns, strict=True)):
            column = floats[number :: self.width]
            if none in column:
                values[number :: self.width] = [
                    None if code == none else value for code, value in zip(column, values[number :: self.width], strict=True)
                ]
            if grid.whole:
                values[number :: self.width] = [None if value is None else int(value) for value in values[number :: self.width]]
        return values


def pack(codes: Codes, before: Codes, width: int) -> bytes:
    """Return the differences to as many numbers in rows of this width: how many bytes each has, then all lowest bytes, all second ones, and
    so on, each column by column."""
    size = len(codes)
    mask, zeros, nothing = _constants(size)
    number = (int.from_bytes(codes, "little") + zeros - int.from_bytes(before, "little")) & mask
    raw = number.to_bytes(size, "little")
    used = CELL
    while used and raw[used - 1 :: CELL] == nothing:
        used -= 1
    planes = [raw[place::CELL] for place in range(used)]
    if size > CELL * width:  # of one row the columns are in order already
        planes = [plane[column::width] for plane in planes for column in range(width)]
    return bytes((used,)) + b"".join(planes)


def unpack(data: memoryview, before: Codes, width: int) -> Codes:
    """Return the numbers that differ by that from those before."""
    used, size = data[0] if len(data) else CELL + 1, len(before)
    rows = size // (CELL * width)
    if used > CELL or len(data) != 1 + used * rows * width:
        raise ValueError("columns of another length")
    raw, begin = bytearray((_ZERO,)) * size, 1
    for place in range(used):
        if rows == 1:
            raw[place::CELL] = data[begin : begin + width]
            begin += width
            continue
        for column in range(width):
            raw[place + CELL * column :: CELL * width] = data[begin : begin + rows]
            begin += rows
    mask, zeros, _ = _constants(size)
    return ((int.from_bytes(raw, "little") - zeros + int.from_bytes(before, "little")) & mask).to_bytes(size, "little")


_CONSTANTS: dict[int, tuple[int, int, bytes]] = {}


def _constants(size: int) -> tuple[int, int, bytes]:
    """Return the mask of so many bytes, what is added to differences, and a plane without any; a few sizes come again and again."""
    if size not in _CONSTANTS:
        if len(_CONSTANTS) > 256:
            _CONSTANTS.clear()
        _CONSTANTS[size] = (1 << 8 * size) - 1, int.from_bytes(bytes((_ZERO,)) * size, "little"), bytes((_ZERO,)) * (size // CELL)
    return _CONSTANTS[size]
