"""CPU, memory and I/O scores from 0 to 100, each with its terms (specification, section 4)."""

from __future__ import annotations

from qosmanager.config.settings import Settings, Thresholds
from qosmanager.model.assessment import Factor, Pressure
from qosmanager.model.census import Census
from qosmanager.model.snapshot import Node

_RECLAIM_FLOOR = 100.0  # pages/s of direct scan below which reclaim counts nothing


def counted_use(node: Node, census: Census, settings: Settings) -> float | None:
    """Return the CPU use that decides, in cores: the node's, without BE's where that makes way; None when not measured (section 13)."""
    if node.cpu_usage is None or not settings.leaves_be_out:
        return node.cpu_usage
    return max(0.0, node.cpu_usage - census.be_usage)


def cpu_pressure(node: Node, census: Census, settings: Settings) -> Pressure:
    """Score CPU; a quantity not measured counts 0 points."""
    percent = None if node.cpu_usage is None else node.cpu_usage / node.cpus * 100
    load = None if node.load1 is None else node.load1 / node.cpus
    return _pressure(
        settings.cpu_pressure,
        _counted("usage", percent, 0.4, 40, {"cpu_percent": percent}),
        *_of_services(node, census, settings),
        _counted("load", load, 10, 20, {"load1": node.load1, "cpus": node.cpus}),
    )


def guard_pressure(node: Node, census: Census, settings: Settings) -> Pressure:
    """Score CPU without BE: the same factors, without what BE uses and loads (section 13).

    Whose tasks load1 counts it does not tell: it counts as at most what all others use and the LS pods wait for.
    """
    use = counted_use(node, census, settings)
    percent = None if use is None else use / node.cpus * 100
    load = None if use is None or node.load1 is None else min(node.load1, use + sum(pod.cpu.wait or 0.0 for pod in census.ls))
    share = None if load is None else load / node.cpus
    return _pressure(
        settings.cpu_pressure,
        _counted("usage", percent, 0.4, 40, {"cpu_percent_without_be": percent}),
        *_of_services(node, census, settings),
        _counted("load", share, 10, 20, {"load1": node.load1, "load_without_be": load, "cpus": node.cpus}),
    )


def _of_services(node: Node, census: Census, settings: Settings) -> tuple[Factor, Factor]:
    """Return the factors that hold nothing of BE in any case: the LS ratio and the trend."""
    declared = [(pod.cpu.usage, pod.cpu.request) for pod in census.ls if pod.cpu.request and pod.cpu.usage is not None]
    usage = sum(used for used, _ in declared)
    request = sum(requested for _, requested in declared)
    counted = max(request, settings.ls_request_floor * node.cpus)
    ratio = usage / counted if declared else None
    return (
        _counted("ls_ratio", ratio, 30, 60, {"ls_usage": usage, "ls_request": counted}),
        _counted("trend", node.cpu_trend, 20, 20, {"cpu_trend": node.cpu_trend}),
    )


def memory_percent(node: Node) -> float | None:
    """Return used memory in percent of the total; None when not measured."""
    if not node.memory_total or node.memory_available is None:
        return None
    return (node.memory_total - node.memory_available) / node.memory_total * 100


def memory_pressure(node: Node, thresholds: Thresholds) -> Pressure:
    """Score memory; without a swap device the swap factor is left out and the others are scaled by 1 / 0.8."""
    percent = memory_percent(node)
    factors = [
        _counted("usage", percent, 0.35, 35, {"memory_percent": percent}),
        _counted("ls_growth", node.ls_memory_growth, 5 * 0.25, 25, {"ls_memory_growth": node.ls_memory_growth}),
        _counted("reclaim", _reclaim(node), 0.2, 20, {"pgscan_direct": node.pgscan_direct, "pgscan_kswapd": node.pgscan_kswapd}),
    ]
    if not node.swap_total:
        left_out = Factor(name="swap", points=None, cap=20, inputs={"swap_total": node.swap_total}, note="no swap device")
        return _pressure(thresholds, *_scaled(factors, 0.8), left_out)
    swap = None if node.swap_used is None else node.swap_used / node.swap_total * 100
    return _pressure(thresholds, *factors, _counted("swap", swap, 0.2, 20, {"swap_percent": swap}))


def io_pressure(node: Node, thresholds: Thresholds) -> Pressure:
    """Score I/O; factors not measured are left out and the rest scaled by 1 / the sum of their weights; none: 0."""
    terms = (
        ("stall", node.io_psi_some, 0.4, 0.4, 40, "io_psi_some"),
        ("iowait", node.iowait, 2 * 0.3, 0.3, 30, "iowait"),
        ("disk", node.disk_util, 0.2, 0.2, 20, "disk_util"),
        ("network", node.net_util, 0.1, 0.1, 10, "net_util"),
    )
    measured = [term for term in terms if term[1] is not None]
    factors = [_counted(name, value, factor, cap, {reading: getattr(node, reading)}) for name, value, factor, _, cap, reading in measured]
    left_out = [
        Factor(name=name, points=None, cap=cap, inputs={reading: None}, note="not measured")
        for name, value, _, _, cap, reading in terms
        if value is None
    ]
    weights = sum(term[3] for term in measured)
    return _pressure(thresholds, *_scaled(factors, weights), *left_out)


def _reclaim(node: Node) -> float | None:
    """Return the reclaim reading, from 0; it counts to 100: how much of the scanning is done by those who wait for memory."""
    direct, kswapd = node.pgscan_direct, node.pgscan_kswapd
    if direct is None:
        return None
    if direct < _RECLAIM_FLOOR:
        return 0.0
    if kswapd is None:
        return None
    return direct / kswapd * 10 if kswapd > 0 else 100.0


def _counted(name: str, value: float | None, factor: float, cap: float, inputs: dict[str, float | None]) -> Factor:
    """Return value x factor within 0 and cap; 0 points where the value was not measured."""
    if value is None:
        return Factor(name=name, points=0.0, cap=cap, inputs=inputs, note="not measured")
    return Factor(name=name, points=min(max(value * factor, 0.0), cap), cap=cap, inputs=inputs)


def _scaled(factors: list[Factor], weights: float) -> list[Factor]:
    return [
        Factor(
            name=factor.name,
            points=(factor.points or 0.0) / weights,
            cap=factor.cap / weights,
            inputs=factor.inputs,
            note=factor.note,
        )
        for factor in factors
    ]


def _pressure(thresholds: Thresholds, *factors: Factor) -> Pressure:
    score = min(100.0, sum(factor.points or 0.0 for factor in factors))
    return Pressure(score=score, level=thresholds.level(score), factors=factors)
