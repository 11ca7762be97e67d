"""A user's file as text. In: a path, or standard input. Out: text, or DocumentError: never an OSError or a decoding error."""

from __future__ import annotations

from pathlib import Path

from qosmanager.documents.problem import DocumentError, Problem
from qosmanager.documents.tree import LARGEST

STANDARD_INPUT = "<stdin>"


def read_text(path: Path) -> str:
    """Return the file's text."""
    return _read(path, str(path))


def read_standard_input() -> str:
    """Return what is piped in, up to its end."""
    return _read(0, STANDARD_INPUT)


def _read(target: Path | int, source: str) -> str:
    try:
        with open(target, "rb", closefd=isinstance(target, Path)) as file:
            data = file.read(LARGEST + 1)  # one more than allowed: the parser then refuses it, and /dev/zero ends
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        message = f"cannot be read: {reason[:1].lower()}{reason[1:]}"
        raise DocumentError([Problem(source=source, line=None, message=message)]) from None
    return decode(data, source)


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
