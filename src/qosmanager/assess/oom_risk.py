"""Is memory about to run out (specification, section 4)."""

from __future__ import annotations

from qosmanager.model.assessment import OomRisk
from qosmanager.model.snapshot import Node

_GIB = 1 << 30
_STALL_COOLS_IN = 15.0  # seconds that a stall average stays high after its cause is gone


def oom_floor(total: int) -> float:
    """Return the available memory under which there is a risk whatever else is: 3 percent, at least 512 MiB, at most 4 GiB (bytes)."""
    return min(max(0.03 * total, _GIB / 2), 4 * _GIB)


def oom_risk(node: Node, min_available: float, since_victim_ended: float | None) -> OomRisk:
    """Judge the node's memory. `min_available` is a ratio; `since_victim_ended` is in seconds, None: no victim has ended."""
    total, available = node.memory_total, node.memory_available
    if not total or available is None:
        return OomRisk(present=False)
    reasons = []
    floor = oom_floor(total)
    if available < floor:
        reasons.append(f"available {available / _GIB:.2f} GiB is under the floor of {floor / _GIB:.2f} GiB")
    trend = node.memory_available_trend
    forecast = available / -trend if trend is not None and trend < 0 else None
    if forecast is not None and available < 0.3 * total and forecast < 60:
        reasons.append(f"available {available / _GIB:.2f} GiB is gone in {forecast:.0f} s at the present rate")
    # A stall alone is no shortage: it is cross-checked with what is left, and it lags behind a victim's end.
    stall = node.memory_psi_full
    cooled = since_victim_ended is None or not 0 <= since_victim_ended < _STALL_COOLS_IN
    if stall is not None and stall > 20 and available < 2 * min_available * total and cooled:
        reasons.append(f"tasks stall on memory {stall:.0f} percent of the time with {available / total * 100:.1f} percent left")
    return OomRisk(present=bool(reasons), reasons=tuple(reasons), forecast=forecast)
