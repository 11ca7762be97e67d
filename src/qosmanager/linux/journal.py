"""The journal as a file on tmpfs (specification, section 9): <state-dir>/journal.json, mode 0600 in a directory of mode 0700.

In: a `JournalRecord`. Out: the same after any kill: it is written beside the old one, synced, and renamed over it. A file that cannot be
used (unreadable, damaged, of another version) is refused and left as it is: whoever went on without it would take the agent's own values
for originals.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from qosmanager.linux.replace_file import replace_file
from qosmanager.ports import JournalError, JournalRecord

STATE_DIRECTORY = Path("/run/qosmanager")
VERSION = 1
LARGEST = 64 << 20  # bytes; thirty times that of a node with 1000 pods and 100 000 processes

T = TypeVar("T", bound=Struct)
_WAY_OUT = (
    "nothing is written while it is there; what it says of originals (it is text) has to be put back by hand, then remove it: "
    "what the kernel holds counts as the originals from then on"
)


class _File(Struct, frozen=True, kw_only=True):
    version: int
    record: JournalRecord


class _Boot(Struct, frozen=True):
    boot_id: str = ""


class _Header(Struct, frozen=True, kw_only=True):
    version: int
    record: _Boot = _Boot()


def prepare_directory(directory: Path) -> None:
    """Make the state directory, 0700. OSError when it cannot be made, is somebody else's or a link, or is open to others and holds what is
    not ours, such as /tmp: closing it would take it from them."""
    try:
        os.makedirs(directory.parent, exist_ok=True)
        os.mkdir(directory, 0o700)
    except FileExistsError:
        found = os.lstat(directory)
        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "is not a directory", str(directory)) from None
        if found.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, f"belongs to user {found.st_uid}", str(directory)) from None
        if found.st_mode & 0o077:
            if found.st_mode & stat.S_ISVTX or not _may_close(directory):
                raise PermissionError(errno.EPERM, "is open to others and holds what is not the agent's", str(directory)) from None
            os.chmod(directory, 0o700)


def _may_close(directory: Path) -> bool:
    """Whether a directory is empty, or an agent's: one that has its lock."""
    try:
        return not os.listdir(directory) or stat.S_ISREG(os.lstat(directory / "lock").st_mode)
    except FileNotFoundError:
        return False


class FileJournal:
    """The `Journal` port."""

    def __init__(self, directory: Path = STATE_DIRECTORY) -> None:
        self.path = directory / "journal.json"
        self._directory = directory
        self._encoder = msgspec.json.Encoder()
        self._last: bytes | None = None  # what the file holds

    def load(self) -> JournalRecord | None:
        try:
            raw = self._read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise JournalError(f"the journal {self.path} cannot be read ({error.strerror}); try again; {_WAY_OUT}") from None
        boot_id = ""
        try:
            header = _decoded(raw, _Header)
            boot_id = header.record.boot_id
            if header.version == VERSION:
                record = _decoded(raw, _File).record
                self._last = raw
                return record
            fault = f"is of version {header.version}, this program reads version {VERSION}: let `qosmanager restore` of that one put back"
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            fault = f"cannot be understood ({error})"
        raise JournalError(f"the journal {self.path} {fault}; {_WAY_OUT}", boot_id)

    def save(self, record: JournalRecord) -> None:
        """Replace the stored record. OSError when that cannot be done; the old one then stays."""
        self._store(self._encoded(_File(version=VERSION, record=record)))

    def renew(self) -> bool:
        """Store what was stored last where somebody has removed it, and tell so. OSError when that cannot be done."""
        if self._last is None or os.path.lexists(self.path):
            return False
        self._store(self._last)
        return True

    def _store(self, raw: bytes) -> None:
        prepare_directory(self._directory)
        replace_file(self.path, raw, 0o600)
        self._last = raw

    def _encoded(self, file: _File) -> bytes:
        try:
            return self._encoder.encode(file)
        except UnicodeEncodeError:
            # Whoever may make groups below a pod may give them names that are no text; their originals are kept like all others.
            return json.dumps(msgspec.to_builtins(file)).encode("ascii")

    def _read(self) -> bytes:
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            chunks = []
            left = LARGEST + 1
            while left and (chunk := os.read(descriptor, min(left, 1 << 20))):
                chunks.append(chunk)
                left -= len(chunk)
            if not left:
                raise OSError(errno.EFBIG, f"it is larger than {LARGEST >> 20} MiB")
            return b"".join(chunks)
        finally:
            os.close(descriptor)


def _decoded(raw: bytes, wanted: type[T]) -> T:
    """Read a stored file; a group's name that is no text stands in it as a lone surrogate. Raises msgspec.DecodeError."""
    try:
        return msgspec.json.decode(raw, type=wanted)
    except msgspec.DecodeError:
        if b"\\udc" not in raw:
            raise
    try:
        return msgspec.convert(json.loads(raw), wanted)
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from None
