"""Demand over time (docs/simulate.md). In: a `CpuDemand`. Out: the value at a tick, and until which tick it holds."""

from __future__ import annotations

import math
from bisect import bisect_right
from random import Random

from qosmanager.simulate.load import Points
from qosmanager.simulate.scenario import Burst, CpuDemand

TICK = 0.1  # seconds: one period of the kernel's bandwidth control
DAY = 86400.0
_SECOND = 10  # ticks
_NEVER = 1 << 60


class Curve:
    """One pod's demand. `seed` makes its noise, one number each second."""

    def __init__(self, demand: CpuDemand, points: Points, start: float, seed: str) -> None:
        """`points`: of its CSV file, if it has one; `start`: time of day at tick 0, seconds."""
        self.seed = seed
        self._demand = demand
        self._start = start
        self._random = Random(seed)  # noqa: S311 - noise of a simulation is no secret
        if demand.steps:
            self._at = [step.at for step in demand.steps]
            self._values = [step.value for step in demand.steps]
            self._over = [step.over for step in demand.steps]
        else:
            self._at = [seconds for seconds, _ in points]
            self._values = [cores for _, cores in points]
            self._over = [0.0] * len(points)

    def at(self, tick: int) -> tuple[float, int]:
        """Return the cores wanted at a tick and the tick at which to ask again."""
        time = tick * TICK + 1e-6
        value, edge = self._daily(time) if self._demand.daily else self._steps(time)
        for burst in self._demand.bursts:
            inside, turn = _burst(burst, time)
            value, edge = burst.value if inside else value, min(edge, turn)
        until = _NEVER if edge == math.inf else max(tick + 1, math.ceil(edge / TICK - 1e-3))
        if self._demand.noise:
            value = max(0.0, value * (1 + self._demand.noise * self._random.gauss(0, 1)))
            until = min(until, tick + _SECOND)
        return value, until

    def _steps(self, time: float) -> tuple[float, float]:
        index = bisect_right(self._at, time) - 1
        before = self._demand.constant or 0.0
        if index < 0:
            return before, self._at[0] if self._at else math.inf
        if index > 0:
            before = self._values[index - 1]
        following = self._at[index + 1] if index + 1 < len(self._at) else math.inf
        over, since = self._over[index], time - self._at[index]
        if since >= over:
            return self._values[index], following
        return before + (self._values[index] - before) * since / over, min(time + TICK, following)

    def _daily(self, time: float) -> tuple[float, float]:
        hours = self._demand.daily
        now = (self._start + time) % DAY
        seconds = [each.hour * 3600 for each in hours]
        index = bisect_right(seconds, now) - 1
        edge = seconds[index + 1] if index + 1 < len(seconds) else DAY + seconds[0]
        return hours[index].value, time + edge - now  # before the first hour, index -1 is the last one of the day before


def _burst(burst: Burst, time: float) -> tuple[bool, float]:
    """Tell whether a burst lasts now, and when that changes."""
    since = time - burst.first
    if since < 0:
        return False, burst.first
    if burst.every is not None:
        round_ = math.floor(since / burst.every)
        begin = burst.first + round_ * burst.every
        inside = time - begin < burst.length
        return inside, begin + (burst.length if inside else burst.every)
    return (True, burst.first + burst.length) if since < burst.length else (False, math.inf)
