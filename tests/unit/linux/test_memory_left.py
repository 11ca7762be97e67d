"""Available memory looked at between cycles."""

from __future__ import annotations

import time

import pytest

from qosmanager.linux.cgroup import Hierarchies
from qosmanager.linux.memory_left import MemoryLeft
from qosmanager.linux.stall_alarm import StallAlarm
from qosmanager.ports import MemoryGuard

MIB = 1 << 20


def test_the_available_memory_of_this_machine_is_read_again_each_time(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal:        2048 kB\nMemFree:  3 kB\nMemAvailable:    1024 kB\nBuffers: 7 kB\n")
    left = MemoryLeft(tmp_path)
    assert left.read() == MIB
    (tmp_path / "meminfo").write_text("MemTotal:        2048 kB\nMemFree:  3 kB\nMemAvailable:    1000 kB\nBuffers: 7 kB\n")
    assert left.read() == 1_024_000


@pytest.mark.parametrize("text", [None, "MemTotal: 2048 kB\n", "MemAvailable: many kB\n"])
def test_what_cannot_be_read_is_not_known(tmp_path, text):
    if text is not None:
        (tmp_path / "meminfo").write_text(text)
    assert MemoryLeft(tmp_path).read() is None


@pytest.mark.parametrize(
    ("available", "broken"),
    # Under 800, and more than 100 less than the 850 that were seen.
    [(850, False), (800, False), (750, False), (749, True), (0, True)],
)
def test_a_guard_is_broken_by_a_fall_of_an_eighth_that_ends_below_its_level(available, broken):
    assert MemoryGuard(800.0, 850).is_broken(available) is broken


def alarm(tmp_path, readings):
    told = iter(readings)
    return StallAlarm(Hierarchies(tmp_path, {}), lambda: next(told))


def test_a_wait_ends_as_soon_as_the_guard_is_broken(tmp_path):
    waiting = alarm(tmp_path, [900 * MIB, None, 700 * MIB])
    waiting.guard(MemoryGuard(800.0 * MIB, 900 * MIB), 0.01)
    jump = waiting.wait(60.0)
    assert jump is not None
    assert jump.urgent
    assert jump.pods == {}
    assert jump.reason == "700 MiB of memory available, 900 a moment ago, under 800"
    assert waiting.cost().reads == 2, "one look told nothing"
    waiting.close()


def test_without_a_guard_memory_is_not_looked_at(tmp_path):
    waiting = alarm(tmp_path, [])
    waiting.guard(MemoryGuard(800.0, 900), 0.01)
    waiting.guard(None, 0.01)
    before = time.monotonic()
    assert waiting.wait(0.05) is None
    assert time.monotonic() - before >= 0.05
    waiting.close()
