"""A running agent asked over HTTP. In: its address. Out: what it says, as the views' own types, or NoAnswerError with one clear line."""

from __future__ import annotations

import contextlib
import http.client
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from qosmanager.documents.problem import printable
from qosmanager.http.answers import DecisionList, ErrorAnswer, Reading
from qosmanager.model.count import counted
from qosmanager.network.answering import Answering
from qosmanager.ports import Clock
from qosmanager.views.decisions import Entry
from qosmanager.views.status import Status

DEFAULT_URL = "http://127.0.0.1:9316"
_TIMEOUT = 5.0  # seconds of silence
_PATIENCE = 20.0  # seconds for a whole answer
_LARGEST = 16 << 20  # bytes of one

T = TypeVar("T")


class NoAnswerError(Exception):
    """No agent answers there, or what answers is none: what and where."""


class BadUrlError(Exception):
    """An address that is none: what is allowed."""


class AgentClient:
    """One agent. Each question is a connection of its own."""

    def __init__(self, url: str, clock: Clock) -> None:
        parts = _parts(url)
        self.url = url.rstrip("/")
        self._host, self._port, self._below = parts
        self._clock = clock
        self._secure = url.startswith("https://")

    def status(self) -> Status:
        """What the agent sees and does now. Raises NoAnswerError."""
        return self._ask("/status", Status)

    def reading(self) -> Reading:
        """Return the readings of the last cycle. Raises NoAnswerError."""
        return self._ask("/snapshot", Reading)

    def decisions(self, last: int, pod: str | None = None, *, with_terms: bool = False) -> tuple[Entry, ...]:
        """Return the last decisions and events, oldest first; with their terms where asked for. Raises NoAnswerError."""
        query: dict[str, Any] = {"last": last}
        query |= {"pod": pod} if pod is not None else {}
        query |= {"terms": "true"} if with_terms else {}
        return self._ask(f"/decisions?{urlencode(query)}", DecisionList).decisions

    def _ask(self, path: str, kind: type[T]) -> T:
        code, body = self._get(path)
        if code == 503:
            raise NoAnswerError(f"the agent at {self.url} has just started: {_error(body)}")
        if code != 200:
            raise NoAnswerError(f"{self.url}{path} answers {code}: {_error(body)}; is that a qosmanager?")
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise NoAnswerError(f"{self.url}{path} answers something else than this version expects: {error}") from None

    def _get(self, path: str) -> tuple[int, bytes]:
        connect = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        with contextlib.closing(connect(self._host, self._port, timeout=_TIMEOUT)) as connection:
            try:
                connection.connect()
                answering = connection.sock = Answering(connection.sock, _PATIENCE, self._clock)
                connection.request("GET", self._below + path, headers={"Connection": "close"})
                answer = connection.getresponse()
                answering.begin_body()
                return answer.status, _body(answer)
            except (OSError, http.client.HTTPException) as error:
                why = getattr(error, "strerror", None) or str(error) or type(error).__name__
                raise NoAnswerError(f"no agent answers at {self.url}: {why[:1].lower()}{why[1:]}") from None


def _body(answer: http.client.HTTPResponse) -> bytes:
    """Return what is answered. OSError where that has no end, or is cut before it."""
    parts: list[bytes] = []
    size = 0
    while part := answer.read1(1 << 16):
        parts.append(part)
        size += len(part)
        if size > _LARGEST:
            raise OSError("the answer does not end; is that a qosmanager?")
    if answer.length:
        raise OSError(f"the answer was cut {counted(answer.length, 'byte')} before its end")
    return b"".join(parts)


def _parts(url: str) -> tuple[str, int | None, str]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise BadUrlError(f"{url!r}: {error}; allowed is http://HOST:PORT") from None
    plain = url.isascii() and url.isprintable() and " " not in url and not parts.query and not parts.fragment
    if parts.scheme not in ("http", "https") or not host or not plain:
        raise BadUrlError(f"{url!r} is not an address; allowed is http://HOST:PORT")
    return host, port, parts.path.rstrip("/")


def _error(body: bytes) -> str:
    """Return what an answer says is wrong, on one line."""
    try:
        return printable(msgspec.json.decode(body, type=ErrorAnswer).error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "no reason given"
