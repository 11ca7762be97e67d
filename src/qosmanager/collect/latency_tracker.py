"""A pod's p99 with its trend and its habit (specification, sections 3 and 4)."""

from __future__ import annotations

import math
import statistics

from qosmanager.collect.conditions import Missing
from qosmanager.collect.metric_cache import PodHistory
from qosmanager.collect.trend import slope
from qosmanager.model.snapshot import NO_LATENCY, PodLatency
from qosmanager.model.workload import Workload
from qosmanager.ports import Latencies

FITS = 10.0  # seconds between two fits
MEDIAN = 300.0
TREND = 120.0
UNKNOWN = "no fresh p99: the source does not answer, or counted fewer than 100 requests"


class LatencyTracker:
    """Joins each new p99 to the pod's history. The trend is the significant rise over 120 s, by the rule of every trend here."""

    def __init__(self, history: PodHistory, missing: Missing) -> None:
        self._history = history
        self._missing = missing
        self._workload: Workload | None = None
        self._latest: PodLatency | None = None
        self._unknown = False  # and it has been said why
        self._fits_at = -math.inf
        self.latency = NO_LATENCY

    def sample(self, workload: Workload, now: float, latencies: Latencies) -> PodLatency:
        """Return what is known now; a measurement counts once, however often it is asked for."""
        if workload is not self._workload:
            self._follow(workload)
        if workload.latency is None:
            return self.latency
        latest = latencies.latest(workload.key)
        if latest is None or latest.p99 is None:
            if self._unknown:
                return self.latency
            self._unknown = True
            for field in ("latency.p99", "latency.trend", *(("latency.median",) if self.latency.median is None else ())):
                self._missing.note(field, UNKNOWN)
            self._latest = None
            self.latency = PodLatency(slo=workload.slo_p99, median=self.latency.median)
        elif latest is not self._latest:
            self._latest = latest
            self._add(workload, now, latest.p99)
        return self.latency

    def _follow(self, workload: Workload) -> None:
        """Take another declaration into use."""
        self._workload, self._unknown = workload, False
        self._missing.note("latency.slo", "" if workload.slo_p99 is not None else "none declared")
        if workload.latency is None:
            self.latency = PodLatency(slo=workload.slo_p99)
            for field in ("latency.p99", "latency.trend", "latency.median"):
                self._missing.note(field, "no source declared")

    def _add(self, workload: Workload, now: float, p99: float) -> None:
        self._history.add_p99(now, p99)
        self._unknown = False
        before = self.latency
        trend, median = before.trend, before.median
        if now >= self._fits_at or median is None or (trend is None and workload.slo_p99):
            self._fits_at = now + FITS
            trend, median = self._fit(workload.slo_p99, now)
        if before.p99 is None or (trend is None) is not (before.trend is None):
            self._missing.note("latency.p99", "")
            self._missing.note("latency.median", "")
            self._missing.note("latency.trend", "" if trend is not None else "no SLO declared")
        self.latency = PodLatency(p99=p99, slo=workload.slo_p99, trend=trend, median=median)

    def _fit(self, slo: float | None, now: float) -> tuple[float | None, float | None]:
        assert self._history.p99 is not None
        values = self._history.p99.values(now - MEDIAN)
        trend = slope(*self._history.p99.since(now - TREND)) / slo * 100 if slo else None
        return trend, statistics.median(values)
