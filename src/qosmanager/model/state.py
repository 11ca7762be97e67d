"""The engine's whole memory between two cycles; it round-trips through JSON (specification, sections 2, 8 and 10).

Times are seconds on the snapshot's clock. A person sets by hand what section 8 shows; the rest the engine keeps for itself.
"""

from __future__ import annotations

from msgspec import Struct

from qosmanager.model.qos import Level


class Burst(Struct, frozen=True, kw_only=True):
    """A raised LS limit that is in force. `started` None counts as long ago."""

    pod: str
    base_limit: float
    limit: float
    uid: str = ""
    started: float | None = None
    calm_since: float | None = None
    observed: bool = False  # decided in observe mode: not in the kernel


class Moment(Struct, frozen=True, kw_only=True):
    """What rules over the last seconds look back at: kept for 5 s."""

    time: float
    cpu_score: float
    cpu_percent: float | None = None
    system_usage: float | None = None
    demand: dict[str, float] = {}  # LS pod -> cores
    memory_available: int | None = None  # bytes
    ls_usage: float | None = None  # cores, where strategy `usage` goes by it; None: also while some LS pod is not measured


class Bucket(Struct, frozen=True, kw_only=True):
    """A slice of the smoothing window: sums of the scores and how many cycles they hold; one that came early counts for less than one."""

    start: float
    count: float
    cpu: float
    memory: float


class Pending(Struct, frozen=True, kw_only=True):
    """A victim that is not yet gone: counted as released, so that nobody else goes for the same shortage."""

    pod: str
    since: float | None
    uid: str = ""
    cpu: float = 0.0
    memory: int = 0


class Watch(Struct, frozen=True, kw_only=True):
    """An action whose effect is still to be seen; `before` is the reading it should change."""

    plugin: str
    kind: str
    target: str
    since: float | None
    uid: str = ""  # of the pod it is about
    value: float | None = None
    before: float | None = None
    pending: bool = False  # reported as pending already


class Squeeze(Struct, frozen=True, kw_only=True):
    """BE's memory.high in force, in bytes. `available`: the most that the node had available since; `gained`: when that last rose."""

    high: int
    moved: float
    available: int
    gained: float
    calm_since: float | None = None


class IoHold(Struct, frozen=True, kw_only=True):
    """BE's I/O limit in force, in bytes/s of each device and direction. `own`: what BE moved when it began. `severity`: how much services
    suffered when it began to fall (1: as much as is too much); None: it rises."""

    limit: int
    own: int
    moved: float
    severity: float | None = None


class IoLesson(Struct, frozen=True, kw_only=True):
    """What limits of BE's I/O have taught. `futile`: those after which nothing was better; until `borne_until` none begins for a severity
    that is not clearly above `borne`."""

    futile: int = 0
    borne_until: float | None = None
    borne: float = 0.0


class Objective(Struct, frozen=True, kw_only=True):
    """What strategy `slo` has learned (section 13). `calm`: LS pod -> the share of its running time that it waits without BE in its way.

    `wanted`: the LS pods' demand, in cores, that BE leaves room for: up at once, down slowly; `margin`: cores by which demand was seen to
    rise above that within a cycle. `ceiling`: cores at which BE was in the way last, as of `fell`. `severity`: how much the LS pods
    suffered when the limit began to fall for them (0.5: half above what they bear); None: it has not.
    """

    calm: dict[str, float] = {}
    wanted: float | None = None
    margin: float | None = None
    suffering_since: float | None = None
    fell: float | None = None  # when the limit last fell
    unsure: float | None = None  # cores: the limit that did not fit the node for a moment; None: it does
    ceiling: float | None = None
    severity: float | None = None
    relapses: float = 0.0  # falls soon after a rise; halved every 15 minutes
    futile: int = 0  # falls after which nothing was better
    borne_until: float | None = None  # until then nothing falls for a suffering of at most `borne`
    borne: float = 0.0
    roomy_since: float | None = None  # since when nobody suffers and there is room for more than the limit in force

    def of_services(self) -> Objective:
        """Return what was learned of the services alone: limits of another mode, or that were never in the kernel, have taught nothing."""
        return Objective(calm=self.calm, wanted=self.wanted, margin=self.margin)


class State(Struct, frozen=True, kw_only=True):
    """Whole memory of the engine. The empty state is a fresh start."""

    time: float | None = None  # of the last cycle
    be_limit: float | None = None  # cores in force for all BE; None: none, or unlimited
    be_cpus: str | None = None  # cpuset in force under policy cpuset; the quota then holds only below one core
    cpuset_refused: float | None = None  # when the CPUs could last not be set: the quota holds BE instead for a while
    be_observed: bool = False  # the BE limit was decided in observe mode: not in the kernel
    suppress_level: Level | None = None
    suppress_since: float | None = None
    below_since: float | None = None
    memory_short: bool = False
    cooldown_until: dict[str, float | None] = {}
    burst_cooldown_until: dict[str, float | None] = {}
    bursts: tuple[Burst, ...] = ()
    recent: tuple[Moment, ...] = ()
    smoothing: tuple[Bucket, ...] = ()
    system_usage: float | None = None  # last measured, 5 s mean
    score_above_since: float | None = None  # CPU score above CPUEvict's threshold
    evict_rounds: int = 0  # CPUEvict rounds since the SLO signal was last ok
    pending: tuple[Pending, ...] = ()
    victim_ended: float | None = None
    terminating_since: dict[str, float] = {}  # by the pod's identity, as
    unfit_since: dict[str, float] = {}  # BE pods that could not be evicted, since when
    last_move: int = 0  # of the BE limit: +1 rise, -1 fall
    reversals: tuple[float, ...] = ()
    oscillating: bool = False
    floor_since: float | None = None  # BE held at minCores since
    watches: tuple[Watch, ...] = ()
    objective: Objective = Objective()
    be_memory: Squeeze | None = None
    be_io: IoHold | None = None
    io_lesson: IoLesson = IoLesson()
