"""The `Api` port over HTTPS: one request at a time with an end to it, and watches as lines.

In: an `Access`. Out: answers, or ApiUnreachable. The server named is the one that is asked: no redirects, no proxies, neither from the
environment. Only a watch keeps its connection, for the watch that follows it.
"""

from __future__ import annotations

import contextlib
import http.client
import ssl
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from urllib.parse import urlencode

import qosmanager
from qosmanager.kubernetes.access import Access
from qosmanager.kubernetes.api import JSON, NO_QUERY, Answer, ApiUnreachable, WatchRefused
from qosmanager.kubernetes.connection import Connection, Question
from qosmanager.kubernetes.credentials import Token, Trust
from qosmanager.ports import Clock

CONNECT = 5.0  # seconds
LARGEST_ANSWER = 64 << 20  # bytes
LARGEST_EVENT = 16 << 20  # bytes
LARGEST_REFUSAL = 1 << 16  # bytes of an answer to a watch that is none
PART = 1 << 16  # bytes read at once
PATIENCE = 12  # waits of `timeout` that a whole answer may take
LIFE = 2  # waits of `read_timeout` that a whole watch may take: it asks for less than one

_Broken = (OSError, http.client.HTTPException, ValueError)


class HttpApi:
    """May be used from any thread. After `close` whoever waits is told ApiUnreachable."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self.server = access.server
        self._trust = Trust(access)
        self._token = Token(access.token, clock)
        self._clock = clock
        self._lock = threading.Lock()
        self._open: set[Connection] = set()
        self._kept: Connection | None = None
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
            question = Question(method, target, headers, body, PATIENCE * timeout)
            answer = self._ask(question, timeout)
            if answer.status == http.HTTPStatus.UNAUTHORIZED and self._token.again():
                answer = self._ask(question, timeout)
            return answer

    @contextmanager
    def watch(self, path: str, query: Mapping[str, str], read_timeout: float) -> Generator[Iterator[bytes], None, None]:
        """Open a watch; its iterator ends where the server ends it."""
        question = Question("GET", self._target(path, query), {}, None, LIFE * read_timeout)
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

    def _ask(self, question: Question, timeout: float) -> Answer:
        connection = self._connect(timeout)
        try:
            response = connection.send(question, self._headers(question, "close"))
            parts: list[bytes] = []
            size = 0
            while part := response.read1(PART):
                parts.append(part)
                size += len(part)
                if size > LARGEST_ANSWER:
                    raise ValueError(f"the answer is longer than {LARGEST_ANSWER} bytes")
            return _answer(response, b"".join(parts))
        finally:
            self._discard(connection)

    def _begin_watch(self, question: Question, read_timeout: float) -> tuple[Connection, http.client.HTTPResponse]:
        kept = self._take_kept()
        if kept is not None:
            # The server may have closed it while it was idle: nothing is lost by asking again.
            with contextlib.suppress(*_Broken):
                return kept, self._sent(kept, question, read_timeout)
        connection = self._connect(CONNECT)
        return connection, self._sent(connection, question, read_timeout)

    def _sent(self, connection: Connection, question: Question, read_timeout: float) -> http.client.HTTPResponse:
        try:
            connection.patience(CONNECT)  # a server that is there says at once that it will tell
            response = connection.send(question, self._headers(question, "keep-alive"))
            connection.patience(read_timeout)
        except BaseException:
            self._discard(connection)
            raise
        return response

    def _take_kept(self) -> Connection | None:
        """Return the last watch's connection, if it is still trusted by what is trusted now."""
        context = self._trust.context()
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None and kept.context is not context:
            self._discard(kept)
            return None
        return kept

    def _keep(self, connection: Connection) -> None:
        with self._lock:
            closed = self._closed
            before, self._kept = self._kept, None if closed else connection
        if before is not None:
            self._discard(before)
        if closed:
            self._discard(connection)

    def _connect(self, timeout: float) -> Connection:
        connection = Connection((self.server.host, self.server.port), self.server.name, self._trust.context(), timeout, self._clock)
        with self._lock:
            closed = self._closed
            if not closed:
                self._open.add(connection)
        if closed:
            connection.close()
            raise ConnectionAbortedError("the agent stops")
        return connection

    def _discard(self, connection: Connection) -> None:
        with self._lock:
            self._open.discard(connection)
            if self._kept is connection:
                self._kept = None
        connection.close()

    def _headers(self, question: Question, connection: str) -> dict[str, str]:
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
