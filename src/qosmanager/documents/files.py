"""A user's file as text. In: a path, or standard input. Out: text, or DocumentError: never an OSError or a decoding error.

A pipe is waited for, but not for ever: one that nobody writes to would hold whoever reads it up without a word.
"""

from __future__ import annotations

import errno
import os
import select
import stat
from pathlib import Path

from qosmanager.documents.problem import DocumentError, Problem
from qosmanager.documents.tree import LARGEST

STANDARD_INPUT = "<stdin>"
_PATIENCE = 5.0  # seconds that a pipe may be silent


def read_text(path: Path) -> str:
    """Return the file's text; that of a pipe when it is closed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            data = _content(descriptor)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise _refusal(error, str(path)) from None
    return decode(data, str(path))


def read_kept_text(path: Path) -> str:
    """Return the text of a file that is read again and again; a pipe, which is read once, is refused."""
    if _is_pipe(path):
        raise _refusal(OSError("it is a pipe, and is to be read again whenever it changes; a regular file is needed"), str(path))
    return read_text(path)


def _is_pipe(path: Path) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False  # whatever it is, reading it says why it cannot be read


def open_data(path: Path) -> int:
    """Open a file that may be larger than memory, or a pipe that somebody writes to. OSError, also for a device: it has no end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        _check_data(descriptor)
        os.set_blocking(descriptor, True)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def read_standard_input() -> str:
    """Return what is piped in, up to its end."""
    try:
        with open(0, "rb", closefd=False) as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise _refusal(error, STANDARD_INPUT) from None
    return decode(data, STANDARD_INPUT)


def _content(descriptor: int) -> bytes:
    data = b""
    # One byte more than allowed: the parser then refuses it, and /dev/zero ends.
    while len(data) <= LARGEST:
        _await(descriptor)
        part = os.read(descriptor, LARGEST + 1 - len(data))
        if not part:
            break
        data += part
    return data


def _check_data(descriptor: int) -> None:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISFIFO(mode):
        _await(descriptor)
    elif not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "a file or a pipe is needed")


def _await(descriptor: int) -> None:
    ready = select.poll()  # not select(2), which knows the first 1024 descriptors only
    ready.register(descriptor, select.POLLIN)
    if not ready.poll(_PATIENCE * 1000):
        raise TimeoutError(errno.ETIMEDOUT, f"nothing has come out of it for {_PATIENCE:.0f} s")


def _refusal(error: OSError | ValueError, source: str) -> DocumentError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return DocumentError([Problem(source=source, line=None, message=f"cannot be read: {reason[:1].lower()}{reason[1:]}")])


def decode(data: bytes, source: str) -> str:
    """Return the text of UTF-8 bytes (a byte order mark is left out)."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if len(data) > LARGEST:  # cut in the middle of a character, perhaps
            return data.decode("utf-8", "replace")
        line = 1 + data.count(b"\n", 0, error.start)
        message = f"is not UTF-8: byte {error.object[error.start]:#04x} at offset {error.start}"
        raise DocumentError([Problem(source=source, line=line, message=message)]) from None
