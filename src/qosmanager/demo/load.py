"""The demo's load generator: an open loop, outside the groups it measures.

`python -m qosmanager.demo.load --port N --seconds S`. Requests come at random (Poisson) moments fixed beforehand, whether or not earlier
ones were answered; latency counts from the moment a request was due, so that queueing is not hidden. One that waits 2 s for a connection
is given up and counts with these 2 s. Lines `STAGE RATE` on stdin set the rate (requests/s); the end of stdin ends it. Each half second it
prints a JSON line per stage: `Report`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import selectors
import signal
import sys
from collections import defaultdict, deque

import msgspec
from msgspec import Struct

from qosmanager.demo.bounded import end_after, end_with_parent

CONNECTIONS = 64
MAX_RATE = 2000.0
REPORT_EVERY = 0.5
DRAIN = 2.0  # seconds for the last answers
PATIENCE = 2.0  # seconds until a request that no connection could take is given up
_REQUEST = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class Report(Struct, frozen=True, kw_only=True):
    """What came in since the last report of this stage: latencies (ms) of answered requests by the stage in which they were due.

    `waiting` requests are due and not answered; in the last report of a run they are lost.
    """

    stage: str
    latencies: list[float]
    waiting: int
    errors: int = 0


class Generator:
    """The schedule, the connections and what is waiting."""

    def __init__(self, port: int, loop: asyncio.AbstractEventLoop) -> None:
        self._port = port
        self._loop = loop
        self._random = random.Random(20)  # noqa: S311 - reproducible arrivals
        self._stage = ""
        self._rate = 0.0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._idle: deque[Client] = deque()
        self._queue: deque[tuple[float, str]] = deque()
        self._latencies: dict[str, list[float]] = defaultdict(list)
        self._waiting: dict[str, int] = defaultdict(int)
        self._errors: dict[str, int] = defaultdict(int)

    async def connect(self) -> None:
        for _ in range(CONNECTIONS):
            await self._loop.create_connection(lambda: Client(self), "127.0.0.1", self._port)

    def command(self, line: str) -> None:
        """Take a line `STAGE RATE`."""
        self._stage, rate = line.split()
        self._rate = min(MAX_RATE, float(rate))
        if self._timer is not None:
            self._timer.cancel()
        self._due = self._loop.time()
        self._schedule()

    def _schedule(self) -> None:
        if self._rate > 0:
            self._due += self._random.expovariate(self._rate)
            self._timer = self._loop.call_at(self._due, self._send_due)

    def _send_due(self) -> None:
        self._waiting[self._stage] += 1
        if self._idle:
            self._idle.popleft().send(self._due, self._stage)
        else:
            self._queue.append((self._due, self._stage))
        self._schedule()

    def free(self, client: Client) -> None:
        """A connection has nothing to do: it takes the request that waits longest and has not been given up."""
        while self._queue:
            due, stage = self._queue.popleft()
            if self._loop.time() - due < PATIENCE:
                client.send(due, stage)
                return
            self._give_up(stage)
        self._idle.append(client)

    def _give_up(self, stage: str) -> None:
        """Count a request that waited too long: as unanswered, and with the time it waited, so that percentiles do not hide it."""
        self._waiting[stage] -= 1
        self._errors[stage] += 1
        self._latencies[stage].append(PATIENCE * 1000)

    def answered(self, due: float, stage: str, *, good: bool) -> None:
        self._waiting[stage] -= 1
        if good:
            self._latencies[stage].append(round((self._loop.time() - due) * 1000, 3))
        else:
            self._errors[stage] += 1

    def lost(self, client: Client, stage: str | None) -> None:
        """A connection broke; what it waited for is an error, and a new one takes its place."""
        if client in self._idle:
            self._idle.remove(client)
        if stage is not None:
            self._waiting[stage] -= 1
            self._errors[stage] += 1

    def report(self) -> None:
        for stage in list(self._waiting):
            report = Report(stage=stage, latencies=self._latencies[stage], waiting=self._waiting[stage], errors=self._errors[stage])
            sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
            self._latencies[stage] = []
            self._errors[stage] = 0
            if stage != self._stage and not self._waiting[stage]:
                del self._waiting[stage]
        sys.stdout.buffer.flush()

    @property
    def waiting(self) -> int:
        return sum(self._waiting.values())


class Client(asyncio.Protocol):
    """One kept-alive connection with at most one request under way."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._due = 0.0
        self._stage: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._generator.free(self)

    def send(self, due: float, stage: str) -> None:
        assert self._transport is not None
        self._due, self._stage = due, stage
        self._transport.write(_REQUEST)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        if not end or len(body) < _length(head) or self._stage is None:
            return
        self._buffer = b""
        stage, self._stage = self._stage, None
        self._generator.answered(self._due, stage, good=head.startswith(b"HTTP/1.1 200"))
        self._generator.free(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._generator.lost(self, self._stage)


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0


async def generate(port: int) -> None:
    """Follow stdin until it ends, then wait a little for the last answers."""
    loop = asyncio.get_running_loop()
    generator = Generator(port, loop)
    await generator.connect()
    ended = asyncio.Event()
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)

    async def follow() -> None:
        while line := await commands.readline():
            generator.command(line.decode())
        generator.command("end 0")
        ended.set()

    following = loop.create_task(follow())
    left = DRAIN
    while not ended.is_set() or (generator.waiting and left > 0):
        await asyncio.sleep(REPORT_EVERY)
        if ended.is_set():
            left -= REPORT_EVERY
        generator.report()
    await following
    generator.report()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args()
    end_with_parent(signal.SIGKILL)
    end_after(options.seconds)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)  # the measuring hand is not to be starved by what it measures
    # select() waits to the microsecond, epoll only to the millisecond.
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
        runner.run(generate(options.port))


if __name__ == "__main__":
    main()
