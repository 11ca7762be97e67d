"""Upgrades under load: the old agent leaves on a lease, the new one takes over; batch is never above its limit for longer than a second."""

from __future__ import annotations

import itertools
import math
import signal
import threading
import time

import pytest

from real_daemon import Daemon, busy_groups, limit_in_force, wait
from real_groups import obstacle, real_groups

WHY_NOT = obstacle()
pytestmark = [pytest.mark.soak, pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))]
UPGRADES = 20
SLACK = 1.1  # the kernel settles within a period or two


@pytest.fixture
def groups():
    yield from real_groups()


class Watch:
    """Looks at the BE limit and at what BE has used, twenty times a second."""

    def __init__(self, groups) -> None:
        self.looks: list[tuple[float, float, float]] = []  # when, limit in cores, CPU seconds used so far
        self._groups = groups
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._over.wait(0.05):
            word = self._groups.quota(self._groups.path("be")).split()[0]
            limit = math.inf if word in ("-1", "max") else int(word) / 100_000
            self.looks.append((time.monotonic(), limit, self._groups._cpu_seconds("be")))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def longest_excess(self) -> float:
        """The longest time in seconds for which BE used more than its limit, step by step."""
        longest = since = 0.0
        for (before, limit, used), (now, limit_now, used_now) in itertools.pairwise(self.looks):
            # Over half a period a quota may come in one piece: what counts is the larger limit, and the period's own grain.
            allowed = max(limit, limit_now) * SLACK * (now - before) + max(limit, limit_now) * 0.1
            since = since + (now - before) if used_now - used > allowed else 0.0
            longest = max(longest, since)
        return longest

    def worst_second(self) -> float:
        """The largest share of its limit that BE used over any whole second."""
        worst, first = 0.0, 0
        for now, _, used in self.looks:
            while now - self.looks[first][0] > 1.0:
                first += 1
            began, _, used_before = self.looks[first]
            limit = max(limit for when, limit, _ in self.looks[first:] if when <= now)
            if now - began > 0.9:
                worst = max(worst, (used - used_before) / (now - began) / limit)
        return worst


def test_batch_stays_within_its_limit_over_upgrades(groups, tmp_path):
    busy_groups(groups)
    agent = Daemon(groups, tmp_path, on_stop="lease")
    try:
        wait(lambda: limit_in_force(groups), 20, "a BE limit", agent.lines)
        time.sleep(0.5)
        with Watch(groups) as watch:
            for number in range(UPGRADES):
                assert agent.stop() == 0
                agent = Daemon(groups, tmp_path, on_stop="lease" if number < UPGRADES - 1 else "restore")
                wait(lambda agent=agent: agent.get("/status")["cycle"] >= 3, 20, "three cycles", agent.lines)
                time.sleep(0.3)
        assert all(math.isfinite(limit) for _, limit, _ in watch.looks), "BE was open at some moment"
        excess, worst = watch.longest_excess(), watch.worst_second()
        print(f"{UPGRADES} upgrades: longest excess {excess:.2f} s, worst second {worst:.0%} of the limit")
        assert excess <= 1.0
        assert worst <= 1.25
        assert agent.stop() == 0
        assert not limit_in_force(groups)
    finally:
        agent.stop(signal.SIGKILL)
