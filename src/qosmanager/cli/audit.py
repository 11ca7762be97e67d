"""The audit log of a running agent, and how it is read again (specification, section 10)."""

from __future__ import annotations

import logging
import os
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec

from qosmanager.cli.errors import CannotRunError
from qosmanager.config.settings import Settings
from qosmanager.engine.runner import Listener
from qosmanager.linux.audit_log import AuditLog, lines_of
from qosmanager.model.record import CycleRecord
from qosmanager.views.audit import AuditLine, Trail, unseen
from qosmanager.views.log_lines import pairs

_LOG = logging.getLogger("qosmanager")

NAME = "audit.log"
_UNDER_WAY = "evictions.json"


class Auditor:
    """Tells the audit log of each cycle, then the listener behind it."""

    def __init__(self, log: AuditLog, behind: Listener) -> None:
        self._log = log
        self._behind = behind
        self._trail = Trail(socket.gethostname(), os.getpid())
        self._intended: tuple[AuditLine, ...] = ()
        self._noted: tuple[AuditLine, ...] | None = None  # what is under way; None: the log has to be told anew

    def cycle_done(self, record: CycleRecord, settings: Settings) -> None:
        self._tell(self._trail.observe(record))
        self._behind.cycle_done(record, settings)

    def about_to_evict(self, record: CycleRecord) -> None:
        """Note whom a cycle is about to evict."""
        self._intended, self._noted = self._trail.intended(record), None
        self._log.intend(_encoded(self._intended))

    def cycle_failed(self, error: Exception) -> None:
        if self._intended:
            self._tell(tuple(unseen(line, _FAILED) for line in self._intended))
        self._behind.cycle_failed(error)

    def finish(self) -> None:
        """Write the lines of evictions that a predecessor began and did not see end, was about to begin, or could not write down."""
        left = _decoded(self._log.left or b"[]")
        known = self._known() if left else set()
        self._tell(tuple(line if line.outcome else unseen(line, _CUT_OFF) for line in left if (line.pod, line.begun) not in known))

    def close(self) -> None:
        self._tell(self._trail.end("the agent stopped before it was seen gone"))
        self._log.close()

    def _known(self) -> set[tuple[str, str]]:
        """Return which evictions have a line: it may have been written, and the note not any more."""
        known: set[tuple[str, str]] = set()
        try:
            known.update((line.pod, line.begun) for line in read_audit(self._log.path) if line is not None)
        except OSError as error:
            _LOG.warning(pairs("AuditUnread", file=self._log.path, error=error.strerror or error, problem="some lines may come twice"))
        return known

    def _tell(self, lines: tuple[AuditLine, ...]) -> None:
        under_way = self._trail.under_way
        if lines or under_way != self._noted:
            self._log.record(_encoded(lines), _encoded(under_way))
        self._intended, self._noted = (), under_way


_CUT_OFF = "the agent that began it ended before it was seen gone"
_FAILED = "the cycle that began it failed"


def opened(path: Path, state_dir: Path) -> AuditLog:
    """Open the audit log. Raises CannotRunError when it cannot be written."""
    try:
        return AuditLog(path, state_dir / _UNDER_WAY)
    except OSError as error:
        raise CannotRunError(f"--audit-log {path}: {error.strerror or error}; a file that this user may write is needed") from None


def audited(log: AuditLog, behind: Listener, stack: ExitStack) -> Auditor:
    """Begin an audit log before a listener; it is closed when `stack` unwinds."""
    log.start()
    auditor = Auditor(log, behind)
    stack.callback(auditor.close)
    auditor.finish()
    return auditor


def read_audit(path: Path) -> Iterator[AuditLine | None]:
    """Yield the lines of an audit log, oldest first; None for one that cannot be understood. OSError when it cannot be read."""
    for line in lines_of(path):
        try:
            yield msgspec.json.decode(line, type=AuditLine)
        except (msgspec.DecodeError, UnicodeDecodeError):
            yield None


def last_audited(path: Path, count: int, pod: str | None) -> list[AuditLine]:
    """Return the last evictions, oldest first; with `pod` (its key or its name) only those of that pod. Raises CannotRunError."""
    try:
        found = (line for line in read_audit(path) if line is not None and (pod is None or pod in (line.pod, line.pod.partition("/")[2])))
        return list(deque(found, maxlen=count))
    except OSError as error:
        raise CannotRunError(f"{path}: {error.strerror or error}; --audit-log says where the agent keeps it", code=1) from None


def _encoded(lines: tuple[AuditLine, ...]) -> tuple[bytes, ...]:
    return tuple(msgspec.json.encode(line) for line in lines)


def _decoded(left: bytes) -> list[AuditLine]:
    try:
        return msgspec.json.decode(left, type=list[AuditLine])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
