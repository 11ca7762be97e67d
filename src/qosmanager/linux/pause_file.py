"""The pause as a file (specification, section 2): <state-dir>/pause.json on tmpfs, so that it outlives the agent but no reboot.

In: a `Pause` that a person asked for. Out: the one in force, or None: none was asked for, its time is over, or it is of an earlier boot. A
file that cannot be understood pauses nothing and is said once.
"""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path
from typing import Protocol

import msgspec

from qosmanager.documents.quantities import LAST_TIME
from qosmanager.linux.journal import prepare_directory
from qosmanager.linux.replace_file import read_small_file, replace_file
from qosmanager.model.pause import Pause

_log = logging.getLogger("qosmanager.pause")


class Boot(Protocol):
    """This boot of the machine: its id, and a clock that counts sleep too and never jumps."""

    @property
    def id(self) -> str: ...

    def time(self) -> float: ...


class PauseFile:
    """The `Pauses` port. Each look costs one stat; the file is read when it has changed."""

    def __init__(self, directory: Path, boot: Boot) -> None:
        self.path = directory / "pause.json"
        self._directory = directory
        self._boot = boot
        self._mark: tuple[int, int, int] | None = None
        self._pause: Pause | None = None

    def current(self) -> Pause | None:
        """Return the pause in force now."""
        try:
            found = os.stat(self.path, follow_symlinks=False)
        except OSError:
            self._mark = self._pause = None
            return None
        mark = (found.st_ino, found.st_size, found.st_mtime_ns)
        if mark != self._mark:
            self._mark, self._pause = mark, self._read()
        pause = self._pause
        return pause if pause is not None and self._boot.time() < pause.ends else None

    def save(self, pause: Pause) -> None:
        """Put a pause in force. OSError when this user may not, or it cannot be written."""
        self._check_right()
        replace_file(self.path, msgspec.json.encode(pause), 0o644)

    def clear(self) -> None:
        """Let no pause be in force. OSError when this user may not."""
        try:
            os.lstat(self._directory)
        except FileNotFoundError:
            return
        self._check_right()
        self.path.unlink(missing_ok=True)

    def _check_right(self) -> None:
        """Make the directory where it is not there; refuse whoever is neither its owner nor root."""
        if os.geteuid() != 0 or not os.path.lexists(self._directory):
            prepare_directory(self._directory)  # refuses a directory that is somebody else's
        elif self._directory.is_symlink() or not self._directory.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "is not a directory", str(self._directory))

    def _read(self) -> Pause | None:
        try:
            raw = read_small_file(self.path)
            pause = None if raw is None else msgspec.json.decode(raw, type=Pause)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            _log.error("the pause %s cannot be understood and pauses nothing: %s", self.path, error)
            return None
        if pause is None or pause.boot_id != self._boot.id:
            return None
        if not (0 <= pause.since <= LAST_TIME and 0 <= pause.until <= LAST_TIME):
            _log.error("the pause %s is of a time that never was and pauses nothing", self.path)
            return None
        return pause
