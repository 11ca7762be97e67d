"""The directory that a recording is kept in: its files by age, one writer, a bound on all of them together.

Files are named by a number that only rises and the time at which they were begun, so that their names are in the order of their content.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from datetime import UTC, datetime
from pathlib import Path

from qosmanager.record.file import SUFFIX, FileWriter, Header

_NAME = re.compile(r"([0-9]{8})-[0-9]{8}T[0-9]{6}Z" + re.escape(SUFFIX))


class DirectoryInUseError(Exception):
    """Another process records there."""


class Directory:
    """Open for one writer until `close`. Raises OSError, and DirectoryInUseError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.makedirs(path, mode=0o700, exist_ok=True)
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise DirectoryInUseError(f"{path}: another process records there") from None

    def close(self) -> None:
        """Let another process record here."""
        os.close(self._descriptor)

    def begin(self, header: Header) -> FileWriter:
        """Begin the next file. Raises OSError."""
        numbers = [int(match[1]) for match in map(_NAME.fullmatch, os.listdir(self.path)) if match]
        began = datetime.fromtimestamp(header.begun, UTC).strftime("%Y%m%dT%H%M%SZ")
        return FileWriter(self.path / f"{max(numbers, default=0) + 1:08d}-{began}{SUFFIX}", header)

    def keep(self, most: int) -> None:
        """Remove the oldest files until all together have at most so many bytes. Raises OSError."""
        sizes = {path: path.stat().st_size for path in files_of(self.path)}
        total = sum(sizes.values())
        for path, size in sizes.items():
            if total <= most:
                return
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            total -= size


def files_of(directory: Path) -> list[Path]:
    """Return the files of a recording, oldest first. Raises OSError."""
    return [directory / name for name in sorted(os.listdir(directory)) if _NAME.fullmatch(name)]
