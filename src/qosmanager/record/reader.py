"""A recording as cycles again: what was decided on, what was decided, what was done (docs/record.md).

In: a file, or a directory of them. Out: `Recorded` cycles with their snapshots, oldest first. A file that is damaged is read as far as it
is whole; the next one begins anew, for each holds the engine's state at its beginning.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from qosmanager.model.snapshot import Snapshot
from qosmanager.record.decoder import Decoder, Recorded
from qosmanager.record.directory import files_of
from qosmanager.record.file import SUFFIX, Damage, FileReader, Header, NotARecordingError
from qosmanager.record.messages import Message, decode

T = TypeVar("T")


class Part(Struct, frozen=True, kw_only=True):
    """One file, read to where it ends: its size in bytes, its version, whether its writer ended it."""

    path: str
    version: str
    begun: float
    size: int
    closed: bool
    cycles: int
    damage: Damage | None


class Recording:
    """A recording. `parts` and `damages` say of each file that was read to its end what it was like."""

    def __init__(self, path: Path) -> None:
        """Raises NotARecordingError for what is none, and when it cannot be read."""
        self.path = path
        self.parts: list[Part] = []
        self._file: FileReader | None = None
        try:
            self._files = files_of(path) if os.path.isdir(path) else [path]
            if not self._files:
                raise NotARecordingError(f"{path}: there is no recording in this directory (no file named like 00000001-...Z{SUFFIX})")
            if len(self._files) == 1:
                FileReader(self._files[0])  # nothing else could be read then
            self.size = sum(file.stat().st_size for file in self._files)
        except OSError as error:
            raise NotARecordingError(f"{error.filename or path}: cannot be read: {error.strerror or error}") from None

    @property
    def begun(self) -> float:
        """Return when the first file was begun (epoch seconds). Raises NotARecordingError."""
        for path in self._files:
            header = _header(path)
            if header is not None:
                return header.begun
        raise NotARecordingError(f"{self.path}: no file of it can be read")

    def since(self, wall: float) -> Recording:
        """Return the part of it that begins with the file in which this moment lies; each file holds all that is needed."""
        part = Recording(self.path)
        begun = [_header(path) for path in self._files]
        first = max((number for number, header in enumerate(begun) if header is not None and header.begun <= wall), default=0)
        part._files = self._files[first:]
        part.size = sum(file.stat().st_size for file in part._files)
        return part

    @property
    def read(self) -> int:
        """Return how many bytes of `size` have been read."""
        return sum(part.size for part in self.parts) + (self._file.offset if self._file is not None else 0)

    @property
    def damages(self) -> tuple[Damage, ...]:
        """Return where files stop being readable."""
        return tuple(part.damage for part in self.parts if part.damage is not None)

    def cycles(self) -> Iterator[tuple[Recorded, Snapshot]]:
        """Yield each cycle with its readings."""
        return self._follow(_with_readings)

    def outlines(self) -> Iterator[Recorded]:
        """Yield each cycle without its readings: several times as fast."""
        return self._follow(_without_readings)

    def _follow(self, take: Callable[[Decoder, Message], T]) -> Iterator[T]:
        self.parts = []
        for path in self._files:
            try:
                file = FileReader(path)
            except (OSError, NotARecordingError) as error:
                self.parts.append(_unreadable(path, error, alone=len(self._files) == 1))
                continue
            self._file = file
            count = 0
            for found in _cycles(file, take):
                count += 1
                yield found
            self._file = None
            self.parts.append(
                Part(
                    path=str(path),
                    version=file.header.version,
                    begun=file.header.begun,
                    size=file.size,
                    closed=file.closed,
                    cycles=count,
                    damage=file.damage,
                )
            )


def _with_readings(decoder: Decoder, message: Message) -> tuple[Recorded, Snapshot]:
    return decoder.take(message), decoder.snapshot()


def _without_readings(decoder: Decoder, message: Message) -> Recorded:
    return decoder.outline(message)


def _cycles(file: FileReader, take: Callable[[Decoder, Message], T]) -> Iterator[T]:
    decoder = Decoder(file.header)
    try:
        for data in file.messages():
            try:
                cycle = take(decoder, decode(data))
            except (msgspec.MsgspecError, ValueError, LookupError, ArithmeticError, RecursionError, TypeError) as error:
                file.spoil(f"a cycle cannot be understood ({type(error).__name__}: {error})")
                return
            yield cycle
    except OSError as error:
        file.spoil(f"the file cannot be read any further: {error.strerror or error}")


def _header(path: Path) -> Header | None:
    try:
        return FileReader(path).header
    except (OSError, NotARecordingError):
        return None


def _unreadable(path: Path, error: Exception, *, alone: bool) -> Part:
    """One file among others whose beginning is damaged costs only itself."""
    if alone:
        raise NotARecordingError(str(error)) from None
    what = str(error).removeprefix(f"{path}: ")
    return Part(path=str(path), version="", begun=0.0, size=0, closed=False, cycles=0, damage=Damage(str(path), 0, what))
