"""One TLS connection to a server: a question, and its answer within a time.

In: where, whom to trust, the question. Out: http.client's response; reading it raises OSError, HTTPException or ValueError. Every read has
its own patience, and none outlasts the whole; that a byte comes now and then, or one interim answer after the other, does not prolong that.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import socket
import ssl
import sys
from typing import TYPE_CHECKING, NamedTuple

from qosmanager.ports import Clock

if TYPE_CHECKING:
    from typing_extensions import Buffer  # in the standard library from 3.12 on

LARGEST_HEAD = 1 << 20  # bytes before an answer's body: http.client reads interim answers without end


class Question(NamedTuple):
    """What is asked, and the seconds that its whole answer may take."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes | None
    within: float


class Connection:
    """A connection and the context it was made with."""

    def __init__(self, address: tuple[str, int], name: str, context: ssl.SSLContext, timeout: float, clock: Clock) -> None:
        self.context = context
        self._clock = clock
        self._response: http.client.HTTPResponse | None = None
        self._http = http.client.HTTPConnection(*address)
        self._http.auto_open = 0  # never anew by itself: that would be without TLS, and show the token
        plain = socket.create_connection(address, timeout)
        try:
            self._socket = context.wrap_socket(plain, server_hostname=name)
        except BaseException:
            plain.close()
            raise

    def send(self, question: Question, headers: dict[str, str]) -> http.client.HTTPResponse:
        """Ask, and wait for the beginning of the answer."""
        if self._socket.fileno() < 0:
            raise http.client.NotConnected
        reader = _Reader(self._socket, question.within, self._clock)
        self._http.sock = _Sending(self._socket, reader)
        self._http.request(question.method, question.target, question.body, headers)
        self._response = self._http.getresponse()
        reader.begin_body()
        return self._response

    def patience(self, seconds: float) -> None:
        """From now on, wait no longer than that for the next bytes."""
        self._socket.settimeout(seconds)

    def end(self) -> None:
        """Wake the thread that waits for it; that one closes it."""
        with contextlib.suppress(OSError):
            # Not the method of the TLS socket, which takes its state from under the one that reads.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        # The library lets go of the socket when all are closed.
        self._http.close()
        self._socket.close()
        if self._response is not None:
            self._response.close()


class _Sending:
    """What http.client needs of a connected socket, for one question."""

    def __init__(self, connected: socket.socket, reader: _Reader) -> None:
        self._socket = connected
        self._reader = reader

    def sendall(self, data: bytes) -> None:
        self._socket.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self._reader)

    def close(self) -> None:
        self._socket.close()


class _Reader(io.RawIOBase):
    """The bytes of one answer."""

    def __init__(self, connected: socket.socket, within: float, clock: Clock) -> None:
        self._socket = connected
        self._file = connected.makefile("rb", buffering=0)  # keeps the socket open until it is closed itself
        self._within = within
        self._clock = clock
        self._deadline = clock.monotonic() + within
        self._left = LARGEST_HEAD

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int | None:
        """Raises OSError for an answer without end: http.client takes a ValueError for its own."""
        if self._left <= 0:
            raise OSError(f"the answer's head is longer than {LARGEST_HEAD} bytes")
        left = self._deadline - self._clock.monotonic()
        patience = self._socket.gettimeout()
        if left > 0:
            # What is shortened here stays so only for this answer: the next question has its own patience.
            self._socket.settimeout(left if patience is None else min(patience, left))
            try:
                size = self._file.readinto(buffer)
            except TimeoutError:
                if patience is not None and patience <= left:
                    raise
            else:
                self._left -= size or 0
                return size
        raise OSError(f"the answer takes longer than {self._within:.0f} s")

    def begin_body(self) -> None:
        """The head is over; how long a body may be is for whoever reads it."""
        self._left = sys.maxsize

    def close(self) -> None:
        super().close()
        self._file.close()
