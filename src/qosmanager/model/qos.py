"""QoS classes and pressure levels (specification, sections 1 and 4)."""

from __future__ import annotations

from enum import Enum
from functools import total_ordering


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


@total_ordering
class Level(Enum):
    """A pressure level; the order is LOW < MEDIUM < HIGH < CRITICAL < EMERGENCY."""

    LOW = "LOW"
    MEDIUM = "MEDIUM"
    HIGH = "HIGH"
    CRITICAL = "CRITICAL"
    EMERGENCY = "EMERGENCY"

    @property
    def rank(self) -> int:
        """Position in the order: 0 for LOW to 4 for EMERGENCY."""
        return _RANK[self]

    def __lt__(self, other: Level) -> bool:
        return _RANK[self] < _RANK[other]

    def lower(self) -> Level:
        """Return the next level down; LOW stays LOW."""
        return LEVELS[max(0, _RANK[self] - 1)]


LEVELS = tuple(Level)
_RANK = {level: rank for rank, level in enumerate(LEVELS)}


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


class Mode(Enum):
    """What a plugin may do: nothing, decide and report, or act (section 2)."""

    OFF = "off"
    OBSERVE = "observe"
    ENFORCE = "enforce"
