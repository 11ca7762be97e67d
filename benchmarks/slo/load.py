"""What runs inside the groups: a service with an open loop of requests, greedy batch that counts its work, batch that takes memory.

Every process is told when the measured run begins (CLOCK_MONOTONIC) and ends by itself. Latency counts from the moment a request was due,
whether or not earlier ones were answered, so that queueing is not hidden.
"""

from __future__ import annotations

import array
import json
import mmap
import random
import struct
import sys
import time
from pathlib import Path

LOOPS_PER_LOOK = 2000  # batch counts once per so many loops: some 50 us of work
PAGE = 4096


def work(loops: int) -> int:
    total = 0
    for number in range(loops):
        total += number
    return total


def calibrate() -> float:
    """Loops per millisecond on this CPU when nothing disturbs: the best of many short tries."""
    work(100_000)
    best = float("inf")
    for _ in range(200):
        began = time.perf_counter()
        work(20_000)
        best = min(best, time.perf_counter() - began)
    return 20_000 / best / 1000


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
    """One worker of a service: `queue` has random (Poisson) arrivals of fixed work, `periodic` an equal beat."""
    begin, end = given["begin"], given["begin"] + given["plan"][-1][0]
    chance = random.Random(given["seed"])
    kept = memoryview(bytearray(given["resident"])) if given["resident"] else None
    latencies = Latencies()
    loops_per_second = given["loops_per_ms"] * 1000
    each = given["work"]  # seconds of CPU of a queue's request; the length of a periodic beat
    due = begin
    while True:
        share = share_at(given["plan"], due - begin)
        if given["shape"] == "queue":
            due += chance.expovariate(share / each) if share else 0.1
            loops = int(each * loops_per_second)
        else:
            due += each
            loops = int(each * share * loops_per_second)
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
            work(loops)
            latencies.add(due, time.monotonic() - due)
    latencies.write(Path(given["out"]))


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


PROGRAMS = {"serve": serve, "batch": batch, "grow": grow}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](json.loads(sys.argv[2]))
