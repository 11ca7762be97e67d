"""Everything the agent can do, as one tagged union, and what came of it (specification, sections 8, 9 and 10)."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from qosmanager.model.qos import Level, Mode, Plugin


class Basis(Struct, frozen=True, kw_only=True):
    """Fields of every action: who decided it, why (with the numbers), and whether it is to be done or only reported."""

    plugin: Plugin
    reason: str
    mode: Mode = Mode.ENFORCE


class SetCpuLimit(Basis, frozen=True, kw_only=True, tag="set_cpu_limit", tag_field="kind"):
    """Raise an LS pod's CPU limit to `cores` for a burst; `base` is the pod's own limit."""

    pod: str
    cores: float
    base: float


class RestoreCpuLimit(Basis, frozen=True, kw_only=True, tag="restore_cpu_limit", tag_field="kind"):
    """End a burst: write the pod's own limit (`cores`) back."""

    pod: str
    cores: float


class SetBeCpuLimit(Basis, frozen=True, kw_only=True, tag="set_be_cpu_limit", tag_field="kind"):
    """Hold all BE together at `cores`."""

    cores: float


class RestoreBeCpuLimit(Basis, frozen=True, kw_only=True, tag="restore_be_cpu_limit", tag_field="kind"):
    """Put the BE groups' own CPU limits (quotas) back."""


class SetBeCpuset(Basis, frozen=True, kw_only=True, tag="set_be_cpuset", tag_field="kind"):
    """Hold all BE on these CPUs, in the kernel's list format ("0-3,8"); never empty."""

    cpus: str


class RestoreBeCpuset(Basis, frozen=True, kw_only=True, tag="restore_be_cpuset", tag_field="kind"):
    """Put the BE groups' own cpusets back: CPUSuppress is off, or its policy is no longer `cpuset`."""


class Evict(Basis, frozen=True, kw_only=True, tag="evict", tag_field="kind"):
    """End a BE pod. `grace` caps the pod's own grace period (seconds); `cpu` and `memory` are what it is expected to free."""

    pod: str
    uid: str = ""
    grace: float | None = None
    cpu: float | None = None
    memory: int | None = None
    leaking: bool = False  # marked, so that a person decides before it comes back
    growth: float | None = None  # bytes/min, of one that leaks


Action = SetCpuLimit | RestoreCpuLimit | SetBeCpuLimit | RestoreBeCpuLimit | SetBeCpuset | RestoreBeCpuset | Evict

KINDS: dict[type[Basis], str] = {
    SetCpuLimit: "set_cpu_limit",
    RestoreCpuLimit: "restore_cpu_limit",
    SetBeCpuLimit: "set_be_cpu_limit",
    RestoreBeCpuLimit: "restore_be_cpu_limit",
    SetBeCpuset: "set_be_cpuset",
    RestoreBeCpuset: "restore_be_cpuset",
    Evict: "evict",
}


class Refusal(Struct, frozen=True):
    """Something a plugin did not do, and the rule and numbers behind that. `pod` None: about all of BE."""

    plugin: Plugin
    pod: str | None
    rule: str
    reason: str


class PluginFailure(Struct, frozen=True):
    """A plugin that raised; the rest of its cycle only tightens and evicts nobody."""

    plugin: Plugin
    error: str


class Standing(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Standing properties, kept by the executor and no actions of a plan: BE at the smallest weight or idle, BE processes first to be
    killed by the kernel, the CPUs that no BE cpuset may hold; and what `isolation` adds."""

    be_weight: bool = False
    oom_score_adj: int | None = None
    exclusive_cpus: tuple[int, ...] = ()
    be_idle: bool = False  # instead of the weight, where the kernel has it
    services: bool = False  # LS groups have a weight by request and a kernel burst of one limit
    memory_low: bool = False  # LS groups keep memory up to their request
    be_memory_high: int | None = None  # bytes that BE may hold before the kernel takes some back; None: no bound
    be_io_weight: bool = False
    be_io_limit: int | None = None  # bytes/s, of each device and direction; None: no limit


class KnobState(Enum):
    """How a knob of the kernel stands: in force; not, for there is nothing to do for it now; refused by the kernel or spoilt by somebody
    else; not on this machine or for this layout; switched off."""

    IN_FORCE = "in force"
    WAITING = "not in force"
    REFUSED = "refused"
    IMPOSSIBLE = "not possible"
    OFF = "off"


class Knob(Struct, frozen=True):
    """One standing property as it stands in the kernel, and why."""

    name: str
    state: KnobState
    detail: str


class Resources(Struct, frozen=True, kw_only=True):
    """What NodeQOSResource and SystemQOSResource found: cores and bytes."""

    cpus: float
    node_available: float
    system_reserved: float
    system_usage: float | None
    ls_request: float
    exclusive_cpus: float
    be_allowance: float  # what is left of node_available beside the LS requests
    memory_total: int | None = None
    memory_reserved: int = 0
    be_memory: int | None = None  # what is left of the memory beside the reservation and the LS requests; None: total not known


class Plan(Struct, frozen=True, kw_only=True):
    """The actions of one cycle in the order in which they are to be done, and what was refused."""

    actions: tuple[Action, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    failures: tuple[PluginFailure, ...] = ()
    standing: Standing = Standing()
    resources: Resources | None = None
    level: Level = Level.LOW
    raised: tuple[str, ...] = ()  # LS pods whose limit is to be raised once the plan is done; what else is raised goes back
    degraded: tuple[str, ...] = ()


class Result(Enum):
    """What became of one write or eviction (section 9)."""

    APPLIED = "applied"
    UNCHANGED = "unchanged"
    DRIFTED = "drifted"
    GONE = "gone"
    REFUSED = "refused"
    FAILED = "failed"
    RECORDED = "recorded"  # dry run or observe: nothing was done


class Receipt(Struct, frozen=True, kw_only=True):
    """The executor's answer. `action` indexes the plan's actions; None: a standing property or drift.

    `target` is a kernel file or a pod's key; `before` and `after` are the file's texts where there is one. `uid`: of the victim whose end
    this is, for another pod may have its name by then; "": it has none, or was not told (recordings of older versions).
    """

    target: str
    result: Result
    action: int | None = None
    pod: str | None = None  # key of the pod it is about; None: all of BE, or the node
    before: str | None = None
    after: str | None = None
    detail: str = ""
    uid: str = ""


class Verdict(Enum):
    """How an action turned out in the cycles after it (section 10)."""

    EFFECTIVE = "effective"
    PENDING = "pending"
    INEFFECTIVE = "ineffective"
    OVERWRITTEN = "overwritten"
    GONE = "gone"


class Outcome(Struct, frozen=True, kw_only=True):
    """The verdict on an earlier action; `since` is the time of the action, `detail` the numbers behind the verdict."""

    plugin: Plugin
    kind: str
    target: str
    verdict: Verdict
    since: float | None
    detail: str
