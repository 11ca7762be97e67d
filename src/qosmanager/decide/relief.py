"""BE made smaller in memory before anybody is evicted (specification, section 5.1): how far, step by step, and when it ends.

In: the cycle's facts. Out: BE's memory.high (bytes) to be held, None for no bound; and whether giving memory back still helps, so that
MemoryEvict waits. Nothing is moved on readings that are not there. Its I/O is in io_relief.py.
"""

from __future__ import annotations

from msgspec.structs import replace

from qosmanager.config.settings import Switch
from qosmanager.decide.facts import Facts
from qosmanager.model.census import is_above
from qosmanager.model.qos import Level, MatrixAction, Mode, Plugin
from qosmanager.model.state import Squeeze, State

_MIB = 1 << 20
_PAGE = 4096
_SHORT, _CALM = 1.5, 2.0  # x minAvailable: below it BE gives back, above it BE gets back
_STEP = 64 * _MIB  # given back at a time: on older kernels the agent itself does the work, some 1 ms a MiB at worst
_STEP_EVERY = 1.0  # seconds
_BEHIND = 1.02  # x memory.high: BE still has to give back what it was last told
_RISE = 0.02  # of the node's memory per step back
_FREE = 0.05  # of the node's memory: a bound that far above what BE holds bounds nothing
_CALM_AFTER = 10.0  # seconds of calm before the first step back
_RELEASED_AFTER = 60.0  # seconds of calm
_GAIN = 0.005  # of the node's memory: less is no sign that giving back helps
_PATIENCE = 5.0  # seconds without a gain after which it no longer helps


def memory_hold(facts: Facts) -> Squeeze | None:
    """Return BE's memory.high in force after this cycle."""
    held, node, now = facts.before.be_memory, facts.snapshot.node, facts.now
    if not is_on(facts, facts.settings.isolation.memory):
        return None
    total, available, holds, floor = node.memory_total, node.memory_available, facts.snapshot.be_memory, _floor(facts)
    if now is None or not total or available is None or holds is None or floor is None:
        return held
    least = facts.settings.memory_evict.min_available * total
    score, level = facts.assessment.memory.score, facts.settings.memory_pressure.level
    if is_above(_SHORT * least, available) or level(score) >= Level.HIGH:
        return _tightened(facts, held, min(holds, max(floor, holds - _STEP)))
    if held is None or not is_above(available, _CALM * least) or level(score + facts.settings.hysteresis.margin) >= Level.HIGH:
        return None if held is None else replace(held, calm_since=None)
    return _released(held, now, holds, total)


def _tightened(facts: Facts, held: Squeeze | None, wanted: int) -> Squeeze | None:
    now, available, holds = facts.now, facts.snapshot.node.memory_available, facts.snapshot.be_memory
    assert now is not None
    assert available is not None
    assert holds is not None
    wanted = max(_PAGE, wanted // _PAGE * _PAGE)
    if held is None:
        return Squeeze(high=wanted, moved=now, available=available, gained=now)
    gain = _GAIN * (facts.snapshot.node.memory_total or 0)
    if available >= held.available + gain:
        held = replace(held, available=available, gained=now)
    if now - held.moved < _STEP_EVERY or holds > held.high * _BEHIND:
        return replace(held, calm_since=None)
    return replace(held, high=min(held.high, wanted), moved=now, calm_since=None)


def _released(held: Squeeze, now: float, holds: int, total: int) -> Squeeze | None:
    since = now if held.calm_since is None else held.calm_since
    if now - since >= _RELEASED_AFTER or held.high >= holds + _FREE * total:
        return None
    if now - since < _CALM_AFTER or now - held.moved < _STEP_EVERY:
        return replace(held, calm_since=since)
    return replace(held, high=(held.high + int(_RISE * total)) // _PAGE * _PAGE, moved=now)


def _floor(facts: Facts) -> int | None:
    """Return what BE may not lose, in bytes: what is not page cache, but of that half where free swap can take twice as much; None where
    some BE pod is not measured."""
    held = [pod.memory.rss for pod in facts.census.be]
    if None in held:
        return None
    rss = sum(each or 0 for each in held)
    return max(rss // 2, rss - _swap_free(facts) // 2)


def _swap_free(facts: Facts) -> int:
    """Return the free swap in bytes, 0 where it is not known."""
    node = facts.snapshot.node
    return 0 if node.swap_total is None or node.swap_used is None else max(0, node.swap_total - node.swap_used)


def why_to_wait(facts: Facts, state: State) -> str | None:
    """Return why nobody is to be evicted yet: what BE gives back makes memory available; None: it does not, or there is no time for it."""
    held, now = state.be_memory, facts.now
    urgent = facts.assessment.oom.present or facts.assessment.matrix.action is MatrixAction.EVICT_BE_IMMEDIATELY
    # Page cache counts as available already: only what goes to swap makes more of it.
    if held is None or now is None or urgent or _swap_free(facts) < _STEP or now - held.gained >= _PATIENCE:
        return None
    floor, holds = _floor(facts), facts.snapshot.be_memory
    if floor is None or holds is None or holds <= floor:
        return None
    return f"BE gives back memory (memory.high {held.high / _MIB:.0f} MiB), which last made more available {now - held.gained:.0f} s ago"


def is_on(facts: Facts, switch: Switch) -> bool:
    """Tell whether a knob is used: it is switched on, and NodeQOSResource, whose it is, enforces."""
    return switch is Switch.AUTO and facts.settings.mode(Plugin.NODE_QOS_RESOURCE) is Mode.ENFORCE
