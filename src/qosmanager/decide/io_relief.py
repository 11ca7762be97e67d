"""BE made slower at the disk while services wait for it (specification, section 5.1, `isolation.io`): how far, step by step, when it ends.

In: the cycle's facts. Out: BE's I/O limit (bytes/s) to be held, None for none, and what was learned of its use: a service that is as late
after BE was cut to an eighth is late by somebody else, and BE is not held down for that until a while later, or until it is worse.
Nothing is moved on readings that are not there.
"""

from __future__ import annotations

import math

from msgspec.structs import replace

from qosmanager.assess.pressure import io_pressure
from qosmanager.decide.facts import Draft, Facts
from qosmanager.decide.relief import is_on
from qosmanager.model.census import is_above
from qosmanager.model.count import counted
from qosmanager.model.qos import Level, Plugin
from qosmanager.model.state import IoHold, IoLesson

_PLUGIN = Plugin.NODE_QOS_RESOURCE
_STEP_EVERY = 20.0  # seconds: the services' stalls are read every 10 s, and take as long to show what a step did
_RISE_EVERY = 10.0
_FALL, _RISE = 0.5, 1.25
_LEAST = 1 << 20  # bytes/s
_SIGN = 10.0  # percent: a service that waits less for I/O is not late because of it
_NEARLY_LATE = 0.8  # of the SLO
_STILL = 1.1  # times a limit: what comes through one
_MUST_SHOW = 0.125  # of what BE moved: cut to that, a service that is late because of BE is less so
_NO_BETTER, _WORSE = 0.9, 1.5  # of the severity when it began; of what is borne
_BORNE_FOR, _BORNE_MOST = 300.0, 3600.0  # seconds: doubled with each time that a limit was of no use


def io_relief(facts: Facts, draft: Draft) -> Draft:
    """Remember BE's I/O limit in force after this cycle, and what was learned."""
    held, known, now = facts.before.be_io, facts.before.io_lesson, facts.now
    if not is_on(facts, facts.settings.isolation.io):
        return draft.remember(be_io=None)
    if now is None or all(factor.points is None for factor in facts.assessment.io.factors):
        return draft
    severity, (moves, unmeasured) = _severity(facts), _moved_by_be(facts)
    if unmeasured and (severity >= 1 or held is not None):
        draft = draft.refuse(_PLUGIN, "io-not-measured", f"BE's I/O limit goes by what is measured: not of {counted(unmeasured, 'BE pod')}")
    if severity < 1:
        return _eased(facts, draft)
    if moves is None:
        return draft
    if known.borne_until is not None and not facts.is_over(known.borne_until) and not is_above(severity, _WORSE * known.borne):
        left = f"for {facts.remaining(known.borne_until):.0f} s more"
        reason = f"services wait for I/O as long with BE cut to an eighth: it is not limited for that {left}, unless it gets worse"
        return _raised(facts, draft.refuse(_PLUGIN, "io-of-others", reason))
    if held is None:
        limit = max(_LEAST, int(moves * _FALL))
        return draft.remember(be_io=IoHold(limit=limit, own=int(moves), moved=now, severity=severity) if moves > _LEAST else None)
    if now - held.moved < _STEP_EVERY:
        return draft
    # The limit is each disk's: what counts is that all of BE moves as little.
    is_cut = not is_above(moves, _STILL * max(_LEAST, _MUST_SHOW * held.own))
    if held.severity is not None and is_cut and severity >= _NO_BETTER * held.severity:
        return draft.remember(be_io=None, io_lesson=_learned(known, severity, now))
    limit = max(_LEAST, int(min(held.limit, max(moves, _LEAST)) * _FALL))
    return draft.remember(be_io=replace(held, limit=limit, moved=now, severity=held.severity or severity))


def _learned(known: IoLesson, severity: float, now: float) -> IoLesson:
    futile = known.futile + 1
    return IoLesson(futile=futile, borne_until=now + min(_BORNE_MOST, _BORNE_FOR * 2.0 ** min(futile - 1, 10)), borne=severity)


def _eased(facts: Facts, draft: Draft) -> Draft:
    """Let the limit rise when nobody is near to the bounds either."""
    level, margin = facts.settings.io_pressure.level, facts.settings.hysteresis.margin
    if level(_score_of_services(facts) + margin) >= Level.HIGH or is_above(_lateness(facts), _NEARLY_LATE):
        return draft
    return _raised(facts, draft)


def _raised(facts: Facts, draft: Draft) -> Draft:
    held, known = facts.before.be_io, facts.before.io_lesson
    if held is None or facts.elapsed(held.moved) < _RISE_EVERY:
        return draft
    limit = math.ceil(held.limit * _RISE)
    if limit >= 2 * held.own:
        return draft.remember(be_io=None, io_lesson=replace(known, futile=max(0, known.futile - 1)))
    return draft.remember(be_io=replace(held, limit=limit, moved=facts.now, severity=None))


def _severity(facts: Facts) -> float:
    """Return how much services suffer from I/O: 1 and more is too much. By the score against level HIGH, or the p99 against the SLO."""
    score, settings = _score_of_services(facts), facts.settings.io_pressure
    by_score = max(1.0, score / settings.medium) if settings.level(score) >= Level.HIGH else 0.0
    lateness = _lateness(facts)
    return max(by_score, lateness if is_above(lateness, 1.0) else 0.0)


def _score_of_services(facts: Facts) -> float:
    """Return the I/O score with the longest stall among the LS pods in the place of the node's, which BE's own waiting is part of, above
    all while a limit of ours makes it wait; 0 where there is no LS pod. The node's own where some LS pod's stall is not measured (`missing`
    says why)."""
    stalls = [pod.observed.io_psi_some for pod in facts.census.ls]
    if not stalls:
        return 0.0
    measured = [stall for stall in stalls if stall is not None]
    if len(measured) < len(stalls):
        return facts.assessment.io.score
    return io_pressure(replace(facts.snapshot.node, io_psi_some=max(measured)), facts.settings.io_pressure).score


def _lateness(facts: Facts) -> float:
    """Return the largest p99 against its SLO of the LS pods that wait for I/O themselves, more than for CPU; 0 where there is none."""
    return max(
        (
            pod.latency.p99 / pod.latency.slo
            for pod in facts.census.ls
            if pod.latency.p99 is not None
            and pod.latency.slo
            and (pod.observed.io_psi_some or 0.0) >= max(_SIGN, pod.observed.cpu_psi_some or 0.0)
        ),
        default=0.0,
    )


def _moved_by_be(facts: Facts) -> tuple[float | None, int]:
    """Return what BE reads or writes, whichever is more, in bytes/s, by the pods that are measured (None: there are BE pods and none is),
    and of how many it is not known."""
    rates = [(pod.observed.io_read, pod.observed.io_write) for pod in facts.census.be]
    known = [(read, write) for read, write in rates if read is not None and write is not None]
    if rates and not known:
        return None, len(rates)
    return float(max(sum(read for read, _ in known), sum(write for _, write in known))), len(rates) - len(known)
