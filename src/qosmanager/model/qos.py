"""QoS classes and pressure levels (specification, sections 1 and 4)."""

from __future__ import annotations

from enum import Enum


class QoS(Enum):
    """How a pod is protected: LSE > LSR > LS > BE; SYSTEM stands outside co-location."""

    LSE = "LSE"
    LSR = "LSR"
    LS = "LS"
    BE = "BE"
    SYSTEM = "SYSTEM"


# A tuple finds by identity; a set would have Python code make the hash of a member, for every pod of every cycle.
LATENCY_SENSITIVE = (QoS.LS, QoS.LSR, QoS.LSE)


def is_latency_sensitive(qos: QoS) -> bool:
    """Tell whether a pod of this class is one of "the LS pods" of the specification (LSE, LSR, LS)."""
    return qos in LATENCY_SENSITIVE


class Level(Enum):
    """A pressure level; the order is LOW < MEDIUM < HIGH < CRITICAL < EMERGENCY. `rank`: position in it, from 0."""

    rank: int

    LOW = "LOW"
    MEDIUM = "MEDIUM"
    HIGH = "HIGH"
    CRITICAL = "CRITICAL"
    EMERGENCY = "EMERGENCY"

    def __init__(self, _: str) -> None:
        self.rank = len(type(self).__members__)

    # All four by themselves, not by `total_ordering`: levels are compared many times in each cycle.
    def __lt__(self, other: Level) -> bool:
        return self.rank < other.rank

    def __le__(self, other: Level) -> bool:
        return self.rank <= other.rank

    def __gt__(self, other: Level) -> bool:
        return self.rank > other.rank

    def __ge__(self, other: Level) -> bool:
        return self.rank >= other.rank

    def lower(self) -> Level:
        """Return the next level down; LOW stays LOW."""
        return LEVELS[max(0, self.rank - 1)]


LEVELS = tuple(Level)


class Slo(Enum):
    """Signal of all LS pods' latency objectives together (section 4)."""

    OK = "ok"
    VIOLATED = "violated"
    UNKNOWN = "unknown"


class MatrixAction(Enum):
    """What the decision matrix asks for (section 4)."""

    EVICT_BE_IMMEDIATELY = "EVICT_BE_IMMEDIATELY"
    THROTTLE_BE_AGGRESSIVE = "THROTTLE_BE_AGGRESSIVE"
    THROTTLE_BE_MODERATE = "THROTTLE_BE_MODERATE"
    RELAX_BE_LIMIT = "RELAX_BE_LIMIT"


class Plugin(Enum):
    """The six strategies, by the names used in configuration, plans and metrics (section 5)."""

    NODE_QOS_RESOURCE = "NodeQOSResource"
    SYSTEM_QOS_RESOURCE = "SystemQOSResource"
    CPU_BURST = "CPUBurst"
    CPU_SUPPRESS = "CPUSuppress"
    CPU_EVICT = "CPUEvict"
    MEMORY_EVICT = "MemoryEvict"

    # Members are the same only where they are identical. Of Enum's own hash each call is Python code, and settings are asked for the mode
    # of a plugin many times in each cycle.
    __hash__ = object.__hash__


class Mode(Enum):
    """What a plugin may do: nothing, decide and report, or act (section 2)."""

    OFF = "off"
    OBSERVE = "observe"
    ENFORCE = "enforce"
