"""One GET with an end to it, whatever the other side does: the whole answer, headers too, within a deadline and a size.

Nothing is followed: no redirects, no proxies from the environment, no schemes but http and https.
"""

from __future__ import annotations

import http.client
import ssl
from functools import cache
from urllib.parse import SplitResult, urlsplit

from qosmanager.model.count import counted
from qosmanager.network.answering import Answering
from qosmanager.ports import Clock

SILENCE = 1.0  # seconds that a source may be silent
PATIENCE = 2.0  # seconds that a whole answer may take, from the connection on
LARGEST = 1 << 20  # bytes of an answer


def fetch(url: str, clock: Clock) -> str:
    """Return the text behind a URL. Raises OSError, HTTPException or ValueError: no answer, a late, long or cut one, another scheme."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("only http and https are asked")
    connection = _connection(parts)
    try:
        connection.connect()
        answering = connection.sock = Answering(connection.sock, PATIENCE, clock)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", target, headers={"Accept": "text/plain", "User-Agent": "qosmanager", "Connection": "close"})
        response = connection.getresponse()
        answering.begin_body()
        return _body(response).decode("utf-8", "replace")
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
        if response.length:
            raise ValueError(f"the answer was cut {counted(response.length, 'byte')} before its end")
    return b"".join(parts)
