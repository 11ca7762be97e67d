"""The audit log of a running agent, and how it is read again (specification, section 10)."""

from __future__ import annotations

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

NAME = "audit.log"
_UNDER_WAY = "evictions.json"


class Auditor:
    """Tells the audit log of each cycle, then the listener behind it."""

    def __init__(self, log: AuditLog, behind: Listener) -> None:
        self._log = log
        self._behind = behind
        self._trail = Trail(socket.gethostname(), os.getpid())
        self._noted: tuple[AuditLine, ...] = ()

    def cycle_done(self, record: CycleRecord, settings: Settings) -> None:
        self._tell(self._trail.observe(record))
        self._behind.cycle_done(record, settings)

    def about_to_evict(self, record: CycleRecord) -> None:
        """Note whom a cycle is about to evict."""
        self._log.intend(msgspec.json.encode(self._trail.intended(record)))

    def cycle_failed(self, error: Exception) -> None:
        self._behind.cycle_failed(error)

    def finish(self, left: bytes | None, intended: bytes | None) -> None:
        """Write the lines of evictions that a predecessor began and did not see end, or was about to begin when it was killed."""
        found = {(line.pod, line.begun): line for text in (intended, left) if text is not None for line in _decoded(text)}
        if not found:
            return
        # The line may have been written, and the note of what is under way not any more.
        known = {(line.pod, line.begun) for line in read_audit(self._log.path) if line is not None}
        self._tell(tuple(unseen(line, _CUT_OFF) for key, line in found.items() if key not in known))

    def close(self) -> None:
        self._tell(self._trail.end("the agent stopped before it was seen gone"))
        self._log.close()

    def _tell(self, lines: tuple[AuditLine, ...]) -> None:
        under_way = self._trail.under_way
        if lines or under_way != self._noted:
            self._log.record(tuple(msgspec.json.encode(line) for line in lines), msgspec.json.encode(under_way))
        self._noted = under_way


_CUT_OFF = "the agent that began it ended before it was seen gone"


def audited(path: Path, state_dir: Path, behind: Listener, stack: ExitStack) -> Auditor:
    """Begin the audit log; it is closed when `stack` unwinds. Raises CannotRunError when it cannot be written."""
    log = AuditLog(path, state_dir / _UNDER_WAY)
    try:
        left, intended = log.start(), log.intended()
    except OSError as error:
        raise CannotRunError(f"--audit-log {path}: {error.strerror or error}; a file that this user may write is needed") from None
    auditor = Auditor(log, behind)
    stack.callback(auditor.close)
    auditor.finish(left, intended)
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


def _decoded(left: bytes) -> list[AuditLine]:
    try:
        return msgspec.json.decode(left, type=list[AuditLine])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
