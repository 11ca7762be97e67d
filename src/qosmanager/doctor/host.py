"""What was found on the node, before anybody judges it."""

from __future__ import annotations

from msgspec import Struct


class Trial(Struct, frozen=True):
    """Something that was tried: `ok` None: it was not, and `detail` says why; else what came of it."""

    ok: bool | None
    detail: str = ""


class Kubelet(Struct, frozen=True, kw_only=True):
    """`static`: its CPU policy gives CPUs to single pods (None: not readable). `eviction`: thresholds by signal, as configured ("hard
    memory.available": "100Mi"); empty with a `problem` where they cannot be read."""

    static: bool | None
    eviction: dict[str, str] = {}
    problem: str = ""


class Host(Struct, frozen=True, kw_only=True):
    """One look at a node. Sizes in bytes; `versions`: cgroup version of each controller, None: not there."""

    kernel: str
    root: bool
    cgroup_root: str
    versions: dict[str, int | None]
    cgroup_problem: str = ""
    writes: dict[str, Trial] = {}  # "cpu", "cpuset", "memory": a limit written in a group of the doctor's own
    knobs: dict[str, Trial] = {}  # of isolation: what else was written there, by the setting that wants it ("services: kernel burst")
    node_stall: Trial = Trial(None)
    group_stall: Trial = Trial(None)
    stall_trigger: Trial = Trial(None)  # the kernel wakes us when a group stalls, with a window of half a second
    memory_total: int | None = None
    swap_total: int | None = None
    kubelet: Kubelet | None = None  # None: no kubelet here
    foreign: str | None = None
    synchronised: bool | None = None  # the wall clock
    clock_source: str = ""
    state_dir: str = ""
    state_filesystem: str = ""
    state_write: Trial = Trial(None)
    open_files: int = 0  # the hard limit
    oom_score: Trial = Trial(None)
    systemd: bool = False
