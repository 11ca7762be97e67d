"""A root file system for a guest in memory: a cpio archive ("newc") as the kernel unpacks it, made without a staging directory.

Python sources are stored with their compiled form beside them, for a guest that is emulated compiles slowly.
"""

from __future__ import annotations

import importlib.util
import marshal
import os
import stat
import sys
from pathlib import Path

_UNCHECKED_HASH = (1).to_bytes(4, "little")


class Archive:
    """Grows by directories, files and links; `data()` is what the kernel takes as (a part of) its initramfs."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._names: set[str] = set()

    def file(self, name: str, content: bytes, mode: int = 0o644) -> None:
        self._entry(name, stat.S_IFREG | mode, content)

    def link(self, name: str, target: str) -> None:
        self._entry(name, stat.S_IFLNK | 0o777, target.encode())

    def directory(self, name: str) -> None:
        self._entry(name, stat.S_IFDIR | 0o755, b"")

    def copy(self, path: Path, name: str) -> None:
        """Copy a file of this machine; what links lead to, not the links."""
        self.file(name, path.read_bytes(), 0o755 if os.access(path, os.X_OK) else 0o644)

    def tree(self, path: Path, name: str, leave_out: frozenset[str] = frozenset()) -> None:
        """Copy a directory with all below it but the names to be left out; Python sources also in their compiled form."""
        for entry in sorted(path.iterdir()):
            inside = f"{name}/{entry.name}"
            if entry.name in leave_out or entry.name == "__pycache__":
                continue
            if entry.is_dir():
                self.tree(entry, inside, leave_out)
            else:
                self.add(entry, inside)

    def add(self, path: Path, name: str) -> None:
        """Copy a file; a Python source also in its compiled form."""
        if path.suffix != ".py":
            self.copy(path, name)
            return
        source = path.read_bytes()
        self.file(name, source)
        code = compile(source, f"/{name}", "exec", dont_inherit=True)
        head = importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH + importlib.util.source_hash(source)
        directory, _, base = name.rpartition("/")
        compiled = f"{directory}/__pycache__/{base.removesuffix('.py')}.{sys.implementation.cache_tag}.pyc"
        self.file(compiled, head + marshal.dumps(code))

    def data(self) -> bytes:
        return b"".join((*self._parts, _record("TRAILER!!!", 0, b"")))

    def _entry(self, name: str, mode: int, content: bytes) -> None:
        name = name.strip("/")
        if name in self._names:
            return
        self._names.add(name)
        if "/" in name:
            self.directory(name.rpartition("/")[0])
        self._parts.append(_record(name, mode, content))


def _record(name: str, mode: int, content: bytes) -> bytes:
    # inode 0 and one link: the kernel then makes a new file of each.
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name.encode()) + 1, 0)
    head = b"070701" + "".join(f"{field:08X}" for field in fields).encode() + name.encode() + b"\0"
    return _padded(head) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
