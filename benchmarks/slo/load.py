"""What runs inside the groups: a service with an open loop of requests, greedy batch that counts its work, batch that takes memory; and
beside them the service's metrics, for the agent to read.

Every process is told when the measured run begins (CLOCK_MONOTONIC) and ends by itself. Latency counts from the moment a request was due,
whether or not earlier ones were answered, so that queueing is not hidden.
"""

from __future__ import annotations

import array
import http.server
import json
import math
import mmap
import os
import random
import struct
import sys
import threading
import time
from pathlib import Path

LOOPS_PER_LOOK = 2000  # batch counts once per so many loops: some 50 us of work
PAGE = 4096
BLOCK = 1 << 20
# Close to each other where objectives lie: a p99 is read between two bounds.
BOUNDS = (
    0.002,
    0.003,
    0.004,
    0.005,
    0.0075,
    0.01,
    0.0125,
    0.015,
    0.02,
    0.025,
    0.03,
    0.04,
    0.05,
    0.06,
    0.08,
    0.1,
    0.15,
    0.2,
    0.5,
    1.0,
    math.inf,
)


def work(loops: int) -> int:
    total = 0
    for number in range(loops):
        total += number
    return total


def burn(seconds: float) -> None:
    """Use so much CPU time: a request is the same part of a CPU whatever speed a shared host leaves it."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        work(200)


class Histogram:
    """A worker's place in a shared file: one counter for each bound, then the sum in microseconds."""

    LENGTH = 8 * (len(BOUNDS) + 1)

    def __init__(self, path: Path, place: int) -> None:
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), 0)
        self._at = place * self.LENGTH

    def add(self, seconds: float) -> None:
        for number, bound in enumerate(BOUNDS):
            if seconds <= bound:
                self._count(number, 1)
                break
        self._count(len(BOUNDS), int(seconds * 1e6))

    def _count(self, number: int, more: int) -> None:
        place = self._at + number * 8
        struct.pack_into("<q", self._shared, place, struct.unpack_from("<q", self._shared, place)[0] + more)


def metrics(given: dict) -> None:
    """Serve the histogram of all workers as Prometheus text on loopback; the port goes into a file."""
    path = Path(given["histogram"])

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            words = [int(word) for (word,) in struct.iter_unpack("<q", path.read_bytes())]
            step = len(BOUNDS) + 1
            counts = [sum(words[number::step]) for number in range(step)]
            lines, total = ["# TYPE request_seconds histogram"], 0
            for bound, count in zip(BOUNDS, counts, strict=False):
                total += count
                lines.append(f'request_seconds_bucket{{le="{"+Inf" if bound == math.inf else bound}"}} {total}')
            lines += [f"request_seconds_count {total}", f"request_seconds_sum {counts[-1] / 1e6}", ""]
            body = "\n".join(lines).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Path(given["port"]).write_text(str(server.server_address[1]))
    while time.monotonic() < given["end"]:
        time.sleep(0.5)


class Latencies:
    """Pairs of (moment due, seconds), written as one file of doubles at the end."""

    def __init__(self) -> None:
        self._pairs = array.array("d")

    def add(self, due: float, seconds: float) -> None:
        self._pairs.append(due)
        self._pairs.append(seconds)

    def write(self, path: Path) -> None:
        path.write_bytes(self._pairs.tobytes())

    @staticmethod
    def read(path: Path) -> list[tuple[float, float]]:
        pairs = array.array("d")
        pairs.frombytes(path.read_bytes())
        return list(zip(pairs[::2], pairs[1::2], strict=True))


def share_at(plan: list[list[float]], seconds: float) -> float:
    """The share of one CPU that the plan asks for: steps of [from second, share]; the last one ends the run with share 0."""
    share = 0.0
    for since, value in plan:
        if seconds >= since:
            share = value
    return share


def serve(given: dict) -> None:
    """One worker of a service: `queue` has random (Poisson) arrivals of fixed work, `periodic` an equal beat; with a file of
    its own a request is one read from it instead of work."""
    begin, end = given["begin"], given["begin"] + given["plan"][-1][0]
    chance = random.Random(given["seed"])
    kept = memoryview(bytearray(given["resident"])) if given["resident"] else None
    own = OwnFile(given["file"], chance) if given["file"] else None
    latencies = Latencies()
    histogram = Histogram(Path(given["histogram"]), given["place"])
    each = given["work"]  # seconds of CPU of a queue's request; the length of a periodic beat
    due = begin
    while True:
        share = share_at(given["plan"], due - begin)
        if given["shape"] == "queue":
            due += chance.expovariate(share / each) if share else 0.1
            cost = each
        else:
            due += each
            cost = each * share
        if due >= end:
            break
        now = time.monotonic()
        if now >= end + given["patience"]:
            # Never answered in time: it counts with what it has waited, and so do those behind it.
            latencies.add(due, now - due)
            continue
        if due > now:
            time.sleep(due - now)
        if share:
            if kept is not None:
                for _ in range(8):
                    kept[chance.randrange(0, len(kept) // PAGE) * PAGE] = 1
            if own is not None:
                own.read()
            else:
                burn(cost)
            took = time.monotonic() - due
            latencies.add(due, took)
            histogram.add(took)
    latencies.write(Path(given["out"]))


def make_file(path: Path, size: int) -> None:
    """A file with every block there, so that what reads or writes it later goes to the disk."""
    block = mmap.mmap(-1, BLOCK)
    block.write(random.Random(1).randbytes(BLOCK))
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
    for place in range(0, size, BLOCK):
        os.pwrite(file, block, place)
    os.close(file)


class OwnFile:
    """Pages of a file, read from the disk past the page cache."""

    def __init__(self, path: str, chance: random.Random) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_DIRECT)
        self._pages = os.fstat(self._file).st_size // PAGE
        self._page = mmap.mmap(-1, PAGE)
        self._chance = chance

    def read(self) -> None:
        os.preadv(self._file, [self._page], self._chance.randrange(self._pages) * PAGE)


def move(given: dict) -> None:
    """Greedy on a disk: writes and reads blocks of a file in turn, past the page cache, and counts the bytes moved."""
    chance = random.Random(given["place"])
    file = os.open(given["file"], os.O_RDWR | os.O_DIRECT)
    blocks = os.fstat(file).st_size // BLOCK
    block = mmap.mmap(-1, BLOCK)
    block.write(chance.randbytes(BLOCK))
    with Path(given["counts"]).open("r+b") as counts:
        shared = mmap.mmap(counts.fileno(), 0)
    moved = 0
    while time.monotonic() < given["end"]:
        moved += os.pwrite(file, block, chance.randrange(blocks) * BLOCK)
        moved += os.preadv(file, [block], chance.randrange(blocks) * BLOCK)
        struct.pack_into("<q", shared, given["place"] * 8, moved)


def batch(given: dict) -> None:
    """Greedy: counts what it has done in a place of a shared file, until the run is over."""
    end = given["end"]
    with Path(given["counts"]).open("r+b") as file:
        shared = mmap.mmap(file.fileno(), 0)
        done = 0
        while time.monotonic() < end:
            work(LOOPS_PER_LOOK)
            done += 1
            struct.pack_into("<q", shared, given["place"] * 8, done)


def grow(given: dict) -> None:
    """Takes memory from a moment on, at a rate, and keeps it until it is ended."""
    kept = []
    while time.monotonic() < given["end"]:
        if time.monotonic() >= given["begin"]:
            kept.append(bytearray(given["step"]))
            for place in range(0, given["step"], PAGE):
                kept[-1][place] = 1
        time.sleep(given["every"])


PROGRAMS = {"serve": serve, "batch": batch, "move": move, "grow": grow, "metrics": metrics}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](json.loads(sys.argv[2]))
