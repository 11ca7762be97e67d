"""A log of lines that must not be lost: appended and synced one by one, off the cycle's thread (a busy disk syncs in 200 ms).

In: lines, and the text of what is still under way. Out: `path`, mode 0640, moved on at 10 MB, five files in all; and in the state directory
a small file of what is under way, from which a successor finishes what a kill cut off, and one of what is about to begin, which is there
before it does. What cannot be written is kept and tried again.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import queue
import stat
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from qosmanager.linux.replace_file import read_small_file, replace_file

LARGEST = 10_000_000  # bytes of one file
FILES = 5
_WAITING = 1000  # jobs, and lines, that wait at most
_AGAIN_AFTER = 5.0  # seconds after a failed write
_CLOSE_WITHIN = 5.0  # seconds
_MOST_UNDER_WAY = 4_000_000  # bytes

_log = logging.getLogger("qosmanager")


class _Job(Struct, frozen=True):
    lines: tuple[bytes, ...]
    under_way: bytes


class AuditLog:
    """Writes from `start` to `close`, on a thread of its own; `record` never blocks."""

    def __init__(self, path: Path, under_way: Path) -> None:
        self.path = path
        self._under_way_path = under_way
        self._intended_path = under_way.with_name(f"{under_way.name}.next")
        self._jobs: queue.Queue[_Job | None] = queue.Queue(_WAITING)
        self._backlog: deque[bytes] = deque(maxlen=_WAITING)
        self._failed = ""
        self._thread = threading.Thread(target=self._work, name="audit", daemon=True)

    def start(self) -> bytes | None:
        """Begin; return what the predecessor left under way. OSError when the log cannot be written."""
        os.makedirs(self.path.parent, mode=0o750, exist_ok=True)
        os.close(self._open())
        left = read_small_file(self._under_way_path, _MOST_UNDER_WAY)
        self._thread.start()
        return left

    def intended(self) -> bytes | None:
        """Return what the predecessor was about to begin last, whatever came of it. OSError."""
        return read_small_file(self._intended_path, _MOST_UNDER_WAY)

    def intend(self, text: bytes) -> None:
        """Note what is about to begin; it is in the state directory (a tmpfs) when this returns, or a fault is said."""
        try:
            replace_file(self._intended_path, text, 0o600)
        except OSError as error:
            _log.error('AuditFailed file=%s error="%s"', self._intended_path, error.strerror or error)

    def record(self, lines: tuple[bytes, ...], under_way: bytes) -> None:
        """Append lines (without their line ends), and note what is under way."""
        try:
            self._jobs.put_nowait(_Job(lines, under_way))
        except queue.Full:
            _log.error('AuditLost lines=%d detail="the disk does not keep up"', len(lines))

    def close(self) -> None:
        """Write what is left, as far as the disk takes it within 5 s."""
        with contextlib.suppress(queue.Full):
            self._jobs.put(None, timeout=_CLOSE_WITHIN)
        self._thread.join(_CLOSE_WITHIN)

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=_AGAIN_AFTER if self._backlog else None)
            except queue.Empty:
                self._write_backlog()
                continue
            if job is None:
                self._write_backlog()
                return
            self._backlog.extend(job.lines)
            if self._write_backlog():
                self._note(job.under_way)

    def _write_backlog(self) -> bool:
        """Tell whether all lines are on the disk."""
        try:
            while self._backlog:
                self._append(self._backlog[0])
                self._backlog.popleft()
        except OSError as error:
            self._complain(error)
            return False
        self._failed = ""
        return True

    def _append(self, line: bytes) -> None:
        descriptor = self._open()
        try:
            size = os.fstat(descriptor).st_size
            if size and size + len(line) >= LARGEST:
                os.close(descriptor)
                descriptor = -1
                self._move_on()
                descriptor = self._open()
                size = 0
            # A kill in the middle of a line leaves its beginning: the next one starts on its own line.
            torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
            text = (b"\n" if torn else b"") + line + b"\n"
            written = os.write(descriptor, text)
            if written != len(text):
                os.ftruncate(descriptor, size)
                raise OSError(None, "only a part of a line could be written")
            os.fsync(descriptor)
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def _move_on(self) -> None:
        """audit.log becomes audit.log.1, and so on; the oldest goes."""
        for number in range(FILES - 1, 0, -1):
            older = self.path if number == 1 else numbered(self.path, number - 1)
            with contextlib.suppress(FileNotFoundError):
                os.rename(older, numbered(self.path, number))

    def _note(self, under_way: bytes) -> None:
        try:
            replace_file(self._under_way_path, under_way, 0o600)
        except OSError as error:
            self._complain(error)

    def _open(self) -> int:
        return _regular(os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o640))

    def _complain(self, error: OSError) -> None:
        """Say once what is wrong, until it works again or something else is."""
        text = error.strerror or str(error)
        if text != self._failed:
            _log.error('AuditFailed file=%s error="%s" waiting=%d', self.path, text, len(self._backlog))
        self._failed = text


def numbered(path: Path, number: int) -> Path:
    """Return the name of an older file; 1 is the newest of them."""
    return Path(f"{path}.{number}")


def lines_of(path: Path) -> Iterator[bytes]:
    """Yield every whole line of a log, oldest first. OSError when there is none, or it may not be read."""
    for number in range(FILES - 1, 0, -1):
        with contextlib.suppress(FileNotFoundError):
            yield from _lines(numbered(path, number))
    yield from _lines(path)


def _lines(path: Path) -> Iterator[bytes]:
    with open(_regular(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)), "rb") as file:
        while line := file.readline(LARGEST):
            if line.endswith(b"\n") and line != b"\n":
                yield line[:-1]


def _regular(descriptor: int) -> int:
    """Return the descriptor of a regular file. OSError for any other, which is closed: it may take lines for ever, or give them."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is not a regular file")
    return descriptor
