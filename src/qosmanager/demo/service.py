"""The demo's latency-sensitive service: HTTP on loopback, about 2 ms of CPU work per request on a small pool of threads.

`python -m qosmanager.demo.service --seconds S`. Prints `port=N` when it listens. GET / does the work; GET /metrics is Prometheus text
with the histogram http_request_duration_seconds (from the arrival of a request to its answer).
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import signal
import time
from concurrent.futures import ThreadPoolExecutor

from prometheus_client import CollectorRegistry, Histogram, generate_latest

from qosmanager.demo.bounded import end_after, end_with_parent

THREADS = 4
WORK = 0.002  # seconds of CPU per request
BUCKETS = (1, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12, 15, 20, 25, 30, 40, 50, 75, 100, 150, 200, 300, 500, 1000, 2000, 5000)  # milliseconds
_END = b"\r\n\r\n"


def work(rounds: int) -> None:
    """Spend CPU; hashing of this kind lets other threads run."""
    hashlib.pbkdf2_hmac("sha256", b"request", b"salt", rounds)


def calibrate() -> int:
    """Return how many rounds take `WORK` seconds of CPU on this machine."""
    probe = 2000
    best = float("inf")
    for _ in range(7):
        start = time.thread_time()
        work(probe)
        best = min(best, time.thread_time() - start)
    return max(1, round(probe * WORK / best))


class Service:
    """The work, the pool and the histogram that all connections share."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._pool = ThreadPoolExecutor(THREADS)
        self._registry = CollectorRegistry()
        self._duration = Histogram(
            "http_request_duration_seconds",
            "From the arrival of a request to its answer.",
            buckets=[bound / 1000 for bound in BUCKETS],
            registry=self._registry,
        )

    async def answer(self, head: bytes) -> bytes:
        """Return the whole answer to one request."""
        arrived = time.perf_counter()
        target = head.split(b" ", 2)[1:2]
        if target == [b"/metrics"]:
            return _response(b"200 OK", generate_latest(self._registry))
        if target != [b"/"]:
            return _response(b"404 Not Found", b"not found\n")
        await asyncio.get_running_loop().run_in_executor(self._pool, work, self._rounds)
        self._duration.observe(time.perf_counter() - arrived)
        return _response(b"200 OK", b"done\n")


class Connection(asyncio.Protocol):
    """One kept-alive connection; requests on it are answered in turn."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._buffer = b""
        self._busy: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._busy is None:
            self._next()

    def _next(self) -> None:
        head, end, rest = self._buffer.partition(_END)
        if end:
            self._buffer = rest
            self._busy = asyncio.get_running_loop().create_task(self._serve(head))

    async def _serve(self, head: bytes) -> None:
        answer = await self._service.answer(head)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(answer)
        self._busy = None
        self._next()


def _response(status: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


async def serve() -> None:
    """Serve until cancelled or ended from outside."""
    service = Service(calibrate())
    server = await asyncio.get_running_loop().create_server(lambda: Connection(service), "127.0.0.1", 0, backlog=256)
    print(f"port={server.sockets[0].getsockname()[1]}", flush=True)  # noqa: T201 - the demo reads it
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, required=True)
    end_with_parent(signal.SIGKILL)
    end_after(parser.parse_args().seconds)
    asyncio.run(serve())


if __name__ == "__main__":
    main()
