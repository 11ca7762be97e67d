"""Cycles into files, one file after the other: a new one for each run, and when the last is large or old enough (docs/record.md).

In: each cycle as it was. Out: files in a directory, each readable without the others.
"""

from __future__ import annotations

import time
from pathlib import Path

from msgspec import Struct

from qosmanager import __version__
from qosmanager.engine.step import RULES
from qosmanager.record.directory import Directory
from qosmanager.record.encoder import Encoder, Taken
from qosmanager.record.file import FileWriter, Header
from qosmanager.record.messages import encode


class Bounds(Struct, frozen=True, kw_only=True):
    """Bytes and seconds: of one file, of all files together; how often what is taken in is flushed (a kill loses what is not), and synced
    (a power cut does)."""

    total: int = 1 << 30
    file_bytes: int = 32 << 20
    file_seconds: float = 3600.0
    flush: float = 5.0
    sync: float = 60.0

    @property
    def of_one_file(self) -> int:
        return min(self.file_bytes, self.total // 4)


class Writer:
    """The files of one run, one after the other. Every method raises OSError."""

    def __init__(self, place: Directory, bounds: Bounds) -> None:
        self.directory: Path = place.path
        self.cycles = 0  # flushed
        self._ended = 0  # bytes of the files before the present one
        self._place = place
        self._bounds = bounds
        self._file: FileWriter | None = None
        self._encoder = Encoder()
        self._began = self._flushed = self._synced = 0.0
        self._waiting = 0  # cycles that are not flushed

    @property
    def written(self) -> int:
        """Return the bytes of all files of this run."""
        file = self._file
        return self._ended + (file.size if file is not None else 0)

    def rests(self) -> float | None:
        """Return in how many seconds to flush; None: there is nothing to."""
        return max(0.0, self._flushed + self._bounds.flush - time.monotonic()) if self._waiting else None

    def add(self, taken: Taken) -> None:
        """Take in a cycle. One in which something was done is flushed at once: it is what is asked for after a crash."""
        file = self._open(taken.record.wall)
        file.add(encode(self._encoder.encode(taken)))
        self._waiting += 1
        record = taken.record
        if record.plan.actions or record.receipts or record.outcomes or not self.rests():
            self.flush()

    def flush(self) -> None:
        """Hand to the kernel what was taken in."""
        file, now = self._file, time.monotonic()
        if file is None:
            return
        file.flush()
        if not file.is_there:
            raise OSError(None, f"{file.path} was removed")
        self.cycles += self._waiting
        self._waiting, self._flushed = 0, now
        if now - self._synced >= self._bounds.sync:
            self._synced = now
            file.sync()

    def close(self) -> None:
        """End the last file."""
        self._end()
        self._place.close()

    def abandon(self) -> None:
        """Let the last file go as it is."""
        if self._file is not None:
            self._file.abandon()
            self._ended += self._file.size
            self._file = None
        self._place.close()

    def _end(self) -> None:
        file = self._file
        if file is not None:
            self.flush()
            file.close()
            self._file = None
            self._ended += file.size

    def _open(self, wall: float) -> FileWriter:
        now, file, bounds = time.monotonic(), self._file, self._bounds
        if file is not None and file.size < bounds.of_one_file and now - self._began < bounds.file_seconds:
            return file
        self._end()
        self._place.keep(bounds.total - bounds.of_one_file)
        self._file = fresh = self._place.begin(Header(version=__version__, begun=wall, rules=RULES))
        self._encoder = Encoder()
        self._began = self._flushed = self._synced = now
        return fresh
