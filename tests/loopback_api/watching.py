"""Watches of a loopback API server: what has changed since a version, then whatever changes, until the client or the time says stop."""

from __future__ import annotations

import json
import select
import time
from typing import TYPE_CHECKING, Any

from loopback_api.selecting import selected
from loopback_api.store import Object, Refusal

if TYPE_CHECKING:
    from loopback_api.discovery import Kind
    from loopback_api.handler import Handler

_LOOK = 0.1  # seconds between two looks at whether to go on
_LONGEST = 1800.0  # seconds, where the client names none


class CutError(OSError):
    """The watch was told to break in the middle of a line."""


class Watch:
    """One watch. Who asked for bookmarks gets one at `Store.bookmark`, and at the end."""

    def __init__(self, handler: Handler, kind: Kind, namespace: str | None, query: dict[str, str]) -> None:
        self._handler = handler
        self._kind = kind
        self._namespace = namespace
        self._query = query
        self._store = handler.api.store
        self._until = time.monotonic() + float(query.get("timeoutSeconds") or _LONGEST)
        self._wants_bookmarks = query.get("allowWatchBookmarks") in ("1", "true")
        self._bookmarks = self._store.bookmarks
        self._version = 0

    def run(self) -> None:
        """Raises Refusal where it is answered by an error before it begins."""
        given = self._query.get("resourceVersion", "")
        first: list[Object] = []
        if given.isdigit() and given != "0":
            self._version = int(given)
            if self._handler.api.expired_as_status:
                self._store.since(self._version, self._kind.resource)
        else:
            first, self._version = self._store.list(self._kind.resource, self._namespace)
        self._begin()
        for each in first:
            self._tell("ADDED", each)
        try:
            while time.monotonic() < self._until and not self._handler.is_closing and not self._has_gone():
                self._look()
        except Refusal as refusal:
            self._event("ERROR", refusal.status)
        else:
            if self._wants_bookmarks:
                self._bookmark()
        self._handler.wfile.write(b"0\r\n\r\n")

    def _look(self) -> None:
        """Tell what has changed since the last look; wait a little where nothing has."""
        if self._handler.api.faults.is_silent:
            self._handler.api.faults.wait_for_speech(_LOOK)
            return
        with self._store.changed:
            changes = self._store.since(self._version, self._kind.resource)
            is_asked, self._bookmarks = self._store.bookmarks > self._bookmarks, self._store.bookmarks
            if not changes and not is_asked:
                self._store.changed.wait(_LOOK)
                return
            self._version = self._store.version
        for change in changes:
            self._tell(change.kind, change.object)
        if is_asked and self._wants_bookmarks:
            self._bookmark()

    def _has_gone(self) -> bool:
        """Whether the client has closed: it has nothing more to say, so whatever can be read is the end."""
        return bool(select.select([self._handler.connection], [], [], 0)[0])

    def _tell(self, kind: str, found: Object) -> None:
        if self._namespace in (None, found["metadata"].get("namespace", "")) and selected(found, self._query):
            self._event(kind, found)

    def _bookmark(self) -> None:
        """A real one has nulls where a typed client expects lists."""
        meta = {"resourceVersion": str(self._version), "creationTimestamp": None}
        bare: Object = {"kind": self._kind.name, "apiVersion": self._kind.version, "metadata": meta}
        if self._kind.name == "Pod":
            bare |= {"spec": {"containers": None}, "status": {}}
        self._event("BOOKMARK", bare)

    def _begin(self) -> None:
        self._handler.send_response(200)
        self._handler.send_header("Content-Type", "application/json")
        self._handler.send_header("Transfer-Encoding", "chunked")
        self._handler.end_headers()

    def _event(self, kind: str, about: dict[str, Any]) -> None:
        line = json.dumps({"type": kind, "object": about}).encode() + b"\n"
        faults = self._handler.api.faults
        if faults.cut_next_event:
            faults.cut_next_event = False
            self._chunk(line[: len(line) // 2])
            raise CutError
        self._chunk(line)

    def _chunk(self, data: bytes) -> None:
        self._handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
