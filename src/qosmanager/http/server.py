"""The server: one thread with its own event loop beside the cycle's.

In: a board and where to listen. Out: a running server and the port it got. A place that cannot be listened on is a `ListenError` with one
clear message.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import threading
from types import TracebackType
from typing import Self

import uvicorn
from msgspec import Struct
from uvicorn.protocols.http.h11_impl import H11Protocol

from qosmanager.http.app import create_app, is_loopback
from qosmanager.http.board import Board

STOP_WITHIN = 3.0  # seconds
MOST_CONNECTIONS = 64


class ListenError(Exception):
    """A place that cannot be listened on: what, where, and what is allowed."""


class Listen(Struct, frozen=True):
    """Where to listen. Port 0: any free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Listen | None:
        """Read "HOST:PORT", "[IPV6]:PORT" or "off" (None). Raises ListenError."""
        if text == "off":
            return None
        host, colon, port = text.rpartition(":")
        bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        if not colon or not bare or "[" in bare or "]" in bare or (":" in bare) != host.startswith("["):
            raise ListenError(f"--listen {text!r}: expected HOST:PORT, [IPV6]:PORT or off")
        if not (port.isascii() and port.isdigit() and int(port) <= 65535):
            raise ListenError(f"--listen {text!r}: the port is {port!r}, allowed are 0 (any free one) to 65535")
        return cls(bare, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class _CalmServer(uvicorn.Server):
    """uvicorn wakes ten times a second to look whether it is to stop, which costs a fifth of a percent of a core. This one is told."""

    _loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        self._told = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        # A tick of 0 renews the Date header, which has seconds.
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._told.wait(), 1.0)

    def tell_to_stop(self) -> None:
        """Stop soon; may be called from any thread, also before it runs and after it has stopped."""
        self.should_exit = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # its loop is closed: it has stopped
                self._loop.call_soon_threadsafe(self._told.set)


class _Connection(H11Protocol):
    """One of at most 64: where one more comes, the oldest is dropped, for every answer takes milliseconds.

    Refusing the new one instead would let clients that connect and say nothing keep a probe of /healthz out.
    """

    since = 0.0  # when it came, on the loop's clock

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn narrows it
        super().connection_made(transport)
        self.since = self.loop.time()
        others = [each for each in self.connections if isinstance(each, _Connection) and each is not self]
        if len(others) >= MOST_CONNECTIONS:
            min(others, key=lambda each: each.since).transport.abort()


class Server:
    """Serves from `start` to `stop`; also a context manager."""

    def __init__(self, board: Board, listen: Listen) -> None:
        self._socket = _bind(listen)
        self.listen = Listen(listen.host, self._socket.getsockname()[1])
        app = create_app(board, loopback_only=is_loopback(listen.host))
        self._server = _CalmServer(
            uvicorn.Config(
                app,
                http=_Connection,
                ws="none",
                loop="asyncio",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                log_level="error",
                access_log=False,
                server_header=False,
                timeout_keep_alive=5,
                timeout_graceful_shutdown=1,
            )
        )
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)

    @property
    def url(self) -> str:
        """The address with the port that was got."""
        return f"http://{self.listen}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finish the requests under way and close."""
        self._server.tell_to_stop()
        if self._thread.is_alive():
            self._thread.join(STOP_WITHIN)
        self._socket.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _serve(self) -> None:
        # uvicorn leaves the signal handlers alone outside the main thread.
        self._server.run(sockets=[self._socket])


def _bind(listen: Listen) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
    except (OSError, UnicodeError) as error:
        raise ListenError(f"cannot listen on {listen}: {error}; allowed are this machine's addresses") from None
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(64)
    except OSError as error:
        bound.close()
        why = os.strerror(error.errno) if error.errno else str(error)
        agent = " (`qosmanager status` tells whether an agent runs already)" if error.errno == errno.EADDRINUSE else ""
        raise ListenError(f"cannot listen on {listen}: {why}{agent}; choose another with --listen HOST:PORT, or --listen off") from None
    bound.setblocking(False)
    return bound
