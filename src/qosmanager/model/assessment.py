"""What the readings mean: scores with their terms, the matrix, OOM risk, the SLO signal (specification, section 4)."""

from __future__ import annotations

from msgspec import Struct

from qosmanager.model.qos import Level, MatrixAction, Slo


class Factor(Struct, frozen=True, kw_only=True):
    """One term of a score. `points` as counted, after the cap and any scaling; None: left out, `note` says why.

    `inputs` are the readings it was computed from (None: not measured).
    """

    name: str
    points: float | None
    cap: float
    inputs: dict[str, float | None]
    note: str = ""


class Pressure(Struct, frozen=True, kw_only=True):
    """A score 0 to 100, its level and the factors that sum up to it; `mean` is the smoothed score, None without smoothing."""

    score: float
    level: Level
    factors: tuple[Factor, ...]
    mean: float | None = None


class MatrixInputs(Struct, frozen=True, kw_only=True):
    """Usage percents (not scores), the CPU trend in points per minute, and whether some LS pod's latency rises."""

    cpu_percent: float
    memory_percent: float
    cpu_trend: float
    latency_rising: bool
    without_be: bool = False  # what BE uses is left out of cpu_percent


class Matrix(Struct, frozen=True):
    """First matching row of the decision matrix, and what it was matched with."""

    priority: Level
    action: MatrixAction
    inputs: MatrixInputs


class OomRisk(Struct, frozen=True, kw_only=True):
    """Whether memory is about to run out; `reasons` names each condition that holds, `forecast` is seconds until it is gone."""

    present: bool
    reasons: tuple[str, ...] = ()
    forecast: float | None = None


class Suffering(Struct, frozen=True, kw_only=True):
    """An LS pod that is worse off than it bears, by its `measure`: p99 (`value` and `bound` in seconds, the SLO) or stall (shares of its
    running time). `elsewhere` says why BE is not the cause; empty: it may be."""

    pod: str
    measure: str
    value: float
    bound: float
    elsewhere: str = ""

    @property
    def severity(self) -> float:
        """By how much the value is above the bound, as a share of it."""
        return self.value / self.bound - 1


class Wellbeing(Struct, frozen=True, kw_only=True):
    """How the LS pods fare (strategy `slo`, section 13). `slack` is that of the pod that has least, 1 (all of it) to 0; `unjudged` are the
    pods that nothing tells it of."""

    suffering: tuple[Suffering, ...] = ()
    slack: float = 1.0
    unjudged: tuple[str, ...] = ()

    @property
    def caused(self) -> tuple[Suffering, ...]:
        """Those that BE may be the cause of."""
        return tuple(each for each in self.suffering if not each.elsewhere)


class Leak(Struct, frozen=True, kw_only=True):
    """A pod whose memory grows over three 10-minute windows by `growth` bytes/min, and in how many `seconds` that has used up its own
    limit, or what the node has available (None: neither is known, or it is warming up: its growth has halved).

    `earliest` and `latest` are the same at the faster and the slower of its two rises, `confidence` is the slower as a share of the
    faster (1: steady); None: the two are not known.
    """

    pod: str
    growth: float
    seconds: float | None = None
    earliest: float | None = None
    latest: float | None = None
    confidence: float | None = None
    own_limit: bool = False
    warming_up: bool = False


class Assessment(Struct, frozen=True, kw_only=True):
    """The whole judgement of one snapshot.

    `raw_level` is that of this moment, `steady_level` the one a rise goes to (medians of 3 s below CRITICAL), `effective_level`
    the one BE is held at. `guard`: the CPU score without BE, which decides with strategies that have BE make way; None: `cpu` does.
    """

    cpu: Pressure
    memory: Pressure
    io: Pressure
    matrix: Matrix
    raw_level: Level
    steady_level: Level
    effective_level: Level
    slo: Slo
    oom: OomRisk
    latency_rising: tuple[str, ...] = ()  # keys of the LS pods whose latency rises
    slo_violated_by: tuple[str, ...] = ()  # keys of the LS pods above their SLO
    guard: Pressure | None = None
    leaks: tuple[Leak, ...] = ()
    wellbeing: Wellbeing | None = None  # None: the strategy is not `slo`

    @property
    def deciding(self) -> Pressure:
        """The CPU score that levels and evictions go by."""
        return self.cpu if self.guard is None else self.guard
