"""What is asked of an API server: requests that are answered, and watches. Everything here blocks; it runs on threads of its own.

In: paths below the server's address. Out: `Answer`, whatever its status, or `ApiUnreachable`. `HttpApi` in http_api.py is the
implementation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct

NO_QUERY: Mapping[str, str] = MappingProxyType({})
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"


class Answer(Struct, frozen=True):
    """What the server said. `headers` by lower-case name; `body` as it came: a proxy on the way may have answered in HTML."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class ApiUnreachable(Exception):  # noqa: N818 - a state of the world, named as people say it
    """No answer: no connection, no trust, no time. The text says what was tried and what went wrong, without secrets."""


class Api(Protocol):
    """An API server. Credentials are its own business: read again every 60 s, and once when they are refused."""

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
        """Ask once; `timeout` in seconds for connecting and for each wait. Raises only ApiUnreachable; any status is an answer."""

    def watch(self, path: str, query: Mapping[str, str], read_timeout: float) -> AbstractContextManager[Iterator[bytes]]:
        """Open a watch: its events as lines of JSON, each at most 16 MB. Raises ApiUnreachable when it cannot be opened, when nothing
        comes for `read_timeout` seconds, and when it is cut; `WatchRefused` when it is answered by anything but 200."""


class WatchRefused(Exception):  # noqa: N818 - as above
    """A watch was answered, but not with one; `answer` holds the beginning of what was said."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"the server answered {answer.status}")
        self.answer = answer
