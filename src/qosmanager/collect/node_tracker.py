"""The node's counters made into a `Node` (specification, section 3)."""

from __future__ import annotations

import msgspec

from qosmanager.collect.rates import FIRST, GAP, LEAST, Trail, rise
from qosmanager.collect.readings import NodeCounters, NodeReader
from qosmanager.model.snapshot import Node

RATES = ("cpu_usage", "iowait", "softirq", "steal", "context_switches", "pgscan_direct", "pgscan_kswapd", "disk_util", "net_util")
NO_RISE = "the counter began anew, or no tick passed"


class NodeTracker:
    """Reads the node once a cycle. A read that fails keeps the last sample, which ages."""

    def __init__(self, reader: NodeReader) -> None:
        self._reader = reader
        self._trail: Trail[NodeCounters] = Trail()
        self.node: Node | None = None
        self.sampled: float | None = None  # monotonic time of the sample in `node`
        self.missing: dict[str, str] = {}
        self.failure = ""  # why the last read failed, "" when it did not

    def read(self, now: float, gap: float) -> bool:
        """Measure at `now` (monotonic); tell whether the sample is a new one. Rates across more than `gap` seconds are left out."""
        try:
            counters = self._reader.read()
        except (OSError, ValueError) as error:
            self.failure = f"the node cannot be read: {error}"
            return False
        self.failure = ""
        newest, begin = self._trail.newest, self._trail.begin(now, LEAST)
        self.missing = {f"node.{name}": reason for name, reason in counters.missing.items()}
        rates: dict[str, float | None] = {}
        if newest is None or begin is None or now - newest[0] > gap or now <= newest[0]:
            self._note(RATES, FIRST if newest is None else GAP)
            self._trail.clear()
        else:
            rates = node_rates(begin[1], counters, now - begin[0])
            self._note(tuple(name for name, rate in rates.items() if rate is None), NO_RISE)
        self._trail.add(now, counters)
        node = Node(
            cpus=counters.cpus,
            topology=counters.topology,
            load1=counters.load1,
            memory_total=counters.memory_total,
            memory_available=counters.memory_available,
            swap_total=counters.swap_total,
            swap_used=counters.swap_used,
            cpu_psi_some=counters.cpu_psi_some,
            cpu_psi_full=counters.cpu_psi_full,
            memory_psi_some=counters.memory_psi_some,
            memory_psi_full=counters.memory_psi_full,
            io_psi_some=counters.io_psi_some,
            io_psi_full=counters.io_psi_full,
        )
        self.node = msgspec.structs.replace(node, **rates)
        self.sampled = now
        return True

    def _note(self, names: tuple[str, ...], reason: str) -> None:
        for name in names:
            self.missing.setdefault(f"node.{name}", reason)


def node_rates(before: NodeCounters, now: NodeCounters, elapsed: float) -> dict[str, float | None]:
    """Return the rates between two readings `elapsed` seconds apart, by field of `Node`."""
    busy = rise(now.cpu_busy, before.cpu_busy)
    states = rise(now.cpu_total, before.cpu_total)

    def percent(later: float | None, earlier: float | None) -> float | None:
        part = rise(later, earlier)
        return None if part is None or not states else min(100.0, part / states * 100)

    def per_second(later: float | None, earlier: float | None) -> float | None:
        part = rise(later, earlier)
        return None if part is None else part / elapsed

    return {
        # The kernel's ticks may fall a little to this side of the interval or to that: never more than there is.
        "cpu_usage": None if busy is None else min(now.cpus, busy / elapsed),
        "iowait": percent(now.iowait, before.iowait),
        "softirq": percent(now.softirq, before.softirq),
        "steal": percent(now.steal, before.steal),
        "context_switches": per_second(now.context_switches, before.context_switches),
        "pgscan_direct": per_second(now.pgscan_direct, before.pgscan_direct),
        "pgscan_kswapd": per_second(now.pgscan_kswapd, before.pgscan_kswapd),
        "disk_util": _busiest_disk(before, now, elapsed),
        "net_util": _busiest_link(before, now, elapsed),
    }


def _busiest_disk(before: NodeCounters, now: NodeCounters, elapsed: float) -> float | None:
    busy = [risen for name, seconds in now.disks.items() if (risen := rise(seconds, before.disks.get(name))) is not None]
    return min(100.0, max(busy) / elapsed * 100) if busy else None


def _busiest_link(before: NodeCounters, now: NodeCounters, elapsed: float) -> float | None:
    """Each direction has the whole speed: the busier one counts. Links whose speed is unknown are left out."""
    use: list[float] = []
    for name, link in now.links.items():
        earlier = before.links.get(name)
        if earlier is None or link.speed is None:
            continue
        received, sent = rise(link.received, earlier.received), rise(link.sent, earlier.sent)
        if received is not None and sent is not None:
            use.append(min(100.0, max(received, sent) / elapsed / link.speed * 100))
    return max(use) if use else None
