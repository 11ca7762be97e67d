"""A log of lines that must not be lost: appended and synced one by one, off the cycle's thread (a busy disk syncs in 200 ms).

In: lines (JSON documents): of what is over, of what is under way, of what is about to begin. Out: `path`, mode 0640, the lines of what is
over, moved on at 10 MB, five files in all; and in the state directory (a tmpfs) a small file, the note: one JSON array of all lines that
are not in `path` yet, from which a successor finishes what a kill cut off. What cannot be written is kept and tried again.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from qosmanager.linux.replace_file import read_small_file, replace_file

LARGEST = 10_000_000  # bytes of one file
FILES = 5
_WAITING = 1000  # lines that wait at most
_AGAIN_AFTER = 5.0  # seconds after a failed write
_CLOSE_WITHIN = 5.0  # seconds
_LARGEST_NOTE = 4_000_000  # bytes

_log = logging.getLogger("qosmanager")


class AuditLog:
    """Writes from `start` to `close`, on a thread of its own: nobody waits for the disk, only for the state directory."""

    def __init__(self, path: Path, note: Path) -> None:
        """Open it, and read what is noted. OSError when the log cannot be written, or the note not be read."""
        os.makedirs(path.parent, mode=0o750, exist_ok=True)
        self.path = path
        os.close(self._open())
        self.left = read_small_file(note, _LARGEST_NOTE)  # the predecessor's note; None: there is none
        self._note_path = note
        self._noted = b"[]" if self.left is None else self.left
        self._backlog: deque[bytes] = deque()
        self._under_way: tuple[bytes, ...] = ()
        self._intended: tuple[bytes, ...] = ()
        self._lock = threading.Lock()  # of what is to be noted, and of the note
        self._wake = threading.Event()
        self._closing = False
        self._failed: dict[Path, str] = {}
        self._thread = threading.Thread(target=self._work, name="audit", daemon=True)

    def start(self) -> None:
        """Begin to write; what was left is noted until the first `record`."""
        self._thread.start()

    def intend(self, lines: tuple[bytes, ...]) -> None:
        """Note what is about to begin; it is in the state directory when this returns, or a fault is said. The next `record` ends it."""
        with self._lock:
            self._intended = lines
            self._note()

    def record(self, lines: tuple[bytes, ...], under_way: tuple[bytes, ...]) -> None:
        """Append lines (without their line ends), and note what is under way."""
        with self._lock:
            room = _WAITING - len(self._backlog)
            self._backlog.extend(lines[:room])
            self._under_way, self._intended = under_way, ()
        if len(lines) > room:
            _log.error('AuditLost lines=%d detail="%d lines wait for the disk already"', len(lines) - room, _WAITING)
        self._wake.set()

    def close(self) -> None:
        """Write what is left, as far as the disk takes it within 5 s; what it does not take stays noted."""
        self._closing = True
        self._wake.set()
        self._thread.join(_CLOSE_WITHIN)

    def _work(self) -> None:
        closing = False
        while not closing:
            self._wake.wait(_AGAIN_AFTER if self._backlog else None)
            self._wake.clear()
            closing = self._closing  # looked at before what was recorded until then is written
            with self._lock:
                self._note()  # first: the disk may be slow, or full
            self._write_backlog()
            with self._lock:
                self._note()

    def _write_backlog(self) -> None:
        try:
            while self._backlog:
                self._append(self._backlog[0])
                with self._lock:
                    self._backlog.popleft()
        except OSError as error:
            self._complain(self.path, error)
        else:
            self._failed.pop(self.path, None)

    def _note(self) -> None:
        """Write down all lines that are not on the disk; the lock is held."""
        text = b"[" + b",".join((*self._backlog, *self._under_way, *self._intended)) + b"]"
        if text == self._noted:
            return
        try:
            replace_file(self._note_path, text, 0o600)
        except OSError as error:
            self._complain(self._note_path, error)
        else:
            self._noted = text
            self._failed.pop(self._note_path, None)

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

    def _open(self) -> int:
        return _regular(os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o640))

    def _complain(self, path: Path, error: OSError) -> None:
        """Say once what is wrong with a file, until it works again or something else is."""
        text = error.strerror or str(error)
        if text != self._failed.get(path):
            _log.error('AuditFailed file=%s error="%s" waiting=%d', path, text, len(self._backlog))
        self._failed[path] = text


def numbered(path: Path, number: int) -> Path:
    """Return the name of an older file; 1 is the newest of them."""
    return Path(f"{path}.{number}")


def lines_of(path: Path) -> Iterator[bytes]:
    """Yield every whole line of a log, oldest first. OSError when there is none, or it may not be read."""
    for number in range(FILES - 1, 0, -1):
        older = numbered(path, number)
        if older.is_file():  # a directory or a pipe of that name is no part of it
            with contextlib.suppress(FileNotFoundError):
                yield from _lines(older)
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
