"""A file in the state directory that outlives a run: the `Shelf` port."""

from __future__ import annotations

from pathlib import Path

from qosmanager.linux.replace_file import read_small_file, replace_file

_MOST = 1 << 20  # bytes


class FileShelf:
    """One file, replaced whole."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> bytes | None:
        return read_small_file(self._path, _MOST)

    def store(self, data: bytes) -> None:
        replace_file(self._path, data, 0o600)
