"""What the kernel does to keep BE behind LS, read back: `Snapshot.be_shielded` and `Snapshot.be_memory` (specification, section 5.1).

Weights are looked at every 10 s and when pods come or go; BE's memory in each cycle, while it is asked for.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from qosmanager.collect.conditions import Pace
from qosmanager.collect.states_informer import Residents
from qosmanager.config.settings import Settings, Switch
from qosmanager.model.qos import QoS, is_latency_sensitive

_LOOK = 10.0  # seconds
_FIRST = 0.2  # of that: again soon after the first cycle has acted


class Isolated(Protocol):
    """The kernel's answers."""

    def shielded(self, batch: Collection[str], services: Collection[str]) -> tuple[bool | None, str]:
        """Whether all of BE's groups make way for those of LS, and why or why not; None: not known."""

    def memory(self, group: str) -> int | None:
        """Bytes that a group holds, page cache and all; None: not known, as on v1."""


class IsolationReader:
    """Asks as often as it is worth."""

    def __init__(self, kernel: Isolated | None, settings: Settings) -> None:
        """`kernel` None: nothing is known."""
        self._kernel = kernel
        self._pace = Pace(_LOOK, _FIRST)
        self._shield: tuple[bool | None, str] = (None, "not looked at")
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Take settings into use: with others BE's weight may be another one soon, so it is looked at at once and again 2 s later."""
        self._wants_memory = settings.isolation.memory is Switch.AUTO
        self._pace.hasten()

    def hasten(self) -> None:
        """Have the weights looked at again at once."""
        self._pace.hasten()

    def shielded(self, now: float, residents: Residents, missing: dict[str, str]) -> bool:
        """Tell whether the kernel puts BE behind LS; where that is not known, no, and `missing` says why."""
        if self._kernel is None:
            return False
        if self._pace.due(now):
            services = [workload.cgroup for workload in residents.workloads if is_latency_sensitive(workload.qos)]
            self._shield = self._kernel.shielded(batch_groups(residents), services)
        holds, why = self._shield
        if holds is None:
            missing["be_shielded"] = why
        return holds is True

    def memory(self, residents: Residents) -> int | None:
        """Return what the group of all BE holds, in bytes; None: not asked for, or not known."""
        parent = residents.be_parent
        return None if not self._wants_memory or self._kernel is None or parent is None else self._kernel.memory(parent)


def batch_groups(residents: Residents) -> list[str]:
    """Return the group that holds all BE, or those of the BE pods."""
    batch = [workload.cgroup for workload in residents.workloads if workload.qos is QoS.BE]
    return batch if residents.be_parent is None else [residents.be_parent]
