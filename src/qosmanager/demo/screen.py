"""The demo's screen, as rich renderables or plain lines: what is measured, scored, decided, and why."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from qosmanager.demo.story import ALONE, MANAGED, MEMORY, QUIET, SURGE, UNMANAGED, Measured, Now, Proof
from qosmanager.model.count import counted
from qosmanager.views.decisions import Entry, amounts, runs
from qosmanager.views.judgement import PressureView
from qosmanager.views.status import Status

_LEVEL_STYLE = {"LOW": "green", "MEDIUM": "yellow", "HIGH": "dark_orange", "CRITICAL": "red", "EMERGENCY": "bold red"}
_BARS = "▁▂▃▄▅▆▇█"
DECISIONS = 5  # at most shown at once, two lines each
_REST = 16  # lines of the screen that are no decisions
_LOUD = frozenset({"evict", "conflict", "plugin_failed", "degraded"})


def live(now: Now, lines: int) -> RenderableType:
    """Return the whole screen of one moment, for a terminal of so many lines."""
    return Group(_head(now), _measured(now), _pressure(now.status), _decided(now, _fitting(lines)))


def _fitting(lines: int) -> int:
    """Return how many decisions fit below the rest, so that the last frame is closed."""
    return max(1, min(DECISIONS, (lines - _REST) // 2))


def line(now: Now) -> str:
    """Return one moment as a plain line."""
    parts = [
        f"[{now.index}/{now.count}] {now.stage.part}, {now.stage.name}",
        f"{now.left:.0f} s left",
        f"p50 {_ms(now.p50)} p99 {_ms(now.p99)}",
        f"LS {_cores(now.ls_cores)} BE {_cores(now.be_cores)} cores",
    ]
    if now.status is not None:
        assessment = now.status.assessment
        parts.append(f"cpu {assessment.cpu.score:.0f} memory {assessment.memory.score:.0f}")
        parts.append(f"level {assessment.effective_level} BE limit {_cores(now.status.be.limit)}")
    return " | ".join(parts)


def decision(entry: Entry) -> str:
    """Return one decision or event as a plain line."""
    verdict = f" [{entry.outcome.verdict}]" if entry.outcome else ""
    what = " ".join(part for part in (entry.plugin or "", entry.kind, entry.subject, entry.amount) if part)
    return f"    {entry.time[11:19]} {what}: {entry.reason}{verdict}"


def closing(measured: Iterable[Measured], notes: list[str], shown: Proof | None) -> RenderableType:
    """Return the one table of results, and the proof that all is put back."""
    table = Table(title="What it came to", title_justify="left", title_style="bold", expand=False)
    table.add_column("")
    parts = (ALONE, UNMANAGED, MANAGED)
    for part in parts:
        table.add_column(part, justify="right")
    by = {(each.part, each.name): each for each in measured}
    for name in (QUIET, SURGE, MEMORY):
        cells = [by.get((part, name)) for part in parts]
        if any(cells):
            table.add_row(f"LS p50 / p99 ms, {name}", *(f"{_number(cell.p50)} / {_number(cell.p99)}" if cell else "-" for cell in cells))
    for name in (QUIET, SURGE):
        cells = [by.get((part, name)) for part in parts]
        if any(cells):
            table.add_row(f"BE CPU cores, {name}", *(f"{cell.be_cores:.2f}" if cell else "-" for cell in cells))
    totals = [[each for each in by.values() if each.part == part] for part in parts]
    table.add_row("evictions", *(str(sum(len(each.evictions) for each in total)) if total else "-" for total in totals))
    table.add_row("kernel OOM kills", *(_kills(total) for total in totals))
    table.add_row("requests unanswered", *(str(sum(each.unanswered for each in total)) if total else "-" for total in totals))
    table.add_row("CPU cores of others", *(_mean_others(total) for total in totals))
    return Group(table, *(Text(note, style="dim") for note in notes), *([_proof(shown)] if shown else []))


def _mean_others(stages: list[Measured]) -> str:
    seconds = sum(each.seconds for each in stages)
    return f"{sum(each.other_cores * each.seconds for each in stages) / seconds:.2f}" if seconds else "-"


def _kills(stages: list[Measured]) -> str:
    if not stages or any(each.kernel_kills is None for each in stages):
        return "-"
    return str(sum(each.kernel_kills or 0 for each in stages))


def _proof(shown: Proof) -> RenderableType:
    if not shown.differ:
        what = f"{shown.compared} kernel values compared, {shown.changed} of them changed by the agent while it ran; different now: none"
        return Text(what, style="green")
    table = Table(title="Values that are NOT back at their original", title_style="bold red", title_justify="left")
    for heading in ("file", "before", "now"):
        table.add_column(heading)
    for difference in shown.differ:
        table.add_row(difference.file, difference.before, "gone" if difference.after is None else difference.after)
    return table


def _head(now: Now) -> RenderableType:
    grid = Table.grid(expand=True)
    grid.add_column()
    grid.add_column(justify="right")
    grid.add_row(
        Text.assemble((now.stage.part, "bold cyan"), f": {now.stage.name}"),
        Text(f"stage {now.index}/{now.count}, {now.left:.0f} s left", style="dim"),
    )
    what = Text(now.stage.what, style="dim", overflow="ellipsis", no_wrap=True)
    return Panel(
        Group(grid, what), title="qosmanager demo", title_align="left", border_style="cyan", subtitle=now.settings, subtitle_align="left"
    )


def _measured(now: Now) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    for _ in range(3):
        grid.add_column(no_wrap=True)
    limit = now.status.be.limit if now.status else None
    style = "red" if now.p99 is not None and now.slo is not None and now.p99 > now.slo else "green"
    latency = Text.assemble("p50 ", _number(now.p50), "  p99 ", (_number(now.p99), style), f" ms, SLO {_number(now.slo)}")
    grid.add_row(_heading("LS", now.ls_cores), latency, Text(_spark(now.history, now.slo), style=style))
    held = f"limit {limit:.2f} cores" if limit is not None else "no limit"
    pods = f", {counted(now.status.be.pods, 'pod')}" if now.status else ""
    grid.add_row(_heading("BE", now.be_cores), held + pods, _gauge(now.be_cores, limit))
    return Panel(grid, title="measured", title_align="left")


def _heading(name: str, cores: float | None) -> Text:
    return Text.assemble((name, "bold"), f" {_cores(cores)} cores")


def _pressure(status: Status | None) -> RenderableType:
    if status is None:
        return Panel(Text("no agent in this part", style="dim"), title="pressure", title_align="left")
    assessment = status.assessment
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column()
    for name, pressure in (("cpu", assessment.cpu), ("memory", assessment.memory), ("io", assessment.io)):
        style = _LEVEL_STYLE.get(pressure.level, "")
        grid.add_row(
            name, Text(_bar(pressure.score), style=style), Text(f"{pressure.score:5.1f} {pressure.level}", style=style), _terms(pressure)
        )
    level = Text.assemble(
        ("OOM risk, " if assessment.memory.oom_risk else "", "bold red"),
        "BE is held at ",
        (assessment.effective_level, _LEVEL_STYLE.get(assessment.effective_level, "")),
        f", matrix {assessment.matrix['action']}, SLO {assessment.slo}{_own_p99(status)}",
    )
    level.no_wrap, level.overflow = True, "ellipsis"
    if assessment.memory.oom_risk:
        level.append(f"  {'; '.join(assessment.oom_reasons)}", style="bold red")
    return Panel(Group(grid, level), title="pressure", title_align="left")


def _own_p99(status: Status) -> str:
    """What the SLO signal rests on: the service's own histogram. The latencies above are the client's, with the time in the queue."""
    known = [p99 for pod in status.pods if (p99 := pod.latency["p99"]) is not None]
    return f" (its own p99 {_number(max(known) * 1000)} ms)" if known else ""


def _decided(now: Now, most: int) -> RenderableType:
    rows: list[Text] = []
    for run in reversed(runs(now.decisions)[-most:]):
        rows.extend(_two_lines(run))
    if not rows:
        rows.append(Text("nothing decided yet" if now.status else "nobody decides in this part", style="dim"))
    rows.extend(Text("") for _ in range(2 * most - len(rows)))
    return Panel(Group(*rows), title="decided, and why (newest first)", title_align="left")


def _two_lines(run: list[Entry]) -> tuple[Text, Text]:
    """What was decided, then why. Of a run: from the first amount to the last, and the last reason."""
    last = run[-1]
    style = "bold red" if last.kind in _LOUD else "bold"
    what = " ".join(part for part in (last.plugin or "", last.kind, last.subject, amounts(run)) if part)
    outcome = last.outcome
    verdict = (f"  {outcome.verdict}", "green" if outcome.verdict == "effective" else "yellow") if outcome else ("", "")
    head = Text.assemble((last.time[11:19] + " ", "dim"), (what, style), verdict, overflow="ellipsis", no_wrap=True)
    return head, Text(" " * 9 + last.reason, style="dim", overflow="ellipsis", no_wrap=True)


def _terms(pressure: PressureView) -> Text:
    return Text(
        "  ".join(f"{name} {points:.1f}" for name, points in pressure.factors.items()), style="dim", overflow="ellipsis", no_wrap=True
    )


def _bar(score: float, width: int = 20) -> str:
    filled = round(min(100.0, max(0.0, score)) / 100 * width)
    return "█" * filled + "░" * (width - filled)


def _gauge(value: float | None, limit: float | None) -> Text:
    if value is None or not limit:
        return Text("")
    return Text(f"{_bar(value / limit * 100)}", style="dim")


def _spark(history: tuple[float | None, ...], slo: float | None) -> str:
    top = 2 * (slo or 20.0)
    return "".join(" " if value is None else _BARS[min(len(_BARS) - 1, int(value / top * len(_BARS)))] for value in history)


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{_number(value)} ms"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _cores(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
