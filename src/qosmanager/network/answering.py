"""One answer over a connected socket, with an end to it whatever the other side does.

In: a socket, the seconds that the whole answer may take. Out: what http.client needs of a socket; reading it raises OSError. Every read has
the socket's own patience, and none outlasts the whole; that a byte comes now and then, or one interim answer after the other, does not
prolong that.
"""

from __future__ import annotations

import io
import socket
import sys
from typing import TYPE_CHECKING

from qosmanager.ports import Clock

if TYPE_CHECKING:
    from typing_extensions import Buffer  # in the standard library from 3.12 on

LARGEST_HEAD = 1 << 20  # bytes before an answer's body: http.client reads interim answers without end


class Answering:
    """A socket for one question and its answer, as http.client wants it."""

    def __init__(self, connected: socket.socket, within: float, clock: Clock) -> None:
        """The time begins now."""
        self._socket = connected
        self._reader = _Reader(connected, within, clock)

    def sendall(self, data: bytes) -> None:
        self._socket.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self._reader)

    def begin_body(self) -> None:
        """The head is over; how long a body may be is for whoever reads it."""
        self._reader.left = sys.maxsize

    def close(self) -> None:
        self._socket.close()


class _Reader(io.RawIOBase):
    """The bytes of one answer. `left`: how many more are read."""

    def __init__(self, connected: socket.socket, within: float, clock: Clock) -> None:
        self.left = LARGEST_HEAD
        self._socket = connected
        self._file = connected.makefile("rb", buffering=0)  # keeps the socket open until it is closed itself
        self._within = within
        self._clock = clock
        self._deadline = clock.monotonic() + within

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int | None:
        """Raises OSError for an answer without end: http.client takes a ValueError for its own."""
        if self.left <= 0:
            raise OSError(f"the answer's head is longer than {LARGEST_HEAD} bytes")
        seconds = self._deadline - self._clock.monotonic()
        patience = self._socket.gettimeout()
        if seconds > 0:
            # What is shortened here stays so only for this answer: the next question has its own patience.
            self._socket.settimeout(seconds if patience is None else min(patience, seconds))
            try:
                size = self._file.readinto(buffer)
            except TimeoutError:
                if patience is not None and patience <= seconds:
                    raise
            else:
                self.left -= size or 0
                return size
        raise OSError(f"the answer takes longer than {self._within:.0f} s")

    def close(self) -> None:
        super().close()
        self._file.close()
