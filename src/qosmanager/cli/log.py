"""The agent's log: lines on standard error, written by a thread of its own.

In: log records. Out: one line each, without characters that a terminal would obey. A reader that has stopped reading (a full pipe, a
terminal that is held) must not stop the cycles: what finds no room is dropped, counted, and told of when there is room again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
import time

from qosmanager.model.plain import plain
from qosmanager.views.log_lines import pairs

_STANDARD_ERROR = 2
_WAITING = 1000  # lines that wait at most
_CLOSE_WITHIN = 2.0  # seconds


class StandardError(logging.Handler):
    """Takes lines from its construction until `close`; never waits."""

    def __init__(self) -> None:
        super().__init__()
        formatter = logging.Formatter("%(asctime)s.%(msecs)03dZ severity=%(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S")
        formatter.converter = time.gmtime
        self.setFormatter(formatter)
        self._lines: queue.Queue[str | None] = queue.Queue(_WAITING)
        self._lost = 0
        self._thread = threading.Thread(target=self._work, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.put_nowait(self.format(record))
        except queue.Full:
            self._lost += 1

    def close(self) -> None:
        """Write what is left, as far as somebody reads it within 2 s."""
        if self._thread.is_alive():
            with contextlib.suppress(queue.Full):
                self._lines.put(None, timeout=_CLOSE_WITHIN)
                self._thread.join(_CLOSE_WITHIN)
        super().close()

    def _work(self) -> None:
        while (text := self._lines.get()) is not None:
            _write(text)
            # Whoever drops lines meanwhile waits for the handler's own lock, so that each is counted once.
            with self.lock or contextlib.nullcontext():
                lost, self._lost = self._lost, 0
            if lost:
                _write(self.format(logging.makeLogRecord({"levelname": "WARNING", "msg": pairs("LogLost", lines=lost)})))


def log_to_standard_error(log: logging.Logger) -> StandardError:
    """Have a logger tell of its records there, and nowhere else."""
    handler = StandardError()
    log.handlers[:] = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False
    return handler


def _write(text: str) -> None:
    left = memoryview(plain(text).encode("utf-8", "backslashreplace") + b"\n")
    # Not through sys.stderr: a thread that waits in its buffer would keep the interpreter from ending.
    with contextlib.suppress(OSError):  # a log that cannot be written cannot tell so either
        while left:
            left = left[os.write(_STANDARD_ERROR, left) :]
