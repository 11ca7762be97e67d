"""What the sampler needs from the edge: raw counters of the node and of groups, and the tree of groups (specification, section 3).

Counters only ever rise while their source lives; the sampler makes rates of them. A quantity that could not be read is None, and
`missing` says why.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from msgspec import Struct

from qosmanager.model.snapshot import CpuId


class GroupGoneError(Exception):
    """The group has ended since it was opened: normal, and no error."""


class Link(NamedTuple):
    """A network link: bytes received and sent since some beginning, and its speed in bytes/s (None: unknown)."""

    received: int
    sent: int
    speed: float | None


class Stall(NamedTuple):
    """One line of a pressure file: avg10 in percent, total in seconds since some beginning."""

    avg10: float
    total: float


class NodeCounters(Struct, frozen=True, kw_only=True):
    """The node at one moment. CPU times in core-seconds since some beginning, memory in bytes, stall averages in percent.

    `cpu_total` is the time of all states together; iowait, softirq and steal are shares of it. `disks` holds the busy seconds of each
    real disk, `links` the physical network links. `missing` maps a field of `Node` to the reason why it cannot be told.
    """

    cpus: float
    cpu_busy: float
    topology: tuple[CpuId, ...] = ()
    cpu_total: float | None = None
    iowait: float | None = None
    softirq: float | None = None
    steal: float | None = None
    context_switches: int | None = None
    load1: float | None = None
    memory_total: int | None = None
    memory_available: int | None = None
    swap_total: int | None = None
    swap_used: int | None = None
    pgscan_direct: int | None = None
    pgscan_kswapd: int | None = None
    cpu_psi_some: float | None = None
    cpu_psi_full: float | None = None
    memory_psi_some: float | None = None
    memory_psi_full: float | None = None
    io_psi_some: float | None = None
    io_psi_full: float | None = None
    disks: dict[str, float] = {}
    links: dict[str, Link] = {}
    missing: dict[str, str] = {}


class NodeReader(Protocol):
    """The node: this machine, or one cgroup of it."""

    def read(self) -> NodeCounters:
        """Raise OSError or ValueError when what everything rests on (CPU time, CPUs) cannot be read."""


class CpuCounters(NamedTuple):
    """A group's CPU time in core-seconds, and its periods under a quota and how many of them were throttled (None: not known)."""

    usage: float
    periods: int | None
    throttled: int | None


class IoCounters(NamedTuple):
    """Bytes read and written since some beginning."""

    read: int
    written: int


class GroupReader(Protocol):
    """One group, with its files kept open.

    Every method raises GroupGoneError when the group has ended, and OSError or ValueError when it cannot be read; the text is fit to be
    shown as the reason.
    """

    def cpu(self) -> CpuCounters: ...

    def throttling(self) -> tuple[int, int]:
        """Periods and throttled periods only."""

    def quota(self) -> float:
        """The CPU limit that the kernel holds, in cores; infinity: unlimited."""

    def weight(self) -> float | None:
        """The CPU request in cores that the weight stands for, as kubelet writes it (shares / 1024); None: the smallest weight."""

    def held_memory(self) -> int:
        """Anonymous memory, shmem and swap, in bytes, of the group and all below it."""

    def memory_limit(self) -> int | None:
        """Bytes; None: unlimited."""

    def cpuset(self) -> tuple[int, ...]:
        """The CPUs the group asked for; empty: it asked for none."""

    def cpu_stall(self) -> Stall:
        """The `some` line of the group's own CPU pressure."""

    def stall_averages(self) -> tuple[float, float]:
        """avg10 in percent of memory full and io some."""

    def io(self) -> IoCounters: ...

    def close(self) -> None: ...


class GroupReaders(Protocol):
    """Opens groups. Never fails: what is wrong with a group shows when it is read."""

    def open(self, group: str) -> GroupReader: ...


class CpuGrants(Struct, frozen=True, kw_only=True):
    """What kubelet's CPU manager has given away. `static`: its policy is the one that gives CPUs to single pods and writes the cpusets of
    all other containers itself; `by_uid`: the CPUs that are a pod's alone; `problem`: why nothing is known, else ""."""

    static: bool = False
    by_uid: dict[str, tuple[int, ...]] = {}
    problem: str = ""


class CpuManager(Protocol):
    """kubelet's CPU manager."""

    def grants(self) -> CpuGrants:
        """What is given away now; the same object while nothing has changed. Never fails."""


class GroupTree(Protocol):
    """The tree of groups, in one hierarchy that holds all of them. Links are never followed; "" is the root."""

    @property
    def root(self) -> str:
        """Where the tree is, for people."""

    def children(self, group: str) -> dict[str, tuple[int, int]]:
        """Names of the groups right below, sorted, each with its identity; empty when the group is not there."""

    def identity(self, group: str) -> tuple[int, int] | None:
        """Inode and link count (which changes when a group below appears or goes); None: not there."""

    def created(self, group: str) -> float | None:
        """Epoch seconds."""

    def has_processes(self, group: str) -> bool:
        """Whether processes sit in the group itself, not below it."""
