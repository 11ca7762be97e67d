"""Latency of services from their own Prometheus endpoints: the `Latencies` port (specification, sections 3, 4 and 11).

A few threads poll every source once a second, so that the cycle never waits for a service. A p99 is that of the shortest window, up to
15 s, in which at least 100 requests were counted; it is None when there is no such window or its end is older than 10 s.
"""

from __future__ import annotations

import heapq
import http.client
import logging
import threading
import time
from collections import deque

from qosmanager.linux.fetch import PATIENCE, SILENCE, fetch
from qosmanager.linux.histogram import HistogramReader, added, quantile
from qosmanager.model.snapshot import PodLatency
from qosmanager.model.workload import LatencySource, Workload
from qosmanager.ports import Clock

log = logging.getLogger(__name__)

POLL = 1.0  # seconds between two polls of one source
THREADS = 4
WINDOW = 15.0  # seconds
REQUESTS = 100  # fewer say nothing about a p99
FRESH = 10.0  # seconds


class Histories:
    """The readings of one source over its window."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, dict[float, float]]] = deque()

    def add(self, time: float, counts: dict[float, float]) -> float | None:
        """Add a reading; return the p99 in seconds, None while no window holds enough requests."""
        readings = self._readings
        if readings and added(readings[-1][1], counts) is None:
            readings.clear()  # the service began anew
        while readings and time - readings[0][0] > WINDOW:
            readings.popleft()
        found: float | None = None
        for _, before in reversed(readings):
            window = added(before, counts)
            if window is not None and window[max(window)] >= REQUESTS:
                found = quantile(0.99, window)
                break
        readings.append((time, counts))
        return found


class Endpoint:
    """One pod's source. Used by one thread at a time."""

    def __init__(self, key: str, source: LatencySource) -> None:
        self.key = key
        self.source = source
        self.latest: tuple[float, PodLatency] | None = None
        self.problem = ""
        self._histogram = HistogramReader(source.histogram)
        self._history = Histories()

    def poll(self, clock: Clock) -> None:
        """Ask once. What goes wrong is kept in `problem`; too few requests for a p99 are no problem."""
        try:
            text = fetch(self.source.url, clock)
            now = clock.monotonic()
            p99 = self._history.add(now, self._histogram.read(text))
        except (OSError, ValueError, http.client.HTTPException) as error:
            self.problem = f"latency of {self.key}: {self.source.url}: {str(error) or type(error).__name__}"
            return
        self.problem = ""
        self.latest = (now, PodLatency(p99=p99))


class PrometheusLatencies:
    """The `Latencies` port. `watch` starts what is needed; `close` ends the threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._endpoints: dict[str, Endpoint] = {}
        self._queue: list[tuple[float, str]] = []  # when a source is to be asked next
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._closed = False

    def watch(self, workloads: tuple[Workload, ...]) -> None:
        """Poll the sources of these pods, and no others; a source that stays goes on with its history."""
        wanted = {workload.key: workload.latency for workload in workloads if workload.latency is not None}
        with self._changed:
            kept = {key: known for key, known in self._endpoints.items() if wanted.get(key) == known.source}
            fresh = {key: Endpoint(key, source) for key, source in wanted.items() if key not in kept}
            self._endpoints = kept | fresh
            now = self._clock.monotonic()
            queued = {key for _, key in self._queue}
            for key in fresh.keys() - queued:
                heapq.heappush(self._queue, (now, key))
            while len(self._threads) < min(THREADS, len(self._endpoints)) and not self._closed:
                thread = threading.Thread(target=self._work, name=f"latency-{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify_all()

    def latest(self, key: str) -> PodLatency | None:
        """Return the pod's last measurement, a new object for each; None: no source, or older than 10 s."""
        endpoint = self._endpoints.get(key)
        known = endpoint.latest if endpoint else None
        if known is None or self._clock.monotonic() - known[0] > FRESH:
            return None
        return known[1]

    def problems(self) -> tuple[str, ...]:
        """Return why sources cannot be asked now, in order of their pods' keys."""
        endpoints = self._endpoints
        return tuple(endpoints[key].problem for key in sorted(endpoints) if endpoints[key].problem)

    def close(self) -> None:
        """End the threads; one that waits for a source ends with its patience."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        deadline = time.monotonic() + SILENCE + PATIENCE
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self) -> None:
        while (endpoint := self._next()) is not None:
            try:
                endpoint.poll(self._clock)
            except Exception:
                # A poller that dies would leave its share of the sources silent for ever.
                log.exception("latency source of %s", endpoint.key)
            with self._changed:
                if self._endpoints.get(endpoint.key) is endpoint:
                    heapq.heappush(self._queue, (self._clock.monotonic() + POLL, endpoint.key))
                    self._changed.notify()

    def _next(self) -> Endpoint | None:
        """Wait for the next source that is due; None: it is over."""
        with self._changed:
            while not self._closed:
                wait = self._queue[0][0] - self._clock.monotonic() if self._queue else None
                if wait is not None and wait <= 0:
                    _, key = heapq.heappop(self._queue)
                    endpoint = self._endpoints.get(key)
                    if endpoint is not None:
                        return endpoint
                    continue
                self._changed.wait(wait)
        return None
