"""One moment of the agent as a screen: what it sees and does now. In: what /status and /decisions say. Out: rich renderables."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from rich.console import Group, RenderableType
from rich.text import Text

from qosmanager.cli.folding import folded
from qosmanager.cli.pod_table import pod_table, rows_wanted
from qosmanager.documents.quantities import shown_bytes
from qosmanager.model.actions import KnobState
from qosmanager.model.count import counted
from qosmanager.views.cluster import ClusterView
from qosmanager.views.decisions import Entry, amounts, runs
from qosmanager.views.judgement import PressureView
from qosmanager.views.reports import PAUSED, consequence, thrift_text
from qosmanager.views.shadow import ShadowView
from qosmanager.views.status import Status
from qosmanager.views.suspects import attribution_text

LEVEL_STYLE = {"LOW": "green", "MEDIUM": "yellow", "HIGH": "dark_orange", "CRITICAL": "red", "EMERGENCY": "bold red"}
ASKED_DECISIONS = 60  # enough for the last few when a slow rise takes many steps
_ALARM = "bold red"
_NOTICE = "bold yellow"
_BAR = 10
_NAME = 8  # columns of a line's name and a space
_HANG = 9  # columns of a time and a space
_ORIGINS = {"api": "API server", "kubelet": "kubelet"}
_LOUD = frozenset({"evict", "conflict", "plugin_failed", "degraded", "paused", "be_starving", "cycle_failed", "reload_refused", "problem"})


class Moment(Struct, frozen=True, kw_only=True):
    """What is shown: the agent's status, its last decisions, and, when it no longer answers, why."""

    status: Status
    decisions: tuple[Entry, ...]
    trouble: str = ""


class Room(Struct, frozen=True):
    """How much fits: columns, and lines (None: as many as it takes, and long lines are folded instead of cut)."""

    width: int
    height: int | None = None


def screen(moment: Moment, room: Room) -> RenderableType:
    """Return the whole screen."""
    status = moment.status
    head = [*_title(status), *_alarms(moment), *_services(status), *_notices(status), *_agent(status), *_node(status), *_levels(status)]
    actions = list(_actions(moment.decisions, _shown_actions(room), room))
    left = None if room.height is None else room.height - len(head) - len(actions) - 3
    pods: list[RenderableType] = [*(_fitted(line, room, _NAME) for line in head), Text("")]
    if status.pods:
        pods.append(pod_table(status, room.width, rows_wanted(status.pods, left)))
    else:
        pods.append(Text("no pods: nothing is declared, and kubelet's tree holds none", style="dim"))
    return Group(*pods, Text(""), *actions)


def span(seconds: float) -> str:
    """Write a length of time with at most two units: 45 s, 12 min, 3 h 4 min, 5 d 2 h."""
    whole = int(seconds)
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min" if minutes else f"{whole} s"


def _fitted(line: Text, room: Room, hang: int) -> Text:
    if room.height is None:
        line = folded(line, room.width, hang)
        line.overflow = "fold"
    else:
        line = _cut(line, room.width, hang)
        line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _cut(line: Text, width: int, hang: int) -> Text:
    """Cut a line that is too long between two words: half a number would be taken for a whole one."""
    if line.cell_len <= width:
        return line
    end = line.plain.rfind(" ", hang + 1, width - 1)
    if end < 0:
        return line
    head = line[:end]
    head.rstrip()
    return head.append(" …")


def _title(status: Status) -> Iterator[Text]:
    yield Text.assemble(("qosmanager ", "bold"), f"{status.version}, pid {status.pid}, up {span(status.uptime)}, now {status.time[11:19]}Z")


def _alarms(moment: Moment) -> Iterator[Text]:
    status = moment.status
    if moment.trouble:
        yield Text(f"NO ANSWER since {status.time[11:19]}Z: {moment.trouble}", style=_ALARM)
    if status.pause is not None:
        why = f": {status.pause.reason}" if status.pause.reason else ""
        yield Text(f"PAUSED for {span(status.pause.left)} more by {status.pause.by}{why}", style=_NOTICE)
    for reason in status.degraded:
        if reason != PAUSED or status.pause is None:
            yield Text(f"DEGRADED {consequence(reason)}: {reason}", style=_ALARM)
    for plugin, error in status.failures.items():
        yield Text(f"FAILED {plugin}: {error}", style=_ALARM)
    if status.assessment.oom_reasons:
        yield Text(f"OOM RISK {'; '.join(status.assessment.oom_reasons)}", style=_ALARM)


def _services(status: Status) -> Iterator[Text]:
    for each in status.attributions:
        if each.suspects:
            yield Text(f"SUFFERS {each.pod}: {attribution_text(each).removeprefix('it suffers; ')}", style=_NOTICE)
    if status.fast_path is not None and status.fast_path.deaf:
        yield Text(f"NO FAST PATH {status.fast_path.deaf}", style="yellow")


def _notices(status: Status) -> Iterator[Text]:
    if status.be.starving:
        yield Text(f"STARVING BE has been held at its floor for {span(status.be.floor_for or 0.0)}", style=_ALARM)
    if status.be.oscillating:
        yield Text("OSCILLATING the BE limit goes up and down; it rises at half speed", style=_NOTICE)
    if status.own is not None and status.own.thrift:
        yield Text(f"READS LESS {thrift_text(status.own)}", style=_NOTICE)
    yield from _isolation(status)
    if status.dry_run:
        yield Text("DRY RUN it decides and reports, and changes nothing", style=_NOTICE)
    if status.recording is not None and status.recording.stopped:
        yield Text(f"NOT RECORDED any more in {status.recording.directory}: {status.recording.stopped}", style=_NOTICE)
    if status.shadow is not None:
        yield Text(f"BESIDE {_shadow(status.shadow)}", style="yellow")
    held_back = [f"{plugin} {mode}" for plugin, mode in status.plugins.items() if mode != "enforce"]
    if held_back:
        yield Text(f"NOT ENFORCED {', '.join(held_back)}", style="yellow")


def _isolation(status: Status) -> Iterator[Text]:
    """Say which standing properties are in force, and which are refused and why; what is not possible here the doctor tells."""
    stands = [knob.name for knob in status.isolation if knob.state is KnobState.IN_FORCE]
    if stands:
        yield Text(f"IN THE KERNEL {', '.join(stands)}", style="dim")
    for knob in status.isolation:
        if knob.state is KnobState.REFUSED:
            yield Text(f"REFUSED {knob.name}: {knob.detail}", style=_NOTICE)


def _shadow(shadow: ShadowView) -> str:
    """Say what another configuration would do."""
    if shadow.failure:
        return f"{shadow.config} is not decided any more: {shadow.failure}"
    now = "; ".join(shadow.differences) or "would do the same now"
    evicted = sum(shadow.evictions.values())
    total = f"; so far it differed in {shadow.differing} of {counted(shadow.cycles, 'cycle')}" if shadow.differing else ""
    return f"{shadow.config}: {now}{total}" + (f" and would have evicted {evicted}" if evicted else "")


def _agent(status: Status) -> Iterator[Text]:
    took = f"cycle {status.cycle} took {status.durations_ms.get('total', 0.0):.1f} ms"
    own = status.own
    cpu = "" if own is None or own.cpu is None else f", uses {own.cpu:.3f} cores"
    memory = "" if own is None or own.rss is None else f", holds {shown_bytes(own.rss)}"
    yield Text.assemble(_name("agent"), f"{took}{cpu}{memory}")
    if status.cluster is not None:
        yield _cluster(status.cluster)


def _cluster(cluster: ClusterView) -> Text:
    count = f"{counted(cluster.pods, 'pod')}"
    told = f"{count} of {cluster.node_name} by the {_ORIGINS.get(cluster.origin, cluster.origin)}, {span(cluster.age)} old"
    return Text.assemble(_name("cluster"), told, *(f"; {problem}" for problem in cluster.problems[:1]))


def _node(status: Status) -> Iterator[Text]:
    node = status.node
    used, cpus = node.get("cpu_usage"), node.get("cpus") or 0.0
    cpu = "CPU not measured" if used is None else f"{used:.2f} of {counted(cpus, 'CPU')}"
    total, available = node.get("memory_total"), node.get("memory_available")
    memory = "not measured" if total is None or available is None else f"{shown_bytes(total - available)} of {shown_bytes(total)} in use"
    load = node.get("load1")
    yield Text.assemble(_name("node"), f"{cpu}, load {'-' if load is None else f'{load:.1f}'}, memory {memory}")


def _levels(status: Status) -> Iterator[Text]:
    assessment, be = status.assessment, status.be
    yield _pressure("cpu", assessment.cpu, status.node.get("cpu_psi_some"))
    yield _pressure("memory", assessment.memory, status.node.get("memory_psi_some"))
    yield _pressure("io", assessment.io, status.node.get("io_psi_some"))
    held = f" for {span(assessment.effective_for)}" if assessment.effective_for is not None else ""
    by = f" by {', '.join(assessment.slo_violated_by)}" if assessment.slo_violated_by else ""
    yield Text.assemble(
        _name("level"),
        (assessment.effective_level, LEVEL_STYLE.get(assessment.effective_level, "")),
        f"{held}, matrix {assessment.matrix['action']}, SLO ",
        (f"{assessment.slo}{by}", "red" if assessment.slo == "violated" else ""),
    )
    limit = "no limit in force" if be.limit is None else f"{_number(be.usage)} of {be.limit:.2f} cores"
    limit += " (only observed)" if be.observed and be.limit is not None else ""
    cpus = f", CPUs {be.cpus}" if be.cpus else ""
    ending = f", {be.terminating} ending" if be.terminating else ""
    unknown = f", {be.unmeasured} not measured" if be.unmeasured else ""
    yield Text.assemble(_name("BE"), f"{limit}{cpus}; {counted(be.pods, 'pod')}{ending}{unknown}")


def _pressure(name: str, pressure: PressureView, stalled: float | None) -> Text:
    style = LEVEL_STYLE.get(pressure.level, "")
    filled = round(min(100.0, max(0.0, pressure.score)) / 100 * _BAR)
    terms = "  ".join(f"{factor} {points:.1f}" for factor, points in pressure.factors.items())
    mean = f" mean {pressure.mean:.1f}" if pressure.mean is not None else ""
    return Text.assemble(
        _name(name),
        ("█" * filled + "░" * (_BAR - filled), style),
        (f" {pressure.score:5.1f} {pressure.level:<9}", style),
        f"stalled {'-' if stalled is None else f'{stalled:.0f} %':>5}",
        (f"{mean}  {terms}", "dim"),
    )


def _shown_actions(room: Room) -> int:
    if room.height is None:
        return 5
    return max(1, min(5, (room.height - 16) // 5))


def _actions(entries: tuple[Entry, ...], most: int, room: Room) -> Iterator[RenderableType]:
    yield Text("last actions and events, newest first", style="bold")
    found = list(reversed(runs(entries)[-most:]))
    if not found:
        yield Text("none yet", style="dim")
    for run in found:
        yield _fitted(_action(run), room, _HANG)
        yield _fitted(Text(" " * _HANG + run[-1].reason, style="dim"), room, _HANG)


def _action(run: list[Entry]) -> Text:
    last = run[-1]
    what = " ".join(part for part in (last.plugin or "", last.kind, last.subject, amounts(run)) if part)
    mode = f" ({last.mode})" if last.mode not in (None, "enforce") else ""
    failed = last.result in ("failed", "refused")
    verdict = last.outcome.verdict if last.outcome else last.result or ""
    style = _ALARM if last.kind in _LOUD or failed else "bold"
    shown = (f"  {verdict}", "green" if verdict == "effective" else "yellow") if verdict else ""
    return Text.assemble((last.time[11:19] + " ", "dim"), (what, style), mode, shown)


def _name(name: str) -> tuple[str, str]:
    return f"{name:<7} ", "bold"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
