"""The endpoints over the board. All answers are JSON but /metrics (Prometheus text) and / (plain text); nothing can be changed.

Errors are an `ErrorAnswer`: 400 a bad query, 404 an unknown path, 405 a method other than GET and HEAD,
421 a Host header that is no loopback name while the server listens on loopback only (a page in a browser must not read the node).
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Awaitable, Callable

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from qosmanager.http.answers import DecisionList, ErrorAnswer, Health, Reading
from qosmanager.http.board import Board
from qosmanager.http.endpoints import DEFAULT_LAST, ENDPOINTS, NO_CYCLE, POD, Endpoint
from qosmanager.http.openapi import description
from qosmanager.views.decisions import CAPACITY
from qosmanager.views.status import status

_NO_TEXT = re.compile("[\udc80-\udcff]")  # how os.fsdecode keeps a byte of a name that is no text
PATHS = ", ".join(endpoint.path for endpoint in ENDPOINTS)


class BadQueryError(Exception):
    """A query that cannot be answered; `allowed` says what could."""

    def __init__(self, error: str, allowed: str) -> None:
        super().__init__(error)
        self.allowed = allowed


def create_app(board: Board, *, loopback_only: bool) -> ASGIApp:
    """Return the ASGI application. `loopback_only`: the server is bound to loopback, so other Host headers are refused."""
    registry = CollectorRegistry()
    registry.register(board.metrics)
    ProcessCollector(registry=registry)
    answers: dict[str, Callable[[Request], Response]] = {
        "/": lambda _: PlainTextResponse(_index(board)),
        "/metrics": lambda request: _metrics(registry, request),
        "/healthz": lambda _: _health(board.health()),
        "/readyz": lambda _: _health(board.readiness()),
        "/status": lambda _: _status(board),
        "/snapshot": lambda _: _snapshot(board),
        "/decisions": lambda request: _decisions(board, request),
        "/openapi.json": lambda _: _json(description(board.about.version)),
    }
    app = Starlette(
        routes=[Route(endpoint.path, _on_the_loop(answers[endpoint.path]), methods=["GET"]) for endpoint in ENDPOINTS],
        exception_handlers={HTTPException: _refused, BadQueryError: _bad_query, Exception: _failed},
    )
    app.router.redirect_slashes = False  # a path with one slash too many is unknown
    return _LoopbackHosts(app) if loopback_only else app


def _on_the_loop(endpoint: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
    """Answer on the event loop itself: starlette would hand a plain function to a pool of threads."""

    async def answer(request: Request) -> Response:
        return endpoint(request)

    return answer


def _index(board: Board) -> str:
    width = max(len(endpoint.path) for endpoint in ENDPOINTS)
    lines = "".join(f"{endpoint.path:<{width}}  {endpoint.meaning}{_query(endpoint)}\n" for endpoint in ENDPOINTS)
    return f"qosmanager {board.about.version}\n\n{lines}"


def _query(endpoint: Endpoint) -> str:
    known = " &".join(f"{parameter.name}={parameter.written}" for parameter in endpoint.parameters)
    return f"; ?{known}" if known else ""


def _json(value: object, code: int = 200, headers: dict[str, str] | None = None) -> Response:
    try:
        body = msgspec.json.encode(value)
    except UnicodeEncodeError:  # a group may bear a name that is no text, and half of a surrogate pair is no JSON
        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
        body = _NO_TEXT.sub(lambda byte: rf"\\x{ord(byte[0]) - 0xDC00:02x}", text).encode("utf-8", "replace")
    return Response(body + b"\n", code, headers, "application/json")


def _metrics(registry: CollectorRegistry, request: Request) -> Response:
    try:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
    except (TypeError, ValueError):  # it stumbles over a version that is no number
        encode, content_type = choose_encoder("")
    return Response(encode(registry), headers={"content-type": content_type})


def _health(health: Health) -> Response:
    return _json(health, 200 if health.ok else 503)


def _status(board: Board) -> Response:
    latest = board.latest
    if latest is None:
        return _json(ErrorAnswer(NO_CYCLE.meaning), 503)
    return _json(status(latest.record, latest.settings, board.about, board.beside))


def _snapshot(board: Board) -> Response:
    latest = board.latest
    if latest is None:
        return _json(ErrorAnswer(NO_CYCLE.meaning), 503)
    return _json(Reading(cycle=latest.record.number, wall=latest.record.wall, snapshot=latest.record.snapshot))


def _decisions(board: Board, request: Request) -> Response:
    query = request.query_params
    unknown = sorted(set(query) - {"last", "pod", "terms"})
    if unknown:
        raise BadQueryError(f"unknown parameter {unknown[0]!r}", "last, pod, terms")
    repeated = next((name for name in query if len(query.getlist(name)) > 1), None)
    if repeated:
        raise BadQueryError(f"{repeated} is given {len(query.getlist(repeated))} times", "each parameter once")
    last, pod = query.get("last", str(DEFAULT_LAST)), query.get("pod")
    if not (last.isascii() and last.isdigit() and len(last) <= 4 and 1 <= int(last) <= CAPACITY):
        raise BadQueryError(f"last is {last!r}", f"a whole number from 1 to {CAPACITY}")
    if pod is not None and not re.fullmatch(POD, pod):
        raise BadQueryError(f"pod is {pod!r}", "NAMESPACE/NAME")
    terms = query.get("terms", "false")
    if terms not in ("true", "false"):
        raise BadQueryError(f"terms is {terms!r}", "true, false")
    entries = board.decisions.last_with_terms if terms == "true" else board.decisions.last
    return _json(DecisionList(entries(int(last), pod)))


def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    allowed = "GET" if error.status_code == 405 else PATHS
    return _json(ErrorAnswer(error.detail, allowed), error.status_code, dict(error.headers or {}))


def _bad_query(_: Request, error: Exception) -> Response:
    assert isinstance(error, BadQueryError)
    return _json(ErrorAnswer(str(error), error.allowed), 400)


def _failed(_: Request, error: Exception) -> Response:
    return _json(ErrorAnswer(f"{type(error).__name__}: {error}"), 500)


class _LoopbackHosts:
    """Refuses requests whose Host is no name of this machine's loopback (DNS rebinding)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            host = next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1")
            if host and not is_loopback(_without_port(host)):
                refusal = ErrorAnswer(f"Host is {host!r}", "localhost or a loopback address")
                await _json(refusal, 421)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _without_port(host: str) -> str:
    if host.startswith("["):
        address, _, rest = host[1:].partition("]")
        # What follows the bracket is a port or the name of somewhere else.
        return address if not rest or (rest[0] == ":" and rest[1:].isdigit()) else host
    return host.partition(":")[0]


def is_loopback(host: str) -> bool:
    """Tell whether a host name or address means this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
