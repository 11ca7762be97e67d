"""Tables as files: CSV, and Parquet where pyarrow is installed (docs/record.md)."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO, TextIO

from qosmanager.record.reader import Recording
from qosmanager.record.table import Cell, Table

_LOT = 20_000  # rows that are in memory at once


def write_csv(recording: Recording, table: Table, out: TextIO) -> int:
    """Write a table; return its rows. True and false are 1 and 0, a reading that was not measured is empty. Raises OSError."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.name for column in table.columns])
    count = 0
    for row in table.rows(recording):
        writer.writerow([_text(cell) for cell in row])
        count += 1
    return count


def _text(cell: Cell) -> Cell:
    if isinstance(cell, bool):
        return int(cell)
    # A group may bear a name that is no text.
    return cell.encode("utf-8", "backslashreplace").decode() if isinstance(cell, str) else cell


def write_parquet(recording: Recording, table: Table, out: BinaryIO) -> int:
    """Write a table as Parquet (zstd); return its rows. Raises OSError, and ImportError without pyarrow."""
    import pyarrow as pa  # noqa: PLC0415 - large, and only for this
    import pyarrow.parquet as pq  # noqa: PLC0415

    kinds = {str: pa.string(), float: pa.float64(), int: pa.int64(), bool: pa.bool_()}
    schema = pa.schema([(column.name, kinds[column.kind]) for column in table.columns])
    count = 0
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for lot in _lots(table.rows(recording)):
            columns = [[_text(cell) if isinstance(cell, str) else cell for cell in column] for column in zip(*lot, strict=True)]
            writer.write_table(pa.table(columns, schema=schema))
            count += len(lot)
    return count


def _lots(rows: Iterator[Any]) -> Iterator[list[Any]]:
    while lot := list(islice(rows, _LOT)):
        yield lot
