"""Decisions and what was not done, for people: plain text, 100 columns (specification, section 10).

In: entries with their terms, refusals, reasons. Out: lines; each action with its rule, its score -> factors -> readings, what was written,
and its outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from qosmanager.documents.quantities import shown_bytes
from qosmanager.model.actions import Refusal
from qosmanager.model.count import counted
from qosmanager.model.qos import Plugin
from qosmanager.views.audit import AuditLine
from qosmanager.views.decisions import Entry
from qosmanager.views.fare import leak_words, wellbeing_lines
from qosmanager.views.judgement import AssessmentView, PressureView
from qosmanager.views.prose import readings, wrapped
from qosmanager.views.why_not import Reason


def decision_text(run: list[Entry]) -> str:
    """Explain one decision; of a run of the same, the last one, with how it came there."""
    entry = run[-1]
    head = f"{entry.time[:19]}Z {_what(entry)}" + (f" ({entry.result or 'no receipt'})" if entry.type == "action" else "")
    return "\n".join([head, *(wrapped(line) for line in _lines(run))])


def refusals_text(refusals: Iterable[Refusal]) -> Iterator[str]:
    """Say what the last cycle did not do, one line for each."""
    for refusal in refusals:
        yield wrapped(f"{refusal.plugin.value}{f' {refusal.pod}' if refusal.pod else ''}: \t{refusal.reason} [{refusal.rule}]")


def reasons_text(reasons: Iterable[Reason]) -> Iterator[str]:
    """Say why nothing was done to a pod."""
    for reason in reasons:
        yield wrapped(f"{reason.about + ':':<13} \t{reason.text}")


def audit_text(line: AuditLine) -> str:
    """Say who was evicted, why, and what became of it."""
    head = f"{line.begun[:19]}Z {line.plugin} {line.pod}: {line.outcome}"
    held = [f"{line.cpu:.4g} cores"] if line.cpu is not None else []
    held += [f"{shown_bytes(line.memory)} of memory"] if line.memory is not None else []
    ended = f"gone after {line.took:.1f} s" if line.took is not None else "not seen gone"
    lines = [
        _line("rule", line.reason),
        _line("level", f"{line.level}, score {line.score:.1f}, SLO {line.slo}" + _by(line.slo_violated_by)),
        _line("held", (" and ".join(held) or "not measured") + (", leaking" if line.leaking else "")),
        _line("outcome", ended + (f"; {line.detail}" if line.detail else "")),
    ]
    before, after = line.memory_available_before, line.memory_available_after
    if before is not None and after is not None:
        lines.append(_line("memory", f"available {shown_bytes(before)} before, {shown_bytes(after)} after"))
    if line.alike:
        lines.append(_line("alike", f"{counted(line.alike, 'other')} in the hour before, for the same reason"))
    return "\n".join([head, *(wrapped(each) for each in lines), ""])


def _by(pods: tuple[str, ...]) -> str:
    return f" by {', '.join(pods)}" if pods else ""


def _what(entry: Entry) -> str:
    return " ".join(part for part in (entry.plugin or "", entry.kind, entry.subject, entry.amount) if part)


def _lines(run: list[Entry]) -> Iterator[str]:
    entry = run[-1]
    label = "rule" if entry.type == "action" else "wrote" if entry.kind == "standing" else "because"
    yield _line(label, entry.reason)
    if len(run) > 1:
        yield _line(
            "before", f"{len(run) - 1} more of the same since {run[0].time[11:19]}Z" + (f", from {run[0].amount}" if run[0].amount else "")
        )
    if entry.mode not in (None, "enforce"):
        yield _line("mode", f"{entry.mode}: only reported")
    if entry.terms is not None:
        yield from _judged(entry.terms, of_memory=entry.plugin == Plugin.MEMORY_EVICT.value)
    for receipt in entry.receipts:
        change = f": {receipt.before} -> {receipt.after}" if receipt.before is not None or receipt.after is not None else ""
        detail = f" ({receipt.detail})" if receipt.detail else ""
        yield _line("done", f"{receipt.target}{change}, {receipt.result}{detail}")
    if entry.outcome is not None:
        yield _line("outcome", f"{entry.outcome.verdict} at {entry.outcome.time[11:19]}Z: {entry.outcome.detail}")
    elif entry.type == "action" and entry.result == "applied":
        yield _line("outcome", "not seen yet")


def _judged(terms: AssessmentView, *, of_memory: bool) -> Iterator[str]:
    name, pressure = ("memory", terms.memory) if of_memory else ("CPU", terms.cpu)
    if not of_memory and terms.cpu_without_be is not None:
        name, pressure = "CPU without BE", terms.cpu_without_be
    yield _line("score", _score(name, pressure))
    for factor, term in pressure.terms.items():
        points = f"{term.points:.1f} of {term.cap:g}" if term.points is not None else "left out"
        known = readings(term.inputs, term.note)
        yield _line("", f"  {factor} {points}" + (f": {known}" if known else ""))
    matrix = f"matrix {terms.matrix['priority']} ({terms.matrix['action']})"
    yield _line(
        "level",
        f"{terms.effective_level}; the score's {(terms.cpu_without_be or terms.cpu).level}, {matrix}: {terms.raw_level} at this moment",
    )
    yield _line("SLO", terms.slo + _by(terms.slo_violated_by))
    for line in wellbeing_lines(terms.wellbeing):
        yield _line("LS pods", line)
    for leak in terms.leaks if of_memory else ():
        yield _line("leak", f"{leak.pod} is {leak_words(leak)}")
    if terms.oom_reasons:
        yield _line("OOM risk", "; ".join(terms.oom_reasons))


def _score(name: str, pressure: PressureView) -> str:
    points = [f"{factor} {value:.1f}" for factor, value in pressure.factors.items()]
    mean = f", mean {pressure.mean:.1f}" if pressure.mean is not None else ""
    return f"{name} {pressure.score:.1f}{mean} {pressure.level} = {' + '.join(points) or '0'}"


def _line(name: str, text: str) -> str:
    return f"{name:<8} \t{text}"
