"""What is said once when it begins: the agent is paused, it reads less, BE is starving (specification, sections 2 and 5.4)."""

from __future__ import annotations

from qosmanager.documents.quantities import shown_time
from qosmanager.model.own_use import STEPS, OwnUse
from qosmanager.model.record import CycleRecord
from qosmanager.views.figures import short, topic
from qosmanager.views.status import STARVING_AFTER, be_usage, starved_tens

PAUSED = "paused"  # the reason under which a plan says that the agent is paused
UNMEASURED = "node_cpu_not_measured"
EVICTS_NOBODY = frozenset({"evictions_barred", "pods_stale"})  # reasons that bar evictions and nothing else
OVER_BUDGET = "over_budget"  # the reason under which metrics say that the agent reads less


def degradations(record: CycleRecord) -> dict[str, str]:
    """Return what keeps the cycle from acting, by its name. That a first cycle has no rates yet is no news: none ever has."""
    reasons = {topic(reason): reason for reason in record.plan.degraded}
    if record.number == 1:
        reasons.pop(UNMEASURED, None)
    return reasons


def consequence(reason: str) -> str:
    """Say what the agent does not do for this reason."""
    return "nobody is evicted" if topic(reason) in EVICTS_NOBODY else "nothing is relaxed, nobody gets a burst, nobody is evicted"


def paused_text(record: CycleRecord) -> str:
    """Say until when, by whom and why; a recording knows only that it was so."""
    pause = record.pause
    if pause is None:
        return "bursts end, BE limits stay, nothing changes"
    why = f": {pause.reason}" if pause.reason else ""
    return f"until {shown_time(round(pause.until))} by {pause.by}{why}; bursts end, BE limits stay, nothing changes"


def starving_text(record: CycleRecord) -> str:
    """Say for how long BE has been held at its floor, and what it uses of it."""
    minutes = starved_tens(record.state) * STARVING_AFTER / 60
    usage = short(be_usage(record.snapshot.pods))
    return f"BE has been held at its floor of {short(record.state.be_limit)} cores for {minutes:.0f} minutes; it uses {usage}"


def thrift_of(record: CycleRecord) -> int:
    """Return how many steps of reading less are in force."""
    return 0 if record.own is None else record.own.thrift


def thrift_text(own: OwnUse) -> str:
    """Say why the agent reads less, and what."""
    return f"{own.reason}: {'; '.join(STEPS[: own.thrift])}"
