"""The report: 80 columns, and healthy or not."""

from __future__ import annotations

from msgspec.structs import replace

from qosmanager.doctor.findings import Finding, Mark
from qosmanager.doctor.plugins import Ability, Lack, PluginFinding
from qosmanager.doctor.report import Report, report_text
from qosmanager.doctor.troubles import Check, Trouble, Verdict
from qosmanager.model.actions import Knob, KnobState

LONG = "the kernel refuses what was written " * 6


def report(mark=Mark.OK, ability=Ability.ACTIVE, verdict=Verdict.FINE) -> Report:
    lack = Lack(ability=ability, why=LONG, fix="run as root")
    check = Check(question="why?", found=LONG)
    return Report(
        findings=(Finding(subject="cpu limit", mark=mark, text=LONG, fix="mount it"),),
        plugins=(
            PluginFinding(plugin="SystemQOSResource", ability=Ability.ACTIVE),
            PluginFinding(plugin="CPUEvict", ability=ability, lacks=(lack, lack)),
        ),
        settings="the default configuration",
        agent="http://127.0.0.1:9316",
        troubles=(Trouble(name="LS latency is high", verdict=verdict, checks=(check,), answer=LONG, advice=(LONG,)),),
    )


def test_it_fits_eighty_columns_and_loses_nothing():
    text = report_text(report(Mark.IMPOSSIBLE, Ability.IMPOSSIBLE, Verdict.TROUBLED))
    assert max(map(len, text.splitlines())) <= 80
    assert " ".join(text.split()).count(LONG.strip()) == 6
    assert "  SystemQOSResource active\n" in text
    assert "-> mount it" in text


def test_only_what_is_impossible_or_in_trouble_is_unhealthy():
    assert report(Mark.DEGRADED, Ability.DEGRADED, Verdict.UNKNOWN).healthy
    assert report(Mark.UNKNOWN, Ability.OFF).healthy
    assert not report(mark=Mark.IMPOSSIBLE).healthy
    assert not report(ability=Ability.IMPOSSIBLE).healthy
    assert not report(verdict=Verdict.TROUBLED).healthy


def test_without_an_agent_it_says_so():
    text = report_text(Report(findings=(), plugins=(), settings="x", no_agent="no agent answers at http://127.0.0.1:9316"))
    assert "Troubles were not looked into: no agent answers at http://127.0.0.1:9316" in text


def test_what_stands_in_the_kernel_is_told_knob_by_knob():
    knobs = (Knob("BE CPU weight", KnobState.IN_FORCE, "cpu:/be/cpu.shares 2"), Knob("BE memory.high", KnobState.IMPOSSIBLE, LONG))
    text = report_text(replace(report(), knobs=knobs))
    assert "  BE CPU weight     in force     cpu:/be/cpu.shares 2\n" in text
    assert "  BE memory.high    not possible the kernel refuses" in text
