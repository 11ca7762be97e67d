"""The whole of what the doctor found, as data and as text for 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from msgspec import Struct

from qosmanager.doctor.findings import Finding, Mark
from qosmanager.doctor.plugins import Ability, PluginFinding
from qosmanager.doctor.troubles import Trouble, Verdict
from qosmanager.model.actions import Knob

WIDTH = 80
_SUBJECT = 17
_MARK = 13


class Report(Struct, frozen=True, kw_only=True):
    """`agent`: where it answers; None: it does not, and `no_agent` says why. `settings`: whose settings were judged by."""

    findings: tuple[Finding, ...]
    plugins: tuple[PluginFinding, ...]
    settings: str
    agent: str | None = None
    no_agent: str = ""
    troubles: tuple[Trouble, ...] = ()
    knobs: tuple[Knob, ...] = ()  # how the standing properties stand, by what the agent says

    @property
    def healthy(self) -> bool:
        """Whether nothing is impossible and no trouble was found."""
        return (
            all(finding.mark is not Mark.IMPOSSIBLE for finding in self.findings)
            and all(plugin.ability is not Ability.IMPOSSIBLE for plugin in self.plugins)
            and all(trouble.verdict is not Verdict.TROUBLED for trouble in self.troubles)
        )


def report_text(report: Report) -> str:
    """Return the report for people: no line is longer than 80 columns, but for a word that is."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield "Node"
    for finding in report.findings:
        yield from _row(finding.subject, finding.mark.value, finding.text)
        yield from _fix(finding.fix)
    yield from ("", *textwrap.wrap(f"Plugins, by {report.settings}", WIDTH))
    for plugin in report.plugins:
        yield from _plugin(plugin)
    yield ""
    if report.agent is None:
        yield from textwrap.wrap(f"Troubles were not looked into: {report.no_agent}", WIDTH, subsequent_indent="  ")
        return
    if report.knobs:
        yield from textwrap.wrap(f"What stands in the kernel, by what the agent at {report.agent} says", WIDTH)
        for knob in report.knobs:
            yield from _row(knob.name, knob.state.value, knob.detail)
        yield ""
    yield from textwrap.wrap(f"Troubles, by what the agent at {report.agent} says", WIDTH)
    for trouble in report.troubles:
        yield from _trouble(trouble)


def _plugin(finding: PluginFinding) -> Iterator[str]:
    head = (finding.plugin, finding.ability.value)
    if not finding.lacks:
        yield from _row(*head, "")
    for lack in finding.lacks:
        yield from _row(*head, lack.why)
        yield from _fix(lack.fix)
        head = ("", "")


def _trouble(trouble: Trouble) -> Iterator[str]:
    yield f"  {trouble.name}? {trouble.verdict.value}"
    for check in trouble.checks:
        yield from textwrap.wrap(f"{check.question} {check.found}", WIDTH, initial_indent="    - ", subsequent_indent="      ")
    yield from textwrap.wrap(f"=> {trouble.answer}", WIDTH, initial_indent="    ", subsequent_indent="       ")
    for advice in trouble.advice:
        yield from textwrap.wrap(f"-> {advice}", WIDTH, initial_indent="       ", subsequent_indent="          ")


def _fix(fix: str) -> Iterator[str]:
    if fix:
        yield from _row("", "", f"-> {fix}")


def _row(subject: str, mark: str, text: str) -> Iterator[str]:
    head = f"  {subject:<{_SUBJECT}} {mark:<{_MARK}}"
    indent = " " * len(head)
    lines = textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent) or [indent]
    yield (head + lines[0][len(head) :]).rstrip()
    yield from lines[1:]
