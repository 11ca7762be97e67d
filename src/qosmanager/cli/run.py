"""`qosmanager run`: the agent."""

from __future__ import annotations

import faulthandler
import logging
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from msgspec import Struct
from msgspec.structs import replace

import qosmanager
from qosmanager.cli.audit import NAME as AUDIT_NAME
from qosmanager.cli.audit import audited, opened
from qosmanager.cli.cluster_options import ClusterOptions, cluster_options, taken_from
from qosmanager.cli.conclusion import concluded
from qosmanager.cli.console import say
from qosmanager.cli.daemon import (
    ObservedSources,
    ProblemWatch,
    Reloader,
    Reporter,
    Seen,
    Sources,
    StateKeeper,
    leave,
    run_until_signal,
    taken_over,
)
from qosmanager.cli.errors import CannotRunError
from qosmanager.cli.log import log_to_standard_error
from qosmanager.cli.parts import Measuring, Wanted, acting, alone, measuring, own_node
from qosmanager.cli.recording import SizeType, Tape
from qosmanager.cli.signals import Signals
from qosmanager.cli.supervision import Supervised
from qosmanager.config.settings import Settings
from qosmanager.engine.cycle import Edge
from qosmanager.engine.fast_path import Ways
from qosmanager.engine.runner import Listener, Runner
from qosmanager.engine.thrift import Thrift
from qosmanager.execute.actuator import Actuator
from qosmanager.linux.agent_file import RunningAgent, publish, withdraw
from qosmanager.linux.audit_log import AuditLog
from qosmanager.linux.boot import LinuxBoot
from qosmanager.linux.clock import LinuxClock
from qosmanager.linux.memory_left import MemoryLeft
from qosmanager.linux.memory_lock import lock_memory
from qosmanager.linux.own_meter import ProcessMeter
from qosmanager.linux.pause_file import PauseFile
from qosmanager.linux.service_manager import ServiceManager
from qosmanager.linux.stall_alarm import StallAlarm
from qosmanager.model.actions import Knob
from qosmanager.model.state import State
from qosmanager.ports import JournalError
from qosmanager.views.beside import Beside
from qosmanager.views.log_lines import pairs
from qosmanager.views.plan_text import Step, plan_text
from qosmanager.views.pods_text import pods_text

if TYPE_CHECKING:
    from qosmanager.cli.kubernetes import Joined
    from qosmanager.cli.shadowing import Shadowed
    from qosmanager.http.board import Board
    from qosmanager.http.server import Server

_LOG = logging.getLogger("qosmanager")

LISTEN = "127.0.0.1:9316"

EXAMPLES = """\b
Examples:
  qosmanager run --workloads /etc/qosmanager/workloads.yaml
  qosmanager run --audit-log /var/log/qosmanager/audit.log
  qosmanager run --config qos.yaml --dry-run           decide and log, change nothing
  qosmanager run --record /var/lib/qosmanager/record    keep what every cycle saw and did, for replay
  qosmanager run --kubernetes --config /etc/qosmanager/koordlet-config.yaml   in a pod on each node of a cluster
  qosmanager run --shadow other.yaml                   what would another configuration do?
  qosmanager run --once --dry-run                      one cycle, explained, then stop
  qosmanager run --node-cgroup demo --workloads w.yaml  the node is this cgroup
"""


class Options(Struct, frozen=True, kw_only=True):
    """The options of the command, as given."""

    config: Path | None
    workloads: tuple[Path, ...]
    node_cgroup: str | None
    cgroup_root: Path
    state_dir: Path
    audit_log: Path | None
    listen: str | None
    on_stop: str
    dry_run: bool
    once: bool
    record: Path | None
    record_keep: int
    shadow: Path | None
    beside_koordlet: bool = False
    cluster: ClusterOptions | None = None

    @property
    def sources(self) -> Sources:
        """What a person writes, as it is to be read."""
        kind = ObservedSources if self.dry_run else Sources
        return kind(self.config, self.workloads, self.shadow)

    @property
    def audit_path(self) -> Path | None:
        """Where evictions are written down; None: nobody is evicted."""
        return None if self.dry_run else self.audit_log or self.state_dir / AUDIT_NAME


@click.command(short_help="Run the agent.", epilog=EXAMPLES)
@click.option("--config", type=click.Path(path_type=Path), help="Configuration file; it is read again when it changes.")
@click.option("--workloads", multiple=True, type=click.Path(path_type=Path), help="Workload file; may be given more than once.")
@click.option("--node-cgroup", metavar="PATH", help="Take this cgroup for the node: its CPUs, its memory limit, what is used in it.")
@click.option(
    "--cgroup-root", default="/sys/fs/cgroup", show_default=True, type=click.Path(path_type=Path), help="Where the cgroup hierarchies are."
)
@click.option(
    "--state-dir", default="/run/qosmanager", show_default=True, type=click.Path(path_type=Path), help="Journal and lock; on tmpfs."
)
@click.option(
    "--audit-log",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="One line per eviction, as JSON; five files of 10 MB at most. [default: audit.log in the state directory]",
)
@click.option("--listen", metavar="HOST:PORT", help=f"Where HTTP listens, or off; not with --once. [default: {LISTEN}]")
@click.option(
    "--on-stop",
    default="restore",
    show_default=True,
    type=click.Choice(["restore", "lease"]),
    help="restore: put every original back. lease: end bursts, keep the BE limits for 120 s, for the next start to take over.",
)
@click.option(
    "--record", metavar="DIR", type=click.Path(path_type=Path), help="Record every cycle in this directory, for `qosmanager replay`."
)
@click.option(
    "--record-keep",
    metavar="SIZE",
    type=SizeType(),
    default="1Gi",
    show_default=True,
    help="What recordings may take there; the oldest files go first.",
)
@click.option(
    "--shadow",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Decide under this configuration too, act on none of it, tell what differs.",
)
@cluster_options
@click.option("--beside-koordlet", is_flag=True, help="Start although koordlet runs here: its limits, bursts and evictions are off.")
@click.option("--dry-run", is_flag=True, help="Decide and report; write nothing and evict nobody.")
@click.option("--once", is_flag=True, help="One cycle, explained on standard output, then stop as --on-stop says.")
def run(**given: object) -> None:
    """Run the agent: measure, score, decide, act and verify every second.

    Workloads are those of the workload files and those of kubelet's tree in the cgroup hierarchy, if there is one; with --kubernetes the
    API server, or kubelet, says what its pods are. SIGHUP or a changed file reloads; SIGTERM and SIGINT stop.
    """
    cluster = taken_from(given)
    options = Options(**given, cluster=cluster)  # type: ignore[arg-type]  # click hands over exactly the options declared above
    with ExitStack() as stack:
        stack.callback(log_to_standard_error(_LOG).close)
        serve(options, stack)


class Wired(Struct, frozen=True):
    """The parts of a run, put together, and what it begins with."""

    edge: Edge
    actuator: Actuator
    audit: AuditLog | None
    sources: Sources
    seen: Seen
    measured: Measuring
    settings: Settings
    state: State
    signals: Signals
    renew: Callable[[], bool]
    tape: Tape | None
    shadow: Settings | None
    alarm: StallAlarm
    knobs: Callable[[], tuple[Knob, ...]]

    def listened(self, behind: Listener, stack: ExitStack) -> Listener:
        """Put the recorder, if there is one, before a listener: nothing that fails there may hide a cycle from it."""
        return behind if self.tape is None else self.tape.listen(self.state, behind, stack)


def serve(options: Options, stack: ExitStack) -> None:
    """Wire the parts together and run. Raises DocumentError or CannotRunError for what a user can mend."""
    if options.once and options.shadow is not None:
        raise CannotRunError("--shadow compares from cycle to cycle; --once is a single one")
    if options.once and options.listen not in (None, "off"):
        raise CannotRunError("--listen and --once do not go together: a single cycle is explained on standard output and served to nobody")
    clock = LinuxClock()
    signals = Signals()
    options.sources.read()  # what is wrong with it is said before anybody is waited for
    cluster = None if options.cluster is None else _joined(options, options.cluster, clock, stack)
    sources = options.sources if cluster is None else cluster.sources(options.sources)
    seen = sources.seen()
    settings, rules, shadow = sources.read()
    # Before anything is taken over: a place that cannot be listened on must not cost a predecessor's limits.
    outlook = None if options.once else _outlook(options, settings, clock, stack)
    if not (options.dry_run or options.beside_koordlet):
        alone()
    hands = acting(options.cgroup_root, None if options.dry_run else options.state_dir, stack, cluster)
    wanted = Wanted(node_cgroup=options.node_cgroup, rules=rules, settings=settings, cluster=cluster)
    measured = measuring(wanted, hands, clock, stack)
    tape = None if options.record is None else Tape(options.record, options.record_keep, measured.readings)
    if not options.dry_run:
        own_node(options.node_cgroup, hands.hierarchies, stack)
    audit = None if options.audit_path is None else opened(options.audit_path, options.state_dir)
    try:
        adopted = hands.actuator.adopt()
    except JournalError as error:
        raise CannotRunError(str(error)) from None
    state = taken_over(adopted, clock.monotonic(), settings, evicted=audit is not None and audit.left is not None)
    thrift = Thrift(ProcessMeter(), measured.readings.spare)
    readings = measured.readings if tape is None else tape.readings
    local = PauseFile(options.state_dir, LinuxBoot())
    edge = Edge(readings, hands.actuator, clock, local if cluster is None else cluster.pauses(local), thrift)
    # Of a group that stands for the node, what is available takes a cycle to find out.
    memory = MemoryLeft()
    alarm = StallAlarm(hands.hierarchies, memory.read if options.node_cgroup is None else None)
    stack.callback(memory.close)
    stack.callback(alarm.close)
    wired = Wired(
        edge, hands.actuator, audit, sources, seen, measured, settings, state, signals, hands.renew, tape, shadow, alarm, hands.knobs
    )
    try:
        state = _once(stack, wired) if outlook is None else _run(options, stack, wired, outlook)
    finally:  # whatever ends the run, what its cycles have written is put back or left on a lease
        all_well = leave(hands.actuator, options.on_stop, state)
        if cluster is not None:
            cluster.leave(options.on_stop)
    if not all_well:
        raise CannotRunError("not everything could be put back; the log names the files, `qosmanager restore` tries again", code=1)


def _joined(options: Options, wanted: ClusterOptions, clock: LinuxClock, stack: ExitStack) -> Joined:
    """Listen to the cluster. Whoever asks for none has nothing of it in memory."""
    from qosmanager.cli.kubernetes import join  # noqa: PLC0415

    if wanted.config_map is not None and options.config is not None:
        raise CannotRunError("--config and --config-map do not go together: there is one configuration")
    return join(wanted, None if options.dry_run else options.state_dir, clock, stack)


def _once(stack: ExitStack, wired: Wired) -> State:
    """Measure twice, so that there are rates, and explain what one cycle decides."""
    silent = _Silent()
    wired.measured.readings.sample()
    time.sleep(wired.settings.sync_period)
    edge, audited_too = _audited(wired, silent, stack)
    runner = Runner(edge, wired.settings, wired.state, wired.listened(audited_too, stack))
    record = runner.once()
    if record is None:
        raise CannotRunError(f"the cycle failed: {silent.error}", code=1)
    reading, assessment, plan = record.snapshot, record.assessment, record.plan
    step = Step(before=wired.state, after=record.state, snapshot=reading, assessment=assessment, plan=plan, settings=wired.settings)
    try:
        say(f"{plan_text(step)}\n{pods_text(reading.pods, wired.measured.readings.problems)}".rstrip("\n"))
    finally:  # nobody is left half evicted because nobody reads that
        conclusion = concluded(wired.actuator, wired.edge.clock, lambda: wired.signals.caught != 0)
        audited_too.cycle_done(conclusion.after(record), wired.settings)
    for line in conclusion.lines(record):
        say(line)
    return record.state


class _Silent:
    """Listens to a single cycle."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    def cycle_done(self, record: object, settings: Settings) -> None:
        """The record is returned to the caller anyway."""

    def cycle_failed(self, error: Exception) -> None:
        self.error = error


class Outlook(NamedTuple):
    """What others see of a run: the board, and the server that shows it (None: --listen off)."""

    board: Board
    server: Server | None


def _outlook(options: Options, settings: Settings, clock: LinuxClock, stack: ExitStack) -> Outlook:
    """Take the place to listen on; nothing is answered yet. Raises CannotRunError."""
    # The server is imported where it is needed: the other commands stay light.
    from qosmanager.http.board import Board  # noqa: PLC0415
    from qosmanager.http.server import Listen, ListenError, Server  # noqa: PLC0415
    from qosmanager.views.status import About  # noqa: PLC0415

    about = About(version=qosmanager.__version__, pid=os.getpid(), started=clock.wall(), dry_run=options.dry_run, begun=clock.monotonic())
    board = Board(about, settings)
    try:
        listen = Listen.parse(options.listen or LISTEN)
        server = None if listen is None else Server(board, listen)
    except ListenError as error:
        raise CannotRunError(str(error)) from None
    if server is not None:
        stack.callback(server.stop)
    return Outlook(board, server)


def _run(options: Options, stack: ExitStack, wired: Wired, outlook: Outlook) -> State:
    board, url = outlook.board, None
    if outlook.server is not None:
        outlook.server.start()
        url = outlook.server.url
    keeper = StateKeeper(wired.renew, lambda: _say_where(options, url))
    if not options.dry_run:
        _say_where(options, url)
        stack.callback(withdraw, options.state_dir)
    manager = ServiceManager.of(os.environ)
    stack.callback(manager.close)
    cluster = wired.measured.cluster
    reporter = Reporter(board) if cluster is None or options.dry_run else cluster.told(Reporter(board), stack)
    edge, audited_too = _audited(wired, reporter, stack)
    listener = Supervised(audited_too, manager)
    shadowed = _shadowed(options, wired, listener)
    readings = wired.measured.readings
    ways = Ways(wired.alarm, lambda: readings.placement, readings.hurry)
    runner = Runner(edge, wired.settings, wired.state, wired.listened(shadowed or listener, stack), ways)

    def use(fresh: Settings) -> None:
        wired.measured.use_settings(fresh)
        runner.use(fresh)

    reloader = Reloader(wired.sources, board, use, wired.measured.use_rules, listener.reloading)
    reloader.in_force = wired.seen
    reloader.use_shadow = None if shadowed is None else shadowed.use
    reloader.refused = None if cluster is None else cluster.refused
    tape = wired.tape
    board.show(
        lambda: Beside(
            recording=tape.view() if tape else None,
            shadow=shadowed.view() if shadowed else None,
            fast_path=runner.fast_path,
            cluster=wired.measured.view(),
            isolation=wired.knobs(),
        )
    )
    _LOG.info(
        pairs(
            "Started", version=qosmanager.__version__, pid=os.getpid(), http=url or "off", dry_run=options.dry_run, on_stop=options.on_stop
        )
    )
    _hold_memory()
    watch = ProblemWatch(board, lambda: (*readings.problems, *(cluster.problems if cluster else ())))
    number = run_until_signal(runner, wired.signals, reloader, (watch.look, keeper.look))
    manager.stopping(f"signal {number}: leaving as --on-stop {options.on_stop} says")
    _LOG.info(pairs("Stopping", signal=number, cycles=runner.number))
    return runner.state


def _shadowed(options: Options, wired: Wired, behind: Listener) -> Shadowed | None:
    if options.shadow is None or wired.shadow is None:
        return None
    from qosmanager.cli.shadowing import Shadowed  # noqa: PLC0415 - most agents have no other configuration beside them

    return Shadowed(options.shadow, wired.shadow, wired.state, behind)


def _hold_memory() -> None:
    """Keep the agent's memory in memory, and have a hang that the service manager ends with SIGABRT say where it was."""
    faulthandler.enable()
    why_not = lock_memory()
    _LOG.info(pairs("MemoryLocked") if not why_not else pairs("MemoryNotLocked", reason=why_not))


def _audited(wired: Wired, behind: Listener, stack: ExitStack) -> tuple[Edge, Listener]:
    """Put the audit log, if there is one, before a listener, and beside the hands."""
    if wired.audit is None:
        return wired.edge, behind
    auditor = audited(wired.audit, behind, stack)
    return replace(wired.edge, witness=auditor.about_to_evict), auditor


def _say_where(options: Options, url: str | None) -> None:
    """Let other commands find this agent. One that cannot say so runs all the same: they have --url."""
    try:
        publish(options.state_dir, RunningAgent.this_process(url, options.audit_path))
    except OSError as error:
        _LOG.warning(pairs("NotFindable", state_dir=options.state_dir, error=error.strerror or error))
