"""Standing properties of LS groups (specification, section 5.1): a weight by request, a kernel burst of one limit, protected memory.

In: what is to stand, where the pods lie. Out: receipts, and how each knob stands. Only groups of workload files: what kubelet writes is
left to it. Nothing is ever lowered. A value that somebody else changes is the group's own from then on, and is not written again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec.structs import replace

from qosmanager.execute.batch_knobs import knob_of
from qosmanager.execute.dialect import MEMORY_LOW_NAME, burst_file, memory_file, parse_us, weight_file
from qosmanager.execute.family import Family, Hands, Wish
from qosmanager.execute.ledger import holds_ours
from qosmanager.execute.tree import group_limit
from qosmanager.execute.writing import Trouble, read
from qosmanager.model.actions import Knob, KnobState, Receipt, Result, Standing
from qosmanager.model.count import counted
from qosmanager.model.qos import is_latency_sensitive
from qosmanager.model.workload import CgroupFile, Placement, Workload
from qosmanager.ports import JournalEntry

WEIGHT, BURST, LOW = "LS CPU weight", "LS kernel burst", "LS memory.low"
_LOOK = 30.0  # seconds between two looks at a group: for a request or a limit that is another one; drift is watched all the time
_PAGE = 4096
_BOUNDS = {1: (2, 262_144), 2: (1, 10_000)}
_OF_A_CORE = {1: 1024.0, 2: 100.0}  # both are the kernel's default


def weight_of(version: int, cores: float) -> int:
    """Return the weight that stands for a request, on the scale on which a group without one has that of one core."""
    low, high = _BOUNDS[version]
    return min(high, max(low, round(cores * _OF_A_CORE[version])))


class ServiceKnobs:
    """Keeps them up; `knobs` says how they stand."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self._kernel = hands.kernel
        self._due: dict[str, float] = {}  # group -> when it is looked at next
        self._wished: dict[str, tuple[CgroupFile, ...]] = {}
        self._receipts: dict[str, dict[str, list[Receipt]]] = {WEIGHT: {}, BURST: {}, LOW: {}}
        self._theirs: dict[CgroupFile, int] = {}  # files that somebody else has changed, with the inode of their group
        self._basis: object = None
        self._standing = Standing()
        self.knobs = self._stand()  # as last looked at; asked for by other threads too

    def leave(self, entry: JournalEntry) -> None:
        """Somebody else has changed a file: from now on it is theirs."""
        self._theirs[entry.file] = entry.inode

    def keep(self, standing: Standing, placement: Placement, now: float) -> list[Receipt]:
        """Write what is to stand, and put back what no longer is. Not all groups in one cycle: a hundred at once would show."""
        if not standing.services and not standing.memory_low and self._basis is None:
            return []
        services = _services(placement)
        low = _protected(services) if standing.memory_low else {}
        basis = (standing.services, low, services)
        changed = basis != self._basis
        if changed:
            self._basis, self._standing, self._due = basis, standing, {}
        receipts: list[Receipt] = []
        wished = dict(self._wished)
        groups = sorted({*services, *low})
        for number, group in enumerate(groups):
            due = self._due.get(group)
            if due is None or due <= now:
                self._due[group] = now + (_LOOK * (number % 30 + 1) / 30 if due is None else _LOOK)
                receipts += self._look(group, services.get(group), low.get(group))
        if changed or wished != self._wished:
            receipts += self._let_go({*groups})
        if receipts or changed:
            self.knobs = self._stand()
        if not standing.services and not standing.memory_low:
            self._basis = None
            self.knobs = self._stand()
        # Whose they are stands in the journal; a receipt of a pod would be about its burst.
        return [replace(receipt, pod=None) for receipt in receipts]

    def _look(self, group: str, workload: Workload | None, low: int | None) -> list[Receipt]:
        wishes: dict[str, Wish | Receipt | None] = {}
        if workload is not None and self._standing.services:
            wishes[WEIGHT] = self._weight(workload)
            wishes[BURST] = self._burst(workload)
        if low is not None:
            wishes[LOW] = self._low(group, low)
        pod = None if workload is None else workload.key
        receipts: list[Receipt] = []
        kept: list[CgroupFile] = []
        for name, wish in wishes.items():
            if wish is None:
                continue
            if isinstance(wish, Wish):
                done = self._hands.carry_out([Family(wishes=(wish,), pod=pod, protects=True)])
                kept.append(wish.file)
            else:
                done = [wish]
            self._receipts[name][group] = done
            receipts += done
        self._wished[group] = tuple(kept)
        return receipts

    def _weight(self, workload: Workload) -> Wish | Receipt | None:
        version = self._kernel.version("cpu")
        if version is None or not workload.cpu_request:
            return None
        wanted = weight_of(version, workload.cpu_request)
        return self._raised(weight_file(version, workload.cgroup), wanted)

    def _burst(self, workload: Workload) -> Wish | Receipt | None:
        limit = group_limit(self._kernel, self._hands.ledger, workload.cgroup)
        if isinstance(limit, Trouble) or not math.isfinite(limit.own.us):
            return None
        return self._raised(burst_file(limit.version, workload.cgroup), int(limit.own.us))

    def _low(self, group: str, low: int) -> Wish | Receipt | None:
        if self._kernel.version("memory") != 2:
            return None
        return self._raised(memory_file(group, MEMORY_LOW_NAME), low)

    def _raised(self, file: CgroupFile, wanted: int) -> Wish | Receipt | None:
        """Wish for a value that is more than the group's own; None: it has as much, or it is somebody else's."""
        text = read(self._kernel, file)
        if isinstance(text, Trouble):
            return Receipt(target=str(file), result=text.result, detail=text.detail)
        if file in self._theirs:
            if self._same_group(file):
                return None
            del self._theirs[file]
        entry = self._hands.ledger.entries.get(file)
        if entry is not None and not holds_ours(entry, text):
            return Wish(file, text)  # somebody else's: the next look at owned files tells
        own = parse_us(file, text if entry is None else entry.original)
        return Wish(file, str(wanted)) if own < wanted else None

    def _same_group(self, file: CgroupFile) -> bool:
        try:
            return self._kernel.inode(file.controller, file.group) == self._theirs[file]
        except OSError:
            return False

    def _let_go(self, groups: set[str]) -> list[Receipt]:
        """Put back what is wished for no more."""
        self._wished = {group: files for group, files in self._wished.items() if group in groups}
        self._due = {group: due for group, due in self._due.items() if group in groups}
        for name, known in self._receipts.items():
            self._receipts[name] = {group: receipts for group, receipts in known.items() if group in groups}
        self._theirs = {file: inode for file, inode in self._theirs.items() if file.group in groups or self._same_group(file)}
        wished = {file for files in self._wished.values() for file in files}
        return self._hands.put_back([each for each in self._hands.ledger.entries.values() if each.protects and each.file not in wished])

    def _stand(self) -> tuple[Knob, ...]:
        return tuple(self._knob(name) for name in (WEIGHT, BURST, LOW))

    def _knob(self, name: str) -> Knob:
        on = self._standing.memory_low if name == LOW else self._standing.services
        if self._basis is None or not on:
            setting = "memory" if name == LOW else "services"
            return Knob(name, KnobState.OFF, f"isolation.{setting} is off, or NodeQOSResource does not enforce")
        if name == LOW and self._kernel.version("memory") != 2:
            return Knob(name, KnobState.IMPOSSIBLE, "cgroup v1 protects no group's memory")
        receipts = [receipt for each in self._receipts[name].values() for receipt in each]
        theirs = [str(file) for file in self._theirs if _knob_name(file) == name]
        if not receipts:
            nothing = {
                WEIGHT: "no LS group has a request above its own weight",
                BURST: "no LS group has a limit",
                LOW: "no LS group asks for memory",
            }
            return Knob(name, KnobState.WAITING, f"{nothing[name]}{_left(theirs)}")
        refused = [receipt for receipt in receipts if receipt.result in (Result.REFUSED, Result.FAILED)]
        if refused:
            return knob_of(name, refused)
        return Knob(name, KnobState.IN_FORCE, f"{counted(len(receipts), 'group')}{_left(theirs)}")


def _left(theirs: list[str]) -> str:
    return f"; left to somebody else: {', '.join(sorted(theirs)[:3])}" if theirs else ""


def _knob_name(file: CgroupFile) -> str:
    if file.name == MEMORY_LOW_NAME:
        return LOW
    return BURST if "burst" in file.name else WEIGHT


def _services(placement: Placement) -> dict[str, Workload]:
    """Return the LS pods whose groups are not kubelet's, by group."""
    return {
        each.cgroup: each
        for each in placement.workloads.values()
        if is_latency_sensitive(each.qos) and each.cgroup not in placement.kubelet_pods
    }


def _protected(services: Mapping[str, Workload]) -> dict[str, int]:
    """Return the memory to be protected, in bytes: of each LS group its request, of each group above the sum of those below, for a group
    gets no more protection than those above it have."""
    found: dict[str, int] = {}
    for group, workload in services.items():
        low = (workload.memory_request or 0) // _PAGE * _PAGE
        if low:
            parts = group.split("/")
            for depth in range(1, len(parts) + 1):
                above = "/".join(parts[:depth])
                found[above] = found.get(above, 0) + low
    return found
