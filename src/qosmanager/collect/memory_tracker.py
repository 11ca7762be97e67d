"""A pod's memory, leaks, I/O and stalls (specification, section 3): dear to read, so not in each cycle."""

from __future__ import annotations

import math

from qosmanager.collect.conditions import Conditions, Missing
from qosmanager.collect.metric_cache import MINUTES, PodHistory
from qosmanager.collect.rates import FIRST, GAP, RESET, rise
from qosmanager.collect.readings import GroupReader, IoCounters
from qosmanager.collect.trend import LEAK_WINDOW, leak_rates
from qosmanager.model.snapshot import NO_MEMORY, NOT_OBSERVED, PodMemory, PodObserved
from qosmanager.model.workload import Workload

LEAKS = 60.0  # seconds between two looks for a leak: its history has one number a minute
LIMIT = 60.0  # seconds between two looks at the memory limit
SPARED = "not read: the agent spares the node while it is over its own budget"
LEAK_AGE = 1800.0  # seconds that a pod must exist


class MemoryTracker:
    """Keeps one pod's memory history; `memory` is the last reading."""

    def __init__(self, reader: GroupReader, history: PodHistory, missing: Missing) -> None:
        self._reader = reader
        self._history = history
        self._missing = missing
        self._leaks_at = self._limit_at = -math.inf
        self.memory = NO_MEMORY

    def sample(self, workload: Workload, now: float, conditions: Conditions) -> None:
        """Measure now. Raises GroupGoneError."""
        rss = self._missing.attempt(("memory.rss",), self._reader.held_memory)
        limit = workload.memory_limit
        if limit is None:
            limit = self._limit(now)
        self._missing.note("memory.request", "" if workload.memory_request is not None else "none declared")
        growth, before = self.memory.growth, self.memory.growth_before
        if rss is not None:
            self._history.rss.add(now, rss)
            if growth is None or now >= self._leaks_at:
                self._leaks_at = now + LEAKS
                growth, before = self._growth(workload, conditions)
        self._missing.note("memory.growth", "" if growth is not None else "the pod's memory is not known")
        self.memory = PodMemory(request=workload.memory_request, limit=limit, rss=rss, growth=growth, growth_before=before)

    def _limit(self, now: float) -> int | None:
        """Return the kernel's limit, looked at once a minute: it is shown, and in no formula."""
        if now < self._limit_at:
            return self.memory.limit
        self._limit_at = now + LIMIT
        limit = self._missing.attempt(("memory.limit",), self._reader.memory_limit)
        if limit is None:
            self._missing.note("memory.limit", "no limit")
        return limit

    def _growth(self, workload: Workload, conditions: Conditions) -> tuple[float, float]:
        """Return the growth, and that of its first half alone, in bytes/min; 0 where it is no leak."""
        if workload.created is not None and conditions.wall - workload.created < LEAK_AGE:
            return 0.0, 0.0
        history = self._history.rss
        # Whether it held as much before is only asked of what grows now.
        rates = leak_rates(history.last(3 * LEAK_WINDOW), conditions.growth_threshold) and leak_rates(
            history.last(MINUTES), conditions.growth_threshold
        )
        return (0.0, 0.0) if rates is None else (sum(rates) / 2, rates[0])


class ObservedTracker:
    """Keeps one pod's I/O counters; `observed` is the last reading."""

    def __init__(self, reader: GroupReader, missing: Missing) -> None:
        self._reader = reader
        self._missing = missing
        self._last: tuple[float, IoCounters] | None = None
        self.observed = NOT_OBSERVED

    def sample(self, now: float, gap: float, cpu_psi_some: float | None) -> None:
        """Measure now. Raises GroupGoneError."""
        read, written = self._io(now, gap)
        if cpu_psi_some is not None:
            self._missing.note("observed.cpu_psi_some", "")
        averages = self._missing.attempt(("observed.memory_psi_full", "observed.io_psi_some"), self._reader.stall_averages)
        self.observed = PodObserved(
            io_read=read,
            io_write=written,
            cpu_psi_some=cpu_psi_some,
            memory_psi_full=averages[0] if averages else None,
            io_psi_some=averages[1] if averages else None,
        )

    def spare(self) -> None:
        """Read nothing, and say why there is nothing."""
        self._last = None
        self.observed = NOT_OBSERVED
        for field in NOT_OBSERVED.__struct_fields__:
            self._missing.note(f"observed.{field}", SPARED)

    def _io(self, now: float, gap: float) -> tuple[float | None, float | None]:
        fields = ("observed.io_read", "observed.io_write")
        counters = self._missing.attempt(fields, self._reader.io)
        before, self._last = self._last, (now, counters) if counters else None
        if counters is None:
            return None, None
        if before is None or now - before[0] > gap:
            for field in fields:
                self._missing.note(field, FIRST if before is None else GAP)
            return None, None
        elapsed = now - before[0]
        rises = (rise(counters.read, before[1].read), rise(counters.written, before[1].written))
        for field, risen in zip(fields, rises, strict=True):
            self._missing.note(field, "" if risen is not None else RESET)
        read, written = rises
        return None if read is None else read / elapsed, None if written is None else written / elapsed
