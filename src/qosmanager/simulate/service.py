"""A service of the model: a queue of requests whose latency is that of the queue (docs/simulate.md).

A tick brings a random amount of work; what is not done in it waits for the next. Fluctuations shorter than a tick are not resolved.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import cycle
from random import Random

from qosmanager.simulate.curve import TICK, Curve
from qosmanager.simulate.latency import MEDIAN, SLICE, TAIL, Points, Second, alone, calm_quantile, quantile
from qosmanager.simulate.pods import SimulatedPod
from qosmanager.simulate.scenario import WorkloadSpec

REQUESTS = 100  # fewer say nothing about a p99 (specification, section 4)
WINDOW = 15  # seconds over which that many are gathered
_ROOT = math.sqrt(1 / TICK)  # what a second deviates more than a tick
_NOTHING = 1e-9  # core-seconds
_CHANCES = 1 << 14  # normal numbers drawn once for each service that is here and used again and again: 27 minutes of them
FAR = 5.0  # deviations: further off a tick's work does not come
_LEAST_RATE = 0.01  # cores: a queue that gets nothing does not wait for ever


class ServicePod(SimulatedPod):
    """A pod that answers requests. `work`: CPU of those that wait, core-seconds; `elsewhere`: seconds that each waits outside the CPUs;
    `inflated`: how many times as long one takes while memory is reclaimed under it.

    Of the last whole second: `requests` and how many were `given_up`, `p50` and `p99` in seconds (None: there were none). `told`: the p99
    as a metrics page tells it, over at least 100 requests.
    """

    def __init__(self, spec: WorkloadSpec, name: str, group: str, weight: float, curve: Curve) -> None:
        assert spec.service is not None
        self.service = spec.service
        self._chance: Callable[[], float] = float
        self._alone = (alone(self.service.time, MEDIAN), alone(self.service.time, TAIL))
        super().__init__(spec, name, group, weight, curve)

    def begin(self, now: float, wall: float, uid: str, age: float) -> None:
        super().begin(now, wall, uid, age)
        draw = Random(f"{self.curve.seed}/requests").gauss  # noqa: S311 - arrivals of a simulation are no secret
        self._chance = cycle(draw(0.0, 1.0) for _ in range(_CHANCES)).__next__  # drawn as they are wanted: most runs are short

    def end(self, now: float) -> None:
        super().end(now)
        self._chance = float  # half a megabyte: hundreds of services may come and go in a run

    def reset(self) -> None:
        super().reset()
        self.work = self._arrived = self._lost = 0.0
        self._fits = False
        self.elsewhere = 0.0
        self.inflated = 1.0
        self.requests = self.given_up = 0.0
        self.p50: float | None = None
        self.p99: float | None = None
        self.told: float | None = None
        self.points: Points | None = None  # the distribution of the last second; None: nobody waited in it
        self._second = Second()
        self._recent: list[tuple[float, Points | None]] = []

    def set_quota(self, cores: float) -> None:
        super().set_quota(cores)
        self.cap = min(self.cap, float(self.service.threads))

    def follow(self, tick: int) -> None:
        super().follow(tick)
        # The deviation of a tick's work: a random number of requests, each of exponential length.
        self.spread = math.sqrt(2 * self.service.time * self.demand * TICK)
        self._fits = self.demand + FAR * self.spread / TICK <= self.cap

    def ask(self) -> float:
        arrived = self.demand * TICK + self.spread * self._chance()
        self._arrived = arrived = arrived * self.inflated if arrived > 0.0 else 0.0
        want = (self.work + arrived) / TICK
        self.want = want = min(want, self.cap)
        return want

    @property
    def is_calm(self) -> bool:
        return self._fits and self.work == 0.0 and self.inflated == 1.0

    def serve_second(self) -> float:
        arrived = max(0.0, self.demand + self.spread * _ROOT * self._chance())
        self.usage += arrived
        self.periods += round(1 / TICK)
        self._second.at_once += arrived
        return arrived

    def serve(self, given: float) -> None:
        done = given * TICK
        self.usage += done
        before, arrived = self.work, self._arrived
        after = before + arrived - done
        self.periods += 1
        if after < _NOTHING and before == 0.0:
            self._second.at_once += arrived
            return
        self._wait(before, max(0.0, after), given)

    def compete(self, late: float) -> None:
        """Count, for one tick, the share of requests that wait for a time slice of another group."""
        self._second.late += late * TICK
        rate = self.demand / self.service.time
        self.stalled += TICK * (1 - math.exp(-rate * late * SLICE)) * (1.0 if self.work == 0.0 else 0.0)

    def _wait(self, before: float, after: float, given: float) -> None:
        rate = max(given, _LEAST_RATE)
        lost = after - self.service.timeout * rate
        if lost > 0.0:
            self._lost += lost
            after -= lost
        self.work = after if after > _NOTHING else 0.0
        if self.quota < math.inf and after > _NOTHING and given >= self.quota * (1 - 1e-6):
            self.throttled += 1
        self._second.waits.append(((before + after) / 2 / rate, self._arrived))
        # What came after the quota was used up waits, and what was left over waits until it is done.
        if before == 0.0:
            self.stalled += TICK * after / max(self._arrived, after)
        else:
            self.stalled += TICK if self.work > 0.0 else TICK * before / (before + self._arrived)

    def close_second(self) -> None:
        """Make latencies of the second that ends now, and begin the next."""
        second, service = self._second, self.service
        self.points = None
        time = service.time * self.inflated
        self.requests = (second.at_once + sum(work for _, work in second.waits)) / time
        self.given_up, self._lost = self._lost / time, 0.0
        if self.requests <= 0.0:
            self.p50 = self.p99 = None
        elif second.waits:
            self.points = second.points(time, self.elsewhere, service.timeout)
            self.p50, self.p99 = quantile(self.points, MEDIAN), quantile(self.points, TAIL)
        elif second.late > 0.0 or self.elsewhere > 0.0 or self.inflated > 1.0:
            self.points = second.points(time, self.elsewhere, service.timeout) if self.requests < REQUESTS else None
            found = (self.elsewhere + calm_quantile(round(time, 6), round(second.late, 3), share) for share in (MEDIAN, TAIL))
            self.p50, self.p99 = (min(seconds, service.timeout) for seconds in found)
        else:
            self.p50, self.p99 = self._alone
        self._second = Second() if second.waits or second.late else second
        self._second.at_once = 0.0
        if self.requests >= REQUESTS:
            self.told = self.p99
            self._recent.clear()
        else:
            self.told = self._gather()

    @property
    def runnable(self) -> float:
        """How many requests run or wait for a CPU, on average."""
        return min(self.service.threads, self.demand + self.work / self.service.time)

    def _gather(self) -> float | None:
        """Return the p99 over the shortest time, at most WINDOW seconds, in which REQUESTS came; a time without enough has none."""
        recent = self._recent
        recent.append((self.requests, self.points))
        del recent[:-WINDOW]
        found, waited = 0.0, False
        for place in range(len(recent) - 1, -1, -1):
            found += recent[place][0]
            waited |= recent[place][1] is not None
            if found >= REQUESTS:
                break
        else:
            return None
        if not waited:
            return self._alone[1]
        together: Points = []
        for requests, points in recent[place:]:
            if points is None:
                second = Second()
                second.at_once = requests * self.service.time
                points = second.points(self.service.time, 0.0, self.service.timeout)  # noqa: PLW2901 - what nobody needed so far
            together += points
        return quantile(sorted(together), TAIL)
