"""Standing properties of the group that holds all BE: weight or idle, memory.high, I/O weight and limit (specification, section 5.1).

In: what is to stand, which group it is. Out: receipts, and how each knob stands. Looked at when something changes, and every 10 s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

from msgspec import Struct

from qosmanager.execute.dialect import (
    DEFAULT_WEIGHT,
    IDLE_NAME,
    IDLE_WEIGHT,
    IO_LIMIT_NAMES,
    IO_WEIGHT_NAMES,
    MEMORY_HIGH_NAME,
    SMALLEST_WEIGHT,
    UNBOUNDED_IO,
    WEIGHT_NAMES,
    idle_file,
    io_file,
    io_limits,
    io_limits_text,
    memory_file,
    weight_file,
)
from qosmanager.execute.family import Family, Hands, Wish
from qosmanager.execute.tree import below
from qosmanager.execute.writing import Trouble, read
from qosmanager.model.actions import Knob, KnobState, Receipt, Result, Standing
from qosmanager.model.workload import CgroupFile, Placement

CPU, MEMORY, IO_WEIGHT, IO_LIMIT, SYSTEM = "BE CPU weight", "BE memory.high", "BE I/O weight", "BE I/O limit", "system weight"
_LOOK = 10.0  # seconds
_SMALLEST_IO_WEIGHT = "1"
_V1_LIMITS = ("blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device")
_NOT_ZERO = re.compile("[1-9]")
_LEAST_PART = 65536  # bytes/s
_SYSTEM_GROUPS = ("system.slice", "system.slice/kubelet.service")
_NO_PARENT = "BE has no group of its own that holds nothing else"


class Disks(Protocol):
    """The disks of this machine."""

    def weighing(self) -> bool:
        """Whether the scheduler of one of them goes by the weights of groups."""


class _Basis(Struct, frozen=True):
    """All that decides what is to be written."""

    standing: Standing
    parent: str | None
    kubelet_owned: bool


class BatchKnobs:
    """Keeps them up; `knobs` says how they stand."""

    def __init__(self, hands: Hands, disks: Disks | None) -> None:
        self._hands = hands
        self._kernel = hands.kernel
        self._disks = disks
        self._basis: _Basis | None = None
        self._due = 0.0
        self._standing: dict[str, Knob] = {}
        self.knobs: tuple[Knob, ...] = ()  # as last looked at; asked for by other threads too

    def forget(self) -> None:
        """Have everything looked at again: a file was found changed."""
        self._basis = None

    def keep(self, standing: Standing, placement: Placement, now: float) -> list[Receipt]:
        """Write what is to stand, and put back what no longer is."""
        basis = _Basis(standing, placement.be_parent, placement.kubelet_owned)
        if basis == self._basis and now < self._due:
            return []
        self._basis, self._due = basis, now + _LOOK
        receipts = self._keep_cpu(basis)
        receipts += self._keep(MEMORY, frozenset({MEMORY_HIGH_NAME}), self._memory(basis))
        receipts += self._keep(IO_WEIGHT, IO_WEIGHT_NAMES, self._io_weight(basis))
        receipts += self._keep(IO_LIMIT, IO_LIMIT_NAMES, self._io_limit(basis))
        self._look_at_system(basis)
        self.knobs = tuple(self._standing.values())
        return receipts

    # -- CPU -----------------------------------------------------------------------------------------------------------------

    def _keep_cpu(self, basis: _Basis) -> list[Receipt]:
        found = self._cpu(basis)
        if isinstance(found, Knob | Receipt):
            receipts = [found] if isinstance(found, Receipt) else []
            self._note(CPU, found)
            return receipts + self._hands.let_go(WEIGHT_NAMES | {IDLE_NAME}, ())
        # What made it idle goes before a weight is written, which the kernel refuses while it is.
        receipts = self._hands.let_go(frozenset({IDLE_NAME}), (found,))
        written = self._hands.carry_out([found])
        self._note(CPU, written)
        return receipts + written + self._hands.let_go(WEIGHT_NAMES, (found,))

    def _cpu(self, basis: _Basis) -> Family | Knob | Receipt:
        version, parent, standing = self._kernel.version("cpu"), basis.parent, basis.standing
        if not standing.be_weight and not standing.be_idle:
            return Knob(CPU, KnobState.OFF, "isolation.cpu is off, or NodeQOSResource does not enforce")
        if version is None or parent is None:
            return Knob(CPU, KnobState.IMPOSSIBLE, "no cpu controller" if version is None else _NO_PARENT)
        if basis.kubelet_owned:
            return Knob(CPU, KnobState.IMPOSSIBLE, f"{parent} is kubelet's, which gives it the smallest weight itself")
        weight = weight_file(version, parent)
        idle = read(self._kernel, idle_file(parent))  # older kernels have none
        if standing.be_idle and isinstance(idle, str):
            now = read(self._kernel, weight)
            # The weight is ours too, whatever it is: it is lost when the group is busy again.
            original = now if isinstance(now, str) else None
            return Family(wishes=(Wish(weight, IDLE_WEIGHT[version], original), Wish(idle_file(parent), "1")))
        if idle == "1" and idle_file(parent) not in self._hands.ledger.entries:
            return Receipt(target=str(weight), result=Result.REFUSED, detail="cpu.idle is 1: weaker than any weight already")
        return Family(wishes=(Wish(weight, SMALLEST_WEIGHT[version]),))

    def _look_at_system(self, basis: _Basis) -> None:
        """What the machine itself runs in keeps its weight while BE makes way; that is seen to by nobody here, and told."""
        version = self._kernel.version("cpu")
        if version is None or self._standing[CPU].state is KnobState.OFF:
            self._standing[SYSTEM] = Knob(SYSTEM, KnobState.OFF, "BE's weight is not ours")
            return
        shown, squeezed = [], False
        for group in _SYSTEM_GROUPS:
            weight = read(self._kernel, weight_file(version, group))
            if isinstance(weight, str) and group != basis.parent:
                idle = read(self._kernel, idle_file(group)) == "1"
                squeezed |= idle or int(weight) < int(DEFAULT_WEIGHT[version])
                shown.append(f"{group} {'is idle' if idle else f'has {weight}'}")
        text = f"{', '.join(shown) or 'no system.slice here'}; the default is {DEFAULT_WEIGHT[version]}"
        state = KnobState.REFUSED if squeezed else KnobState.IN_FORCE if shown else KnobState.IMPOSSIBLE
        self._standing[SYSTEM] = Knob(SYSTEM, state, f"{text}; somebody lowered it, it is left as it is" if squeezed else text)

    # -- memory and I/O ------------------------------------------------------------------------------------------------------

    def _memory(self, basis: _Basis) -> Family | Knob:
        standing, parent = basis.standing, basis.parent
        if not standing.memory_low:
            return Knob(MEMORY, KnobState.OFF, "isolation.memory is off, or NodeQOSResource does not enforce")
        if self._kernel.version("memory") != 2:
            return Knob(MEMORY, KnobState.IMPOSSIBLE, "cgroup v1 has no memory.high; its soft limit acts only when the whole node is short")
        if parent is None:
            return Knob(MEMORY, KnobState.IMPOSSIBLE, _NO_PARENT)
        if standing.be_memory_high is None:
            return Knob(MEMORY, KnobState.WAITING, "memory is not short")
        return Family(wishes=(Wish(memory_file(parent, MEMORY_HIGH_NAME), str(standing.be_memory_high)),))

    def _io_weight(self, basis: _Basis) -> Family | Knob:
        version, parent = self._kernel.version("blkio"), basis.parent
        if not basis.standing.be_io_weight:
            return Knob(IO_WEIGHT, KnobState.OFF, "isolation.io is off, or NodeQOSResource does not enforce")
        if version is None or parent is None:
            return Knob(IO_WEIGHT, KnobState.IMPOSSIBLE, "no I/O controller" if version is None else _NO_PARENT)
        bfq = self._disks is not None and self._disks.weighing()
        names = ("blkio.bfq.weight", "blkio.weight") if version == 1 else ("io.bfq.weight@default",)
        candidates = list(names) if bfq else []
        if version == 2 and self._has_cost_model():
            candidates.append("io.weight@default")
        for name in candidates:
            file = io_file(parent, name)
            if isinstance(read(self._kernel, file), str):
                return Family(wishes=(Wish(file, _SMALLEST_IO_WEIGHT),))
        return Knob(IO_WEIGHT, KnobState.IMPOSSIBLE, "no disk here has a scheduler that goes by weights (bfq, or io.cost on v2)")

    def _has_cost_model(self) -> bool:
        text = read_any(self._hands, io_file("", "io.cost.qos"))
        return any("enable=1" in line for line in text.splitlines())

    def _io_limit(self, basis: _Basis) -> Family | Knob:
        version, parent, limit = self._kernel.version("blkio"), basis.parent, basis.standing.be_io_limit
        if not basis.standing.be_io_weight:
            return Knob(IO_LIMIT, KnobState.OFF, "isolation.io is off, or NodeQOSResource does not enforce")
        if version is None or parent is None:
            return Knob(IO_LIMIT, KnobState.IMPOSSIBLE, "no I/O controller" if version is None else _NO_PARENT)
        if limit is None:
            return Knob(IO_LIMIT, KnobState.WAITING, "no service waits for I/O so that it calls for one")
        wishes = list(self._shared(parent, limit) if version == 1 else self._held(parent, limit))
        if not wishes:
            return Knob(IO_LIMIT, KnobState.WAITING, "BE has used no disk")
        return Family(wishes=tuple(wishes))

    def _shared(self, parent: str, limit: int) -> Iterator[Wish]:
        """v1: a group's limit does not hold the groups below it, so each that has used a disk gets an equal part."""
        groups = (parent, *below(self._kernel, "blkio", parent))
        used = {group: devices for group in groups if (devices := self._devices(group, "blkio.throttle.io_service_bytes"))}
        part = max(_LEAST_PART, limit // max(1, len(used)))
        for group, devices in used.items():
            for file in (io_file(group, name, device) for device in devices for name in _V1_LIMITS):
                own = int(self._original(file, "0"))
                yield Wish(file, str(min(own, part) if own else part))

    def _held(self, parent: str, limit: int) -> Iterator[Wish]:
        """v2: one limit for all below, each disk in both directions; never looser than what somebody else has set."""
        for device in self._devices(parent, "io.stat"):
            file = io_file(parent, "io.max", device)
            own = io_limits(file, self._original(file, UNBOUNDED_IO))
            held = {name: min(value, float(limit)) if name.endswith("bps") else value for name, value in own.items()}
            yield Wish(file, io_limits_text(held))

    def _devices(self, group: str, name: str) -> list[str]:
        """Return the disks that a group has used, by their numbers."""
        lines = (line.partition(" ") for line in read_any(self._hands, io_file(group, name)).splitlines())
        # A disk that only groups below have used is there too, with zeros.
        return sorted({first for first, _, counts in lines if ":" in first and _NOT_ZERO.search(counts)})

    def _original(self, file: CgroupFile, otherwise: str) -> str:
        entry = self._hands.ledger.entries.get(file)
        if entry is not None:
            return entry.original
        text = read(self._kernel, file)
        return otherwise if isinstance(text, Trouble) else text

    # -- how they stand ------------------------------------------------------------------------------------------------------

    def _keep(self, name: str, files: frozenset[str], found: Family | Knob) -> list[Receipt]:
        if isinstance(found, Knob):
            self._note(name, found)
            return self._hands.let_go(files, ())
        receipts = self._hands.carry_out([found])
        self._note(name, receipts)
        return receipts + self._hands.let_go(files, (found,))

    def _note(self, name: str, found: Knob | Receipt | list[Receipt]) -> None:
        self._standing[name] = found if isinstance(found, Knob) else knob_of(name, [found] if isinstance(found, Receipt) else found)


def knob_of(name: str, receipts: list[Receipt]) -> Knob:
    """Tell how a knob stands by what became of its files."""
    for receipt in receipts:
        if receipt.result in (Result.REFUSED, Result.FAILED):
            return Knob(name, KnobState.REFUSED, f"{receipt.target}: {receipt.detail}")
    there = [receipt for receipt in receipts if receipt.result is not Result.GONE]
    if not there:
        return Knob(name, KnobState.WAITING, "its group is gone")
    return Knob(name, KnobState.IN_FORCE, ", ".join(f"{receipt.target} {receipt.after}" for receipt in there))


def read_any(hands: Hands, file: CgroupFile) -> str:
    """Return a file's text as it is; "" where there is none."""
    try:
        return hands.kernel.read(file)
    except OSError:
        return ""
