"""The situations that are compared, as data: who runs, how much is asked when, and which treatments are tried there.

Shares are of the whole node; a service's workers, one for each CPU, divide them among themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

CALM, SURGE = 0.4, 0.7
SECONDS = 6.0
LONG = 20.0
MIB = 1 << 20


@dataclass(frozen=True)
class Service:
    """An LS pod. `plan`: [second after the warm-up, share of the node]; `limit`: its own CPU limit as a share of the node."""

    name: str
    plan: tuple[tuple[float, float], ...]
    shape: str = "queue"
    work: float = 0.002  # seconds of CPU a request; for a periodic one the length of a beat
    request: float = CALM
    limit: float | None = None
    resident: int = 0
    slo: float | None = 0.05  # seconds, p99; None: it is not judged, it only takes CPU

    @property
    def judged(self) -> bool:
        return self.slo is not None


@dataclass(frozen=True)
class Treatment:
    """What is done to BE. `weight`, `idle`, `quota` (share of the node), `memory` (share of the node's), `disk` (bytes/s each
    of reads and writes): fixed settings of the kernel; `burst`: the service's own burst is set to its quota. `agent`: the
    configuration of an agent that runs."""

    name: str
    batch: bool = True
    by_itself: bool = False  # without the other services and without its own limit
    weight: bool = False
    idle: bool = False
    quota: float | None = None
    memory: float | None = None
    disk: int | None = None
    burst: bool = False
    agent: dict | None = None

    @property
    def static(self) -> bool:
        """A setting of the kernel that a person could have made once."""
        return self.weight or self.idle or any(each is not None for each in (self.quota, self.memory, self.disk))


@dataclass(frozen=True)
class Situation:
    """One comparison. `seconds` are measured, after a warm-up at each plan's first share (`settling`: a longer one); `pairs`: no more of
    them are worth their time; `asked`: run only when named. `disk`: a request is a read from the disk that batch uses, and batch is judged
    by its bytes.
    """

    name: str
    about: str
    services: tuple[Service, ...]
    rivals: tuple[Treatment, ...]  # fixed settings, and `slo`: run in every pair
    beside: tuple[Treatment, ...] = ()  # run in the first pairs, to be seen beside them
    growing: bool = False  # a BE process takes memory until none is left
    memory: int | None = None  # bytes of the node
    disk: bool = False
    seconds: float = SECONDS
    settling: float = 0.0
    asked: bool = False
    pairs: int = 100

    @property
    def treatments(self) -> tuple[Treatment, ...]:
        return self.rivals + self.beside


def slo(cpu: str) -> Treatment:
    """Strategy `slo` with all that isolation may do there, which is how it is recommended."""
    isolation = {"cpu": cpu, "services": cpu, "memory": "auto", "io": "auto"}
    return Treatment("slo", agent={"cpuSuppress": {"strategy": "slo"}, "isolation": isolation})


def others(cpu: str) -> tuple[Treatment, ...]:
    """The other strategies."""
    return tuple(Treatment(name, agent={"cpuSuppress": {"strategy": name}, "isolation": {"cpu": cpu}}) for name in ("pressure", "usage"))


def surging(high: float = SURGE, low: float = CALM) -> tuple[tuple[float, float], ...]:
    """Calm, a surge, calm again."""
    return ((0, low), (1.5, high), (4, low), (SECONDS, 0))


def surging_seldom(high: float = SURGE, low: float = CALM) -> tuple[tuple[float, float], ...]:
    """More calm before the surge than it lasts."""
    return ((0, low), (12, high), (16, low), (LONG, 0))


ALONE = Treatment("alone", batch=False, by_itself=True)
UNMANAGED = Treatment("unmanaged")
WEIGHT = Treatment("smallest weight", weight=True)
IDLE = Treatment("idle", idle=True)
LOW, MIDDLE = (Treatment(f"quota {share:g}", quota=share) for share in (0.15, 0.3))
SLO, SLO_ALONE = slo("auto"), slo("off")  # with the kernel's weights, and without them
BESIDE = (ALONE, UNMANAGED, *others("auto"))
BESIDE_ALONE = (ALONE, UNMANAGED, *others("off"))

SITUATIONS = (
    Situation(
        "contention, queue",
        "weights work: a service of 2 ms requests at 40 percent of the node, surging to 70",
        (Service("api", surging()),),
        (WEIGHT, SLO),
        (*BESIDE, IDLE, MIDDLE),
    ),
    Situation(
        "contention, periodic",
        "weights work: a service that works every 5 ms, 40 percent of the node, surging to 70",
        (Service("api", surging(), shape="periodic", work=0.005, slo=0.015),),
        (WEIGHT, SLO),
        (*BESIDE, IDLE, MIDDLE),
    ),
    Situation(
        "own limit",
        "the service surges to 70 percent of the node and its own limit is 55",
        (Service("api", surging(), limit=0.55),),
        (Treatment("idle, kernel burst", idle=True, burst=True), SLO),
        (*BESIDE, WEIGHT),
        pairs=5,
    ),
    Situation(
        "no weights",
        "BE stands beside the service with an equal weight that may not be changed; a surge of 4 s after 12 s of calm",
        (Service("api", surging_seldom()),),
        (LOW, MIDDLE, SLO_ALONE),
        BESIDE_ALONE,
        seconds=LONG,
    ),
    Situation(
        "requests taken",
        "the same, and the services' requests take the whole node",
        (Service("api", surging_seldom(), request=1.0),),
        (LOW, MIDDLE, SLO_ALONE),
        others("off"),
        seconds=LONG,
        pairs=10,
    ),
    Situation(
        "surge beyond the node",
        "an equal weight that may not be changed; the service surges to 105 percent of the node",
        (Service("api", surging(1.05)),),
        (LOW, SLO_ALONE),
        (*BESIDE_ALONE, MIDDLE),
        pairs=8,
    ),
    Situation(
        "several services",
        "a service that asked for 80 percent of the node and needs 60 in its surges, beside one that asked for 20 and takes all it can get",
        (
            Service("api", surging(0.6, 0.3), request=0.8),
            Service("other", ((0, 1.0), (SECONDS, 0)), shape="periodic", work=0.02, request=0.2, slo=None),
        ),
        (WEIGHT, SLO),
        (*BESIDE, IDLE),
        pairs=6,
    ),
    Situation(
        "memory",
        "a node of 1 GiB; a BE process takes 120 MB a second until none is left",
        (Service("api", ((0, CALM), (12, 0)), resident=100 * MIB),),
        (Treatment("weight, memory 0.5", weight=True, memory=0.5), SLO),
        (WEIGHT, *BESIDE),
        growing=True,
        memory=1 << 30,
        seconds=12.0,
        pairs=4,
    ),
    Situation(
        "disk",
        "a service of 100 reads a second of 4 KiB from the disk that batch writes and reads in blocks of 1 MiB; 20 s, after 16 s to settle",
        (Service("api", ((0, 0.5), (LONG, 0)), work=0.01, slo=0.02),),
        (WEIGHT, *(Treatment(f"weight, disk {rate} MiB/s", weight=True, disk=rate * MIB) for rate in (20, 100)), SLO),
        (ALONE, UNMANAGED),
        disk=True,
        seconds=LONG,
        settling=16.0,
        asked=True,
        pairs=4,
    ),
)
