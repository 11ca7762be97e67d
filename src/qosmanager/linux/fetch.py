"""One GET with an end to it, whatever the other side does: the whole answer, headers too, within a deadline and a size.

Nothing is followed: no redirects, no proxies from the environment, no schemes but http and https.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from qosmanager.ports import Clock

if TYPE_CHECKING:
    from typing_extensions import Buffer  # in the standard library from 3.12 on

SILENCE = 1.0  # seconds that a source may be silent
PATIENCE = 2.0  # seconds that a whole answer may take
LARGEST = 1 << 20  # bytes of an answer


def fetch(url: str, clock: Clock) -> str:
    """Return the text behind a URL. Raises OSError, HTTPException or ValueError: no answer, a long wait, a long answer, another scheme."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("only http and https are asked")
    deadline = clock.monotonic() + PATIENCE
    connection = _connection(parts)
    try:
        connection.connect()
        connection.sock = _Hurried(connection.sock, clock, deadline)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", target, headers={"Accept": "text/plain", "User-Agent": "qosmanager", "Connection": "close"})
        return _body(connection.getresponse()).decode("utf-8", "replace")
    finally:
        connection.close()


def _connection(parts: SplitResult) -> http.client.HTTPConnection:
    host = parts.hostname or ""
    if parts.scheme == "https":
        return http.client.HTTPSConnection(host, parts.port, timeout=SILENCE, context=_trust())
    return http.client.HTTPConnection(host, parts.port, timeout=SILENCE)


@cache
def _trust() -> ssl.SSLContext:
    """Made when the first https source is asked: the authorities' certificates are megabytes."""
    return ssl.create_default_context()


def _body(response: http.client.HTTPResponse) -> bytes:
    with response:
        if 300 <= response.status < 400:
            raise ValueError(f"redirects to {response.headers.get('Location')}; name that address if it is meant")
        if response.status != http.HTTPStatus.OK:
            raise ValueError(f"answers {response.status} {response.reason}")
        parts: list[bytes] = []
        size = 0
        while part := response.read1(65536):
            parts.append(part)
            size += len(part)
            if size > LARGEST:
                raise ValueError(f"the answer is longer than {LARGEST} bytes")
    return b"".join(parts)


class _Hurried:
    """What http.client needs of a connected socket, with reads that end at a deadline."""

    def __init__(self, connected: socket.socket, clock: Clock, deadline: float) -> None:
        self._socket = connected
        self._clock = clock
        self._deadline = deadline

    def sendall(self, data: bytes) -> None:
        self._socket.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self._socket, self._clock, self._deadline))

    def close(self) -> None:
        self._socket.close()


class _Reader(io.RawIOBase):
    """Reads of a socket that end at a deadline all together: one byte now and then does not prolong it."""

    def __init__(self, connected: socket.socket, clock: Clock, deadline: float) -> None:
        self._socket = connected
        self._file = connected.makefile("rb", buffering=0)  # keeps the socket open until it is closed itself
        self._clock = clock
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int | None:
        left = self._deadline - self._clock.monotonic()
        if left > 0:
            self._socket.settimeout(min(SILENCE, left))
            try:
                return self._file.readinto(buffer)
            except TimeoutError:
                if left >= SILENCE:
                    raise
        raise TimeoutError(f"the answer takes longer than {PATIENCE:.0f} s")

    def close(self) -> None:
        super().close()
        self._file.close()
