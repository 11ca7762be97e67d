"""What a loopback API server keeps: objects as dicts, one resource version for all, and what changed, for watches."""

from __future__ import annotations

import copy
import threading
import uuid
from datetime import UTC, datetime
from typing import Any, NamedTuple

Object = dict[str, Any]


class Refusal(Exception):  # noqa: N818 - an answer, not a fault
    """An answer that is no success, as the API server words it (a Status)."""

    def __init__(self, code: int, reason: str, message: str, *, retry_after: int = 0, causes: tuple[Object, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        details: Object = {}
        if retry_after:
            details["retryAfterSeconds"] = retry_after
        if causes:
            details["causes"] = list(causes)
        self.retry_after = retry_after
        self.status = status(code, reason, message, details)


def status(code: int, reason: str, message: str, details: Object | None = None) -> Object:
    told = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure" if code >= 400 else "Success", "code": code}
    return told | {"reason": reason, "message": message} | ({"details": details} if details else {})


class Change(NamedTuple):
    """One event of a watch."""

    version: int
    resource: str
    kind: str
    object: Object


class Store:
    """Thread-safe; `changed` is notified of every change. Versions up to `compacted` are too old to go on from."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.version = 1
        self.compacted = 0
        self.bookmarks = 0  # how many times watches were told to send one
        self._objects: dict[tuple[str, str, str], Object] = {}
        self._changes: list[Change] = []

    def create(self, resource: str, given: Object) -> Object:
        with self.changed:
            kept = copy.deepcopy(given)
            meta = kept.setdefault("metadata", {})
            key = (resource, meta.get("namespace", ""), meta["name"])
            if key in self._objects:
                raise Refusal(409, "AlreadyExists", f'{resource} "{meta["name"]}" already exists')
            meta.setdefault("uid", str(uuid.uuid4()))
            meta.setdefault("creationTimestamp", timestamp())
            return self._put("ADDED", key, kept)

    def get(self, resource: str, namespace: str, name: str) -> Object:
        with self.changed:
            found = self._objects.get((resource, namespace, name))
            if found is None:
                raise Refusal(404, "NotFound", f'{resource} "{name}" not found')
            return copy.deepcopy(found)

    def list(self, resource: str, namespace: str | None = None) -> tuple[list[Object], int]:
        """Return the objects by name, and the version at which they are so."""
        with self.changed:
            keys = sorted(key for key in self._objects if key[0] == resource and namespace in (None, key[1]))
            return [copy.deepcopy(self._objects[key]) for key in keys], self.version

    def replace(self, resource: str, changed: Object) -> Object:
        """Put a changed object in the place of the one of its name; its uid and namespace stay."""
        with self.changed:
            meta = changed["metadata"]
            key = (resource, meta.get("namespace", ""), meta["name"])
            before = self._objects.get(key)
            if before is None:
                raise Refusal(404, "NotFound", f'{resource} "{meta["name"]}" not found')
            expected = meta.get("resourceVersion")
            if expected not in (None, before["metadata"]["resourceVersion"]):
                message = f'Operation cannot be fulfilled on {resource} "{meta["name"]}": the object has been modified'
                raise Refusal(409, "Conflict", message)
            return self._put("MODIFIED", key, copy.deepcopy(changed))

    def delete(self, resource: str, namespace: str, name: str) -> Object:
        with self.changed:
            found = self.get(resource, namespace, name)
            del self._objects[(resource, namespace, name)]
            return self._note("DELETED", resource, found)

    def since(self, version: int, resource: str) -> list[Change]:
        """Return what changed after a version. Refusal 410: that is too old."""
        with self.changed:
            if version < self.compacted:
                raise Refusal(410, "Expired", f"too old resource version: {version} ({self.compacted})")
            return [change for change in self._changes if change.version > version and change.resource == resource]

    def bookmark(self) -> None:
        """Have every watch that asked for bookmarks send one now."""
        with self.changed:
            self.bookmarks += 1
            self.changed.notify_all()

    def compact(self) -> None:
        """Forget all changes so far: who goes on from an older version has to list anew."""
        with self.changed:
            self.version += 1
            self.compacted = self.version
            self._changes.clear()
            self.changed.notify_all()

    def _put(self, kind: str, key: tuple[str, str, str], kept: Object) -> Object:
        self._objects[key] = kept
        return self._note(kind, key[0], kept)

    def _note(self, kind: str, resource: str, kept: Object) -> Object:
        self.version += 1
        kept["metadata"]["resourceVersion"] = str(self.version)
        self._changes.append(Change(self.version, resource, kind, copy.deepcopy(kept)))
        self.changed.notify_all()
        return copy.deepcopy(kept)


def merged(target: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7386). A strategic merge differs in lists of named things only, which no caller here patches."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def timestamp(at: float | None = None) -> str:
    moment = datetime.now(UTC) if at is None else datetime.fromtimestamp(at, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
