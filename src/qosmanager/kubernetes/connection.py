"""One TLS connection to a server: a question, and its answer within a time.

In: where, whom to trust, the question. Out: http.client's response; reading it raises OSError, HTTPException or ValueError, at the latest
when the whole time is over.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
from typing import NamedTuple

from qosmanager.network.answering import Answering
from qosmanager.ports import Clock


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
        answering = self._http.sock = Answering(self._socket, question.within, self._clock)
        self._http.request(question.method, question.target, question.body, headers)
        self._response = self._http.getresponse()
        answering.begin_body()
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
