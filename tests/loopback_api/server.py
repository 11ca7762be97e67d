"""A Kubernetes API server for tests: HTTPS on loopback, real objects in memory, and faults to order.

    with LoopbackApi() as api:
        api.store.create("pods", pod("rec-0"))
        ... a client asks api.url, trusting api.ca_pem, with the token api.token ...

It lists (field selectors, pages), watches (resource versions, bookmarks, 410), patches, evicts with budgets, keeps events, and refuses what
a real one refuses; `test_loopback_api.py` has the official client judge it. `api.faults` makes it misbehave; `kill` and `revive` end it and
bring it back on its port with all its objects. Requests are kept in `api.requests`.
"""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import ssl
import sys
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Self

import trustme

from loopback_api.evicting import PodEnds
from loopback_api.faults import Faults
from loopback_api.handler import Handler, Request
from loopback_api.objects import NODE
from loopback_api.store import Object, Store

HOST = "127.0.0.1"


class LoopbackApi:
    """`forbidden` holds (verb, resource) pairs that no role allows, such as ("create", "pods/eviction"). `expired_as_status`: a watch from
    a version that is too old is answered 410, else it is opened and says so itself; servers do either."""

    def __init__(self) -> None:
        self.store = Store()
        self.ends = PodEnds(self.store)
        self.faults = Faults()
        self.forbidden: set[tuple[str, str]] = set()
        self.expired_as_status = True
        self.token = "loopback-token-1"
        self.tokens = {self.token}
        self.requests: list[Request] = []
        self.troubles: list[BaseException] = []  # what went wrong in the server itself
        self._authority = trustme.CA()
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.port}"

    @property
    def ca_pem(self) -> bytes:
        return self._authority.cert_pem.bytes()

    def __enter__(self) -> Self:
        self.revive()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        assert not self.troubles, self.troubles

    def revive(self) -> None:
        """Listen, on the port of before where there was one."""
        server = _Server((HOST, self.port), self)
        self.port = server.server_address[1]
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, name="loopback-api")
        self._thread.start()

    def kill(self) -> None:
        """End at once: connections break, nobody listens."""
        server, thread = self._server, self._thread
        if server is None or thread is None:
            return
        self._server = self._thread = None
        server.closing = True
        server.shutdown()
        server.break_connections()
        with self.store.changed:
            self.store.changed.notify_all()
        self.faults.wake()
        server.server_close()
        thread.join()

    def drop_connections(self) -> None:
        """Break what is open; new connections are taken."""
        if self._server is not None:
            self._server.break_connections()

    def rotate_certificate(self) -> None:
        """From now on another authority signs: `ca_pem` is another one, and a client that trusts the old one only is lost."""
        self._authority = trustme.CA()
        if self._server is not None:
            self._server.context = self.server_context()

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._authority.issue_cert(HOST, "localhost", NODE).configure_cert(context)
        self._authority.configure_trust(context)
        context.verify_mode = ssl.CERT_OPTIONAL  # a certificate of this authority says who one is, as a token does
        return context

    def client_certificate(self) -> tuple[bytes, bytes]:
        """Return a certificate that is let in without a token, and its key, both as PEM."""
        issued = self._authority.issue_cert("worker@qosmanager.test")
        return b"".join(each.bytes() for each in issued.cert_chain_pems), issued.private_key_pem.bytes()

    def write_kubeconfig(self, path: Path) -> Path:
        """Write a file that any client of Kubernetes understands."""
        ca = base64.b64encode(self.ca_pem).decode()
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "loopback",
            "clusters": [{"name": "loopback", "cluster": {"server": self.url, "certificate-authority-data": ca}}],
            "users": [{"name": "agent", "user": {"token": self.token}}],
            "contexts": [{"name": "loopback", "context": {"cluster": "loopback", "user": "agent"}}],
        }
        path.write_text(json.dumps(document))  # JSON is YAML
        return path

    def events(self) -> list[Object]:
        return self.store.list("events")[0]

    def asked(self, method: str, part: str) -> list[Request]:
        """Return the requests of a method with these letters in their path."""
        return [request for request in self.requests if request.method == method and part in request.path]


class _Server(ThreadingHTTPServer):
    """Shakes hands on each connection's own thread, and knows the connections that are open."""

    daemon_threads = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], api: LoopbackApi) -> None:
        self.api = api
        self.closing = False
        self.context = api.server_context()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(address, Handler)

    def get_request(self) -> tuple[socket.socket, object]:
        plain, address = super().get_request()
        plain.settimeout(30)
        wrapped = self.context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        with self._lock:
            self._open.add(wrapped)
        return wrapped, address

    def break_connections(self) -> None:
        with self._lock:
            for each in self._open:
                with contextlib.suppress(OSError):
                    # Not the method of a TLS socket, which takes its state from under the thread that shakes hands.
                    socket.socket.shutdown(each, socket.SHUT_RDWR)

    def shutdown_request(self, request: socket.socket) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        self.api.ends.look()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes, or does not trust, is no fault; anything else fails the test at its end."""
        del request, client_address
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, OSError | ValueError):
            self.api.troubles.append(error)
