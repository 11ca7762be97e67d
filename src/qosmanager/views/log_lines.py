"""The log lines of a cycle (specification, section 7): `key=value` pairs that grep well.

In: a cycle's record and the one before. Out: (severity, line) pairs, to be written by whoever logs. A value with spaces is quoted.
"""

from __future__ import annotations

import json
from collections import defaultdict
from enum import IntEnum

from qosmanager.model.actions import KINDS, Evict, Result
from qosmanager.model.qos import Mode, Plugin, QoS
from qosmanager.model.record import CycleRecord
from qosmanager.views.effects import Effect, amount, effects, foreign, is_conflict, standing, subject
from qosmanager.views.figures import MIB, iso, short
from qosmanager.views.reports import PAUSED, degradations, starving_text, thrift_of, thrift_text
from qosmanager.views.status import be_usage, starved_tens


class Severity(IntEnum):
    """How loud a line is; the numbers are those of the standard library's logging."""

    INFO = 20
    WARNING = 30
    ERROR = 40


Line = tuple[Severity, str]
_TROUBLE = (Result.FAILED, Result.REFUSED)


def log_lines(record: CycleRecord, previous: CycleRecord | None) -> list[Line]:
    """Return the cycle's own line first, then what happened in it. `previous` None: this is the first cycle."""
    done = effects(record)
    return [
        (Severity.INFO, _cycle(record)),
        *_actions([each for each in done if not _is_said(each, previous) and not _is_nobodys(each, record)]),
        *_evictions(done),
        *_unasked(record),
        *_standing(record),
        *_foreign(record),
        *_outcomes(record),
        *_degraded(record, previous),
        *_starving(record, previous),
        *_thrift(record, previous),
        *((Severity.ERROR, pairs("PluginFailed", plugin=f.plugin.value, error=f.error)) for f in record.plan.failures),
    ]


def pairs(event: str, **fields: object) -> str:
    """Return one structured line: the event's name and `key=value` pairs in the order given."""
    return " ".join((event, *(f"{key}={_text(value)}" for key, value in fields.items())))


def _text(value: object) -> str:
    text = str(value)
    if text and text.isprintable() and not any(char in ' "=' for char in text):
        return text
    # A name may hold what a terminal obeys, or what ends a line for some readers.
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _cycle(record: CycleRecord) -> str:
    assessment, state = record.assessment, record.state
    return pairs(
        "cycle",
        number=record.number,
        cpu_pressure=f"{assessment.cpu.score:.1f}",
        memory_pressure=f"{assessment.memory.score:.1f}",
        io_pressure=f"{assessment.io.score:.1f}",
        level=assessment.effective_level.value,
        slo=assessment.slo.value,
        # Under another name where it is only decided: who looks for the limit finds none that is not in force.
        **{"be_limit_observed" if state.be_observed else "be_limit": state.be_cpus or short(state.be_limit)},
        be_usage=short(be_usage(record.snapshot.pods)),
        actions=len(record.plan.actions),
        ms=f"{record.durations['total']:.1f}" if "total" in record.durations else "-",
        **({"early": record.cause} if record.cause else {}),
    )


def _is_said(effect: Effect, previous: CycleRecord | None) -> bool:
    """Whether the cycle before told of the same trouble: a file that cannot be written is tried again in each cycle."""
    if previous is None or effect.result not in _TROUBLE:
        return False
    trouble = _trouble(effect)
    return any(
        (each.kind, subject(each.action), _trouble(each)) == (effect.kind, subject(effect.action), trouble) for each in effects(previous)
    )


def _is_nobodys(effect: Effect, record: CycleRecord) -> bool:
    """Whether it is a limit of BE where there is neither a BE pod nor a group to write it to."""
    return (
        effect.result is Result.UNCHANGED and subject(effect.action) == "BE" and not any(pod.qos is QoS.BE for pod in record.snapshot.pods)
    )


def _actions(done: list[Effect]) -> list[Line]:
    return [
        (
            Severity.WARNING if effect.result in _TROUBLE else Severity.INFO,
            pairs(
                effect.action.plugin.value,
                action=effect.kind,
                subject=subject(effect.action),
                set=amount(effect.action) or "-",
                result=_result(effect),
                reason=effect.action.reason,
                **_trouble(effect),
            ),
        )
        for effect in done
    ]


def _trouble(effect: Effect) -> dict[str, str]:
    """Return why an action was not done, once for each reason."""
    details = dict.fromkeys(r.detail or r.target for r in effect.receipts if r.result in _TROUBLE)
    return {"trouble": "; ".join(details)} if details else {}


def _unasked(record: CycleRecord) -> list[Line]:
    """What the executor could not do without an action of this cycle asking for it: weights, oom_score_adj, the journal; and evictions
    begun earlier that came to nothing, under their plugin's name, where whoever has read of their beginning finds them."""
    begun = {watch.target: watch.plugin for watch in record.state.watches if watch.kind == KINDS[Evict]}
    return [
        (Severity.WARNING, pairs("Trouble", target=r.target, result=r.result.value, detail=r.detail or "-"))
        if r.pod is None or r.pod != r.target or r.pod not in begun
        else (Severity.WARNING, pairs(begun[r.pod], action=KINDS[Evict], subject=r.pod, result=r.result.value, trouble=r.detail or "-"))
        for r in record.receipts
        if r.action is None and r.result in _TROUBLE
    ]


def _standing(record: CycleRecord) -> list[Line]:
    return [
        (Severity.INFO, pairs("standing", target=r.target, before=_shown(r.before), after=_shown(r.after), detail=r.detail or "-"))
        for r in standing(record)
    ]


def _shown(value: str | None) -> str:
    return "-" if value is None else value


def _result(effect: Effect) -> str:
    if effect.action.mode is not Mode.ENFORCE:
        return "observed"
    return effect.result.value if effect.result else "unknown"


def _evictions(done: tuple[Effect, ...]) -> list[Line]:
    """One summary per plugin that evicted: number of pods and what they give back, cores or MiB, with two decimals."""
    victims: dict[Plugin, list[Evict]] = defaultdict(list)
    for effect in done:
        if effect.done and isinstance(effect.action, Evict):
            victims[effect.action.plugin].append(effect.action)
    lines = []
    for plugin, evicted in victims.items():
        if plugin is Plugin.CPU_EVICT:
            freed = {"freed_cores": f"{sum(action.cpu or 0.0 for action in evicted):.2f}"}
        else:
            freed = {"freed_mib": f"{sum(action.memory or 0 for action in evicted) / MIB:.2f}"}
        lines.append(
            (Severity.WARNING, pairs(plugin.value, evicted=len(evicted), **freed, pods=",".join(action.pod for action in evicted)))
        )
    return lines


def _foreign(record: CycleRecord) -> list[Line]:
    return [
        (
            Severity.ERROR if is_conflict(receipt) else Severity.WARNING,
            pairs(
                "conflict" if is_conflict(receipt) else "drift",
                file=receipt.target,
                before=_shown(receipt.before),
                after=_shown(receipt.after),
                detail=receipt.detail or "-",
            ),
        )
        for receipt in foreign(record)
    ]


def _outcomes(record: CycleRecord) -> list[Line]:
    return [
        (
            Severity.INFO,
            pairs("outcome", plugin=o.plugin.value, action=o.kind, target=o.target, verdict=o.verdict.value, detail=o.detail or "-"),
        )
        for o in record.outcomes
    ]


def _degraded(record: CycleRecord, previous: CycleRecord | None) -> list[Line]:
    """Said once when it begins and once when it ends, not every cycle; a pause has lines of its own."""
    now = degradations(record)
    before = degradations(previous).keys() if previous else set()
    return [
        *(
            (Severity.WARNING, _paused(record) if name == PAUSED else pairs("degraded", reason=now[name]))
            for name in now
            if name not in before
        ),
        *((Severity.INFO, pairs("Resumed") if name == PAUSED else pairs("recovered", reason=name)) for name in sorted(before - now.keys())),
    ]


def _paused(record: CycleRecord) -> str:
    pause = record.pause
    if pause is None:
        return pairs("Paused")
    return pairs("Paused", until=iso(pause.until), by=pause.by, reason=pause.reason or "-")


def _starving(record: CycleRecord, previous: CycleRecord | None) -> list[Line]:
    """Said once every 10 minutes for as long as it lasts, and once when it is over."""
    now, before = starved_tens(record.state), starved_tens(previous.state) if previous else 0
    if now > before:
        return [(Severity.WARNING, pairs("BEStarving", detail=starving_text(record)))]
    return [(Severity.INFO, pairs("BEStarvingOver"))] if before and not now else []


def _thrift(record: CycleRecord, previous: CycleRecord | None) -> list[Line]:
    """Said when the agent begins to read less, reads less still, or more again."""
    now, before = thrift_of(record), thrift_of(previous) if previous else 0
    if now == before or record.own is None:
        return []
    detail = thrift_text(record.own) if now else "everything is read again"
    return [(Severity.WARNING if now > before else Severity.INFO, pairs("ReadsLess" if now else "ReadsAll", steps=now, detail=detail))]
