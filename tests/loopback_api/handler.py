"""Requests of a loopback API server, answered: who asks, what is meant, the answer. Watches are in watching.py."""

from __future__ import annotations

import base64
import json
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from loopback_api import events
from loopback_api.discovery import KINDS, Kind, discovered
from loopback_api.selecting import selected
from loopback_api.store import Object, Refusal, merged, status
from loopback_api.watching import Watch

if TYPE_CHECKING:
    from loopback_api.server import LoopbackApi

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_PATCHES = ("application/merge-patch+json", "application/strategic-merge-patch+json")


class Request(NamedTuple):
    """What was asked."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes
    content_type: str


class Target(NamedTuple):
    """What a path speaks of."""

    kind: Kind
    namespace: str | None
    name: str
    sub: str

    @property
    def resource(self) -> str:
        return f"{self.kind.resource}/{self.sub}" if self.sub else self.kind.resource


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def api(self) -> LoopbackApi:
        return self.server.api  # type: ignore[attr-defined]

    @property
    def is_closing(self) -> bool:
        return self.server.closing  # type: ignore[attr-defined]

    def setup(self) -> None:
        self.request.do_handshake()
        super().setup()

    def finish(self) -> None:
        try:
            super().finish()
        finally:
            self.connection.close()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Tests look at `requests` instead."""

    def do_GET(self) -> None:
        self._handle()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def _handle(self) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.api.requests.append(Request(self.command, parts.path, query, body, self.headers.get("Content-Type", "")))
        while self.api.faults.is_silent and not self.is_closing:
            self.api.faults.wait_for_speech(0.5)
        planned = self.api.faults.take(self.command, parts.path)
        if planned is not None:
            self.send(planned.status, planned.body, planned.content_type, planned.headers)
            return
        try:
            self._check_who()
            self._answer(parts.path, query, body)
        except Refusal as refusal:
            headers = {"Retry-After": str(refusal.retry_after)} if refusal.retry_after else {}
            self.send(refusal.code, json.dumps(refusal.status).encode(), "application/json", headers)

    def send(self, code: int, body: bytes, content_type: str = "application/json", headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in {"Content-Type": content_type, "Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def send_object(self, told: Any, code: int = 200) -> None:
        self.send(code, json.dumps(told).encode())

    def _check_who(self) -> None:
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        known = scheme == "Bearer" and token in self.api.tokens
        if not known and not self.connection.getpeercert():  # type: ignore[attr-defined]
            raise Refusal(401, "Unauthorized", "Unauthorized")

    def _answer(self, path: str, query: dict[str, str], body: bytes) -> None:
        found = discovered(path)
        if found is not None:
            self.send_object(found)
            return
        if path == "/pods":  # what a kubelet answers
            pods, _ = self.api.store.list("pods")
            self.send_object({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods})
            return
        target = _target(path)
        watches = self.command == "GET" and query.get("watch") in ("1", "true")
        read = "watch" if watches else "get" if target.name else "list"
        self._check_right(_VERBS.get(self.command, read), target)
        if watches:
            Watch(self, target.kind, target.namespace, query).run()
        elif self.command == "GET":
            self.send_object(self._read(target, query))
        elif self.command == "DELETE":
            self.send_object(self._delete(target, _parsed(body) if body else {}))
        else:
            given = _parsed(body)
            change = {"POST": self._create, "PATCH": self._patch, "PUT": self._put}[self.command]
            self.send_object(change(target, given), 201 if self.command == "POST" else 200)

    def _check_right(self, verb: str, target: Target) -> None:
        if (verb, target.resource) not in self.api.forbidden:
            return
        user, group = "system:serviceaccount:kube-system:qosmanager", target.kind.group
        where = f' in the namespace "{target.namespace}"' if target.namespace else " at the cluster scope"
        name = f' "{target.name}"' if target.name else ""
        what = f'cannot {verb} resource "{target.resource}" in API group "{group}"{where}'
        raise Refusal(403, "Forbidden", f'{target.kind.resource}{name} is forbidden: User "{user}" {what}')

    def _read(self, target: Target, query: dict[str, str]) -> Object:
        store = self.api.store
        if target.name:
            return self._shown(target, store.get(target.kind.resource, target.namespace or "", target.name))
        items, version = store.list(target.kind.resource, target.namespace)
        items = [self._shown(target, each) for each in items if selected(each, query)]
        if target.kind.resource == "events" and "as=Table" in self.headers.get("Accept", ""):
            return events.table(self.api.events(), version)
        meta: Object = {"resourceVersion": str(version)}
        limit = int(query.get("limit") or 0)
        begin, at = _continued(query.get("continue"), version)
        if at < store.compacted:
            raise Refusal(410, "Expired", "The provided continue parameter is too old to display a consistent list result.")
        if limit and len(items) > begin + limit:
            meta["continue"] = base64.urlsafe_b64encode(f"{begin + limit}:{at}".encode()).decode()
            meta["remainingItemCount"] = len(items) - begin - limit
        page = items[begin : begin + limit] if limit else items[begin:]
        return {"kind": f"{target.kind.name}List", "apiVersion": target.kind.version, "metadata": meta, "items": page}

    def _shown(self, target: Target, found: Object) -> Object:
        core = target.kind.resource == "events" and not target.kind.group
        return events.as_core(found) if core else found

    def _create(self, target: Target, given: Object) -> Object:
        if target.sub == "eviction":
            return self.api.ends.evict(target.namespace or "", target.name, given)
        if target.kind.resource == "selfsubjectaccessreviews":
            return self._reviewed(given)
        meta = given.setdefault("metadata", {})
        if target.namespace is not None and meta.setdefault("namespace", target.namespace) != target.namespace:
            raise Refusal(400, "BadRequest", "the namespace of the provided object does not match the namespace sent on the request")
        if "name" not in meta and "generateName" in meta:
            meta["name"] = f"{meta['generateName']}{self.api.store.version:05x}"
        if target.kind.resource == "events":
            events.check_new(given)
        return self.api.store.create(target.kind.resource, given)

    def _reviewed(self, given: Object) -> Object:
        asked = given["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
        return given | {"status": {"allowed": (asked["verb"], resource) not in self.api.forbidden}}

    def _patch(self, target: Target, patch: Object) -> Object:
        content_type = self.headers.get("Content-Type", "").partition(";")[0]
        if content_type not in _PATCHES:
            raise Refusal(415, "UnsupportedMediaType", f"the body of the request was in an unknown format: {content_type}")
        with self.api.store.changed:
            before = self.api.store.get(target.kind.resource, target.namespace or "", target.name)
            return self._change(target, before, merged(before, patch))

    def _put(self, target: Target, given: Object) -> Object:
        with self.api.store.changed:
            return self._change(target, self.api.store.get(target.kind.resource, target.namespace or "", target.name), given)

    def _change(self, target: Target, before: Object, after: Object) -> Object:
        other = "spec" if target.sub == "status" else "status"
        if other in before and target.kind.resource in ("pods", "nodes"):
            after[other] = before[other]  # the other part is not changed this way, and nothing says so
        if any(not isinstance(value, str) for value in (after["metadata"].get("annotations") or {}).values()):
            raise Refusal(
                400, "BadRequest", "json: cannot unmarshal value into Go struct field ObjectMeta.metadata.annotations of type string"
            )
        if target.kind.resource == "events":
            events.check_change(before, after)
        return before if after == before else self.api.store.replace(target.kind.resource, after)

    def _delete(self, target: Target, options: Object) -> Object:
        if target.kind.resource == "pods":
            return self.api.ends.delete(target.namespace or "", target.name, options)
        self.api.store.delete(target.kind.resource, target.namespace or "", target.name)
        return status(200, "", "deleted")


def _target(path: str) -> Target:
    parts = path.strip("/").split("/")
    version = parts[1:2] if parts[0] == "api" else parts[1:3] if parts[0] == "apis" else []
    rest = parts[1 + len(version) :]
    namespace = None
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    kind = KINDS.get(("/".join(version), rest[0])) if rest else None
    if kind is None or len(rest) > 3:
        raise Refusal(404, "NotFound", "the server could not find the requested resource")
    name, sub = (*rest[1:], "", "")[:2]
    return Target(kind, namespace, name, sub)


def _parsed(body: bytes) -> Object:
    try:
        given = json.loads(body)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise Refusal(400, "BadRequest", "the object provided is unrecognized")
    return given


def _continued(token: str | None, version: int) -> tuple[int, int]:
    """Return where a page begins, and the version of the first one."""
    if not token:
        return 0, version
    begin, _, at = base64.urlsafe_b64decode(token).decode().partition(":")
    return int(begin), int(at)
