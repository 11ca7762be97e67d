"""One agent per node: flock on <state-dir>/lock (specification, section 9).

The kernel lets go of it when the holder dies, however it dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from qosmanager.linux.journal import prepare_directory


class LockHeldError(Exception):
    """Another process holds the lock; the message names it."""


class NodeLock:
    """Held from construction until `release` or the process' end. Raises LockHeldError, or OSError for the directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "lock"
        self._descriptor = self._take()

    def _take(self) -> int:
        prepare_directory(self.path.parent)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _sign(descriptor)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise LockHeldError(f"another qosmanager runs on this node: process {holder} holds {self.path}") from None
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def renew(self) -> bool:
        """Take it anew where somebody has removed the file, and tell so: what is held then keeps nobody out. Raises like construction."""
        try:
            if os.path.samestat(os.lstat(self.path), os.fstat(self._descriptor)):
                return False
        except (FileNotFoundError, NotADirectoryError):
            pass
        taken = self._take()
        os.close(self._descriptor)
        self._descriptor = taken
        return True

    def release(self) -> None:
        """Let go. The file stays: removing it would let two processes lock two files of one name."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()


def _sign(descriptor: int) -> None:
    """Write down who holds it, for people: a full disk is no reason not to hold it."""
    with contextlib.suppress(OSError):
        signature = f"{os.getpid()}\n".encode("ascii")
        os.ftruncate(descriptor, os.pwrite(descriptor, signature, 0))


class TreeLock:
    """The group that is the node, held by flock on its directory: two agents with different state directories must not share it either."""

    def __init__(self, directory: str) -> None:
        self._descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise LockHeldError(f"another qosmanager, with a state directory of its own, acts on {directory}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._descriptor)
