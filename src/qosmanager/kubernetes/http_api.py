"""The `Api` port over HTTPS: one request at a time with an end to it, and watches as lines.

In: an `Access`. Out: answers, or ApiUnreachable. The server named is the one that is asked: no redirects, no proxies, neither from the
environment. Only a watch keeps its connection, for the watch that follows it.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import NamedTuple
from urllib.parse import urlencode

import qosmanager
from qosmanager.kubernetes.access import Access
from qosmanager.kubernetes.api import JSON, NO_QUERY, Answer, ApiUnreachable, WatchRefused
from qosmanager.kubernetes.credentials import Token, Trust
from qosmanager.ports import Clock

CONNECT = 5.0  # seconds
LARGEST_ANSWER = 64 << 20  # bytes
LARGEST_EVENT = 16 << 20  # bytes
LARGEST_REFUSAL = 1 << 16  # bytes of an answer to a watch that is none
PART = 1 << 16  # bytes read at once
PATIENCE = 12  # waits of `timeout` that a whole answer may take

_Broken = (OSError, http.client.HTTPException, ValueError)


class _Question(NamedTuple):
    method: str
    target: str
    headers: dict[str, str]
    body: bytes | None


class _Connection:
    """One TLS connection and the context it was made with."""

    def __init__(self, address: tuple[str, int], name: str, context: ssl.SSLContext, timeout: float) -> None:
        self.context = context
        self._response: http.client.HTTPResponse | None = None
        self._http = http.client.HTTPConnection(*address)
        self._http.auto_open = 0  # never anew by itself: that would be without TLS, and show the token
        plain = socket.create_connection(address, timeout)
        try:
            self._http.sock = self._socket = context.wrap_socket(plain, server_hostname=name)
        except BaseException:
            plain.close()
            raise

    def send(self, question: _Question, headers: dict[str, str]) -> http.client.HTTPResponse:
        """Ask, and wait for the beginning of the answer."""
        self._http.request(question.method, question.target, question.body, headers)
        self._response = self._http.getresponse()
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
        # The library lets go of the socket when both are closed.
        self._http.close()
        if self._response is not None:
            self._response.close()


class HttpApi:
    """May be used from any thread. After `close` whoever waits is told ApiUnreachable."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self.server = access.server
        self._trust = Trust(access)
        self._token = Token(access.token, clock)
        self._clock = clock
        self._lock = threading.Lock()
        self._open: set[_Connection] = set()
        self._kept: _Connection | None = None
        self._closed = False

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] = NO_QUERY,
        body: bytes | None = None,
        content_type: str = JSON,
        timeout: float = 5.0,
    ) -> Answer:
        """Ask once, and once more with a token that was rotated meanwhile."""
        target = self._target(path, query)
        headers = {"Content-Type": content_type} if body is not None else {}
        with self._telling(f"{method} {path}"):
            answer = self._ask(_Question(method, target, headers, body), timeout)
            if answer.status == http.HTTPStatus.UNAUTHORIZED and self._token.again():
                answer = self._ask(_Question(method, target, headers, body), timeout)
            return answer

    @contextmanager
    def watch(self, path: str, query: Mapping[str, str], read_timeout: float) -> Generator[Iterator[bytes], None, None]:
        """Open a watch; its iterator ends where the server ends it."""
        question = _Question("GET", self._target(path, query), {}, None)
        what = f"watch {path}"
        with self._telling(what):
            connection, response = self._begin_watch(question, read_timeout)
            if response.status == http.HTTPStatus.UNAUTHORIZED and self._token.again():
                self._discard(connection)
                connection, response = self._begin_watch(question, read_timeout)
        lines = _Lines(response, partial(self._telling, what))
        try:
            if response.status != http.HTTPStatus.OK:
                raise WatchRefused(_answer(response, lines.beginning()))
            yield iter(lines)
        finally:
            if lines.whole and not response.will_close:
                self._keep(connection)
            else:
                self._discard(connection)

    def close(self) -> None:
        """Let go of everything, and wake whoever waits for the server."""
        with self._lock:
            self._closed = True
            kept, self._kept = self._kept, None
            waiting = tuple(self._open - {kept})
        for connection in waiting:
            connection.end()  # whoever waits for it discards it
        if kept is not None:
            self._discard(kept)

    def _ask(self, question: _Question, timeout: float) -> Answer:
        connection = self._connect(timeout)
        try:
            deadline = self._clock.monotonic() + PATIENCE * timeout
            response = connection.send(question, self._headers(question, "close"))
            parts: list[bytes] = []
            size = 0
            while part := response.read1(PART):
                parts.append(part)
                size += len(part)
                if size > LARGEST_ANSWER:
                    raise ValueError(f"the answer is longer than {LARGEST_ANSWER} bytes")
                if self._clock.monotonic() > deadline:
                    raise ValueError(f"the answer takes longer than {PATIENCE * timeout:.0f} s")
            return _answer(response, b"".join(parts))
        finally:
            self._discard(connection)

    def _begin_watch(self, question: _Question, read_timeout: float) -> tuple[_Connection, http.client.HTTPResponse]:
        kept = self._take_kept()
        if kept is not None:
            # The server may have closed it while it was idle: nothing is lost by asking again.
            with contextlib.suppress(*_Broken):
                return kept, self._sent(kept, question, read_timeout)
        connection = self._connect(CONNECT)
        return connection, self._sent(connection, question, read_timeout)

    def _sent(self, connection: _Connection, question: _Question, read_timeout: float) -> http.client.HTTPResponse:
        try:
            connection.patience(CONNECT)  # a server that is there says at once that it will tell
            response = connection.send(question, self._headers(question, "keep-alive"))
            connection.patience(read_timeout)
        except BaseException:
            self._discard(connection)
            raise
        return response

    def _take_kept(self) -> _Connection | None:
        """Return the last watch's connection, if it is still trusted by what is trusted now."""
        context = self._trust.context()
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None and kept.context is not context:
            self._discard(kept)
            return None
        return kept

    def _keep(self, connection: _Connection) -> None:
        with self._lock:
            closed = self._closed
            before, self._kept = self._kept, None if closed else connection
        if before is not None:
            self._discard(before)
        if closed:
            self._discard(connection)

    def _connect(self, timeout: float) -> _Connection:
        connection = _Connection((self.server.host, self.server.port), self.server.name, self._trust.context(), timeout)
        with self._lock:
            closed = self._closed
            if not closed:
                self._open.add(connection)
        if closed:
            connection.close()
            raise ConnectionAbortedError("the agent stops")
        return connection

    def _discard(self, connection: _Connection) -> None:
        with self._lock:
            self._open.discard(connection)
            if self._kept is connection:
                self._kept = None
        connection.close()

    def _headers(self, question: _Question, connection: str) -> dict[str, str]:
        token = self._token.current()
        return {
            "Accept": JSON,
            "User-Agent": f"qosmanager/{qosmanager.__version__}",
            "Connection": connection,
            **({"Authorization": f"Bearer {token}"} if token else {}),
            **question.headers,
        }

    @contextmanager
    def _telling(self, what: str) -> Iterator[None]:
        """Turn whatever is no answer into ApiUnreachable."""
        try:
            yield
        except _Broken as error:
            raise ApiUnreachable(f"{what} at {self.server.url}: {_words(error)}") from None

    def _target(self, path: str, query: Mapping[str, str]) -> str:
        return f"{self.server.prefix}{path}" + (f"?{urlencode(query)}" if query else "")


class _Lines:
    """What comes out of a watch, line by line. `whole`: the server has ended it where an event ends."""

    def __init__(self, response: http.client.HTTPResponse, telling: Callable[[], AbstractContextManager[None]]) -> None:
        self._response = response
        self._telling = telling
        self.whole = False

    def beginning(self) -> bytes:
        """Return what was said instead of events, up to a length."""
        with self._telling():
            return self._response.read(LARGEST_REFUSAL)

    def __iter__(self) -> Iterator[bytes]:
        rest = bytearray()
        while part := self._read(rest):
            first, *others = part.split(b"\n")
            rest += first
            for other in others:
                if rest.strip():
                    yield bytes(rest)
                rest = bytearray(other)
        self.whole = True

    def _read(self, rest: bytearray) -> bytes:
        with self._telling():
            part = self._response.read1(PART)
            if rest and not part:
                raise ValueError("it ended in the middle of an event")
            if len(rest) + len(part) > LARGEST_EVENT:
                raise ValueError(f"an event is longer than {LARGEST_EVENT} bytes")
            return part


def _answer(response: http.client.HTTPResponse, body: bytes) -> Answer:
    return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, body)


def _words(error: BaseException) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {error.verify_message}"
        case TimeoutError():
            return "no word from it"
        case http.client.IncompleteRead() | http.client.RemoteDisconnected():
            return "the connection was cut"
        case http.client.HTTPException():
            return f"no HTTP: {type(error).__name__}"
        case OSError():
            return error.strerror or str(error) or type(error).__name__
        case _:
            return str(error)
