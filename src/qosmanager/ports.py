"""What the core needs from outside, as Protocols. Implementations stand in linux/ (and in the tests, over real files)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from qosmanager.model.actions import Evict
from qosmanager.model.pause import Pause
from qosmanager.model.snapshot import PodLatency, Snapshot
from qosmanager.model.workload import CgroupFile, Placement, Workload


class Clock(Protocol):
    """Time. Rates and timers use `monotonic`; `wall` is for people and for creation times."""

    def monotonic(self) -> float: ...

    def wall(self) -> float: ...


class Readings(Protocol):
    """The node as measured now (section 3)."""

    def sample(self) -> tuple[Snapshot, Placement]: ...


class Pauses(Protocol):
    """Whether a person has paused the agent (section 2); asked once a cycle, so it must be cheap."""

    def current(self) -> Pause | None: ...


class Earlier(Struct, frozen=True):
    """A group's counters `age` seconds ago: CPU seconds used (None: not read then), and seconds in which some task waited."""

    age: float
    used: float | None
    stalled: float


class Jump(Struct, frozen=True, kw_only=True):
    """What cannot wait for the next cycle: the pods (keys) that are out of their habit, each as it was just before, and why. `urgent`:
    whatever such cycles have cost so far."""

    pods: Mapping[str, Earlier]
    reason: str
    urgent: bool = False


class AlarmCost(Struct, frozen=True, kw_only=True):
    """What listening has cost so far: `reads` of stall files, `seconds` of CPU."""

    reads: int = 0
    seconds: float = 0.0


class MemoryGuard(Struct, frozen=True):
    """Available memory of the node in bytes: as the last cycle `seen` it, and the `level` below which its fall is no matter of waiting."""

    level: float
    seen: int

    def is_broken(self, available: int) -> bool:
        """Tell whether it is below the level and has fallen by more than an eighth of that."""
        return available < self.level and self.seen - available > self.level / 8


class Alarm(Protocol):
    """Waits between cycles with an ear on the groups of the services, and an eye on memory."""

    def guard(self, memory: MemoryGuard | None, interval: float) -> None:
        """Look at the node's available memory each `interval` seconds from now on; None: no longer. Does nothing where it cannot."""

    def watch(self, groups: Mapping[str, str], interval: float) -> str:
        """Listen to these groups (by pod key) from now on, looking each `interval` seconds; to none where there are none. Returns how, for
        people; raises CannotListenError when none of them can be listened to."""

    def wait(self, seconds: float) -> Jump | None:
        """Wait so long at most, and return at once with what woke it; None: the time is over, or `wake` was called."""

    def wake(self) -> None:
        """End the wait that is going on, or else the next one, at once; from any thread or signal handler."""

    def cost(self) -> AlarmCost: ...

    def cpu_seconds(self) -> float:
        """CPU that the calling thread has used so far."""


class CannotListenError(Exception):
    """No group can be listened to; the text says why."""


class Shelf(Protocol):
    """One thing kept for the next start. Both raise OSError."""

    def load(self) -> bytes | None:
        """What is kept; None: nothing."""

    def store(self, data: bytes) -> None: ...


class OwnMeter(Protocol):
    """What this process itself uses; read once a cycle, so it must be cheap."""

    def read(self) -> tuple[float, int | None]:
        """CPU seconds used so far, and memory held now in bytes (None: not known)."""


class Latencies(Protocol):
    """The last known latency of each pod with a source; never blocks the cycle."""

    def watch(self, workloads: tuple[Workload, ...]) -> None: ...

    def latest(self, key: str) -> PodLatency | None: ...

    def problems(self) -> tuple[str, ...]:
        """Why sources cannot be asked now, for people."""

    def close(self) -> None:
        """Ask no more."""


class KeptFile(Protocol):
    """One file of one group, kept open until the object ends."""

    def read(self) -> str:
        """What it holds now. OSError (ENODEV, ENOENT): its group has ended, whatever has its name now."""


class KernelFiles(Protocol):
    """The cgroup files. Every method raises OSError with the kernel's errno; ENOENT and ENODEV mean the group is gone."""

    def identity(self) -> str:
        """Device and inode of the root: another tree, whatever its path, has another one."""

    def version(self, controller: str) -> int | None:
        """1 or 2; None: this controller cannot be used here."""

    def read(self, file: CgroupFile) -> str: ...

    def keep(self, file: CgroupFile, inode: int) -> KeptFile:
        """Open a file to be read again and again, of the group that has this inode. OSError (ENODEV, ENOENT): that one has ended."""

    def write(self, file: CgroupFile, text: str) -> None: ...

    def inode(self, controller: str, group: str) -> int: ...

    def children(self, controller: str, group: str) -> list[str]:
        """Names (not paths) of the groups right below, sorted."""

    def pids(self, controller: str, group: str) -> list[int]:
        """Processes of the group itself, not of those below it."""


class JournalEntry(Struct, frozen=True, kw_only=True):
    """An original and what we wrote over it. `written` holds the value in force and, around a write, the intended one."""

    file: CgroupFile
    inode: int
    original: str
    written: tuple[str, ...]
    pod: str | None = None  # key of the LS pod whose burst it is; None: it holds BE
    protects: bool = False  # a standing property of the LS pod, or (pod None) of a group above LS pods: neither a burst nor BE's


class OomEntry(Struct, frozen=True, kw_only=True):
    """oom_score_adj of one BE group's processes: `value` is ours, `original` that of processes born since."""

    group: str
    inode: int
    value: int
    original: int
    processes: dict[str, int] = {}  # "pid:starttime" -> original
    controller: str = ""  # the hierarchy of the inode and of the processes; "": the first one there is, as written by 0.1.0


class JournalRecord(Struct, frozen=True, kw_only=True):
    """The whole journal, rewritten by rename. `lease_until` is CLOCK_BOOTTIME seconds, renewed while the agent lives."""

    boot_id: str
    cgroup_root: str = ""  # `KernelFiles.identity` of the tree that the groups are in; "": not known
    entries: tuple[JournalEntry, ...] = ()
    oom: tuple[OomEntry, ...] = ()
    lease_until: float | None = None
    state: bytes | None = None  # the engine's state as JSON, so that a successor goes on where this one stopped
    be_limit: float | None = None  # cores at which BE is held
    be_cpus: str | None = None  # CPUs on which BE is held


class JournalError(Exception):
    """There is a journal and it cannot be used; the text says why and what to do. `boot_id` is that of the boot it speaks of, "" where
    that cannot be told."""

    def __init__(self, message: str, boot_id: str = "") -> None:
        super().__init__(message)
        self.boot_id = boot_id


class Journal(Protocol):
    """Durable memory of what was changed (tmpfs)."""

    def load(self) -> JournalRecord | None:
        """What is stored; None: nothing. Raises JournalError, for originals that are not known must not be taken for unchanged."""

    def save(self, record: JournalRecord) -> None: ...


class EvictionProgress(Struct, frozen=True):
    """`done`: no process is left. `error`: why it cannot be done."""

    done: bool
    error: str = ""


class Evictions(Protocol):
    """Ends pods. `begin` returns at once (an error text, or "" when it is under way); `poll` drives and reports. Once it has begun with
    another pod of the same name, no more is reported of the one before."""

    def begin(self, action: Evict, workload: Workload, now: float) -> str: ...

    def unsettled(self) -> frozenset[str]:
        """Keys of pods under way that would perhaps not go if this agent ended now."""

    def poll(self, now: float) -> dict[str, EvictionProgress]:
        """Progress by pod key; a pod that is reported done or failed is reported once."""
