"""24 hours of a clock moved by hand, pods coming and going: what the agent holds does not grow. QOSM_HOURS for another length."""

from __future__ import annotations

import gc
import math
import os
import random
import statistics
import tempfile
from pathlib import Path

import pytest

from whole_node import World

pytestmark = pytest.mark.soak
HOURS = int(os.environ.get("QOSM_HOURS", "24"))
WARM = 2  # hours: histories of 5 minutes and half an hour are full by then
PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20


def rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


class Day:
    """Services with their daily curve; up to ten BE pods that live for some minutes each."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = random.Random(20261111)
        self._number = 0
        self.alive: list[str] = []

    def hour(self, number: int) -> None:
        for second in range(3600):
            self._world.ls = 1.2 + 0.8 * math.sin((number + second / 3600) / 24 * math.tau) + self._chance.uniform(-0.1, 0.1)
            self._world.be = 2.0 / (2 + len(self.alive))
            if self._chance.random() < 1 / 20:
                self._come_or_go()
            self._world.second()
        # The test's own memory of what happened.
        self._world.records.clear()
        self._world.kernel.writes.clear()

    def end_all(self) -> None:
        for name in self.alive:
            self._world.died(name)
        self.alive.clear()
        self._world.seconds(15)
        self._world.records.clear()

    def _come_or_go(self) -> None:
        if self.alive and (len(self.alive) == 10 or self._chance.random() < 0.5):
            self._world.died(self.alive.pop(self._chance.randrange(len(self.alive))))
        else:
            self._number += 1
            self.alive.append(f"job-{self._number}")
            self._world.born(self.alive[-1])


@pytest.fixture
def memory_only():
    """A directory on tmpfs, where the journal belongs: its syncs would take most of the day on a disk."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        yield Path(directory)


@pytest.mark.parametrize("layout", ["v1", "v2"])
def test_a_day_holds_no_more_at_its_end_than_at_its_beginning(memory_only, layout):
    world = World(memory_only, layout)
    day = Day(world)
    held = []
    for number in range(HOURS):
        day.hour(number)
        day.end_all()
        gc.collect()
        held.append((rss(), descriptors()))
        print(f"{layout} hour {number + 1}: {held[-1][0] / MIB:.1f} MiB, {held[-1][1]} descriptors", flush=True)
    assert world.errors == []
    # Single looks differ by some 5 MiB either way, whenever they are taken: the middle of a quarter says whether anything grows.
    warm = [memory for memory, _ in held[min(WARM, HOURS - 1) :]]
    quarter = max(1, len(warm) // 4)
    assert statistics.median(warm[-quarter:]) <= statistics.median(warm[:quarter]) + 3 * MIB
    assert held[-1][1] <= held[0][1]
