"""A small durable text in one file, replaced whole."""

from __future__ import annotations

from pathlib import Path

from qosmanager.linux.replace_file import read_small_file, replace_file

_LARGEST = 1 << 20  # bytes


class FileNotebook:
    """A file in a directory that somebody else has made."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> bytes | None:
        """Return what was saved last; None: nothing yet. OSError when it cannot be read."""
        return read_small_file(self.path, _LARGEST)

    def save(self, text: bytes) -> None:
        """Replace what is kept. OSError when it cannot be written."""
        replace_file(self.path, text, 0o600)
