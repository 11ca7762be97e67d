"""The whole demo: on this machine where that can be, else on recorded readings; the results at its end.

In: the options. Out: an exit code: 0, 1 when not everything is back at its original, 128 + signal when it was ended.
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import tempfile
from pathlib import Path
from types import FrameType

from msgspec import Struct
from rich.console import Console

from qosmanager import __version__
from qosmanager.config.parse import load_settings
from qosmanager.demo.groups import Groups, GroupsError, remove_stale
from qosmanager.demo.live import CONFIG, MEMORY, SETTINGS, SLO, LiveDemo, Outcome
from qosmanager.demo.recorded import RECORDED_SECONDS, RecordedDemo
from qosmanager.demo.recording import Recording, shipped
from qosmanager.demo.screen import closing
from qosmanager.demo.show import Lines, Screen, Show
from qosmanager.demo.story import DEFAULT_SECONDS, Interrupted, stages
from qosmanager.linux.cgroup import CgroupRootError, Hierarchies
from qosmanager.model.count import counted

QUIET, SURGE = 100.0, 200.0  # requests/s for each CPU: about 25 and 48 percent of the node
MAX_CPUS = 4  # one service process needs no more


class Options(Struct, frozen=True, kw_only=True):
    """What was asked for; `seconds` None: the usual length; `record`: where the agent records its cycles."""

    seconds: float | None
    plain: bool
    recorded: bool
    save: Path | None
    record: Path | None
    cgroup_root: Path


class Stop:
    """Remembers the first signal that asks the demo to end; any later one changes nothing, so that all is cleaned up."""

    def __init__(self) -> None:
        self.number: int | None = None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._asked)

    def _asked(self, number: int, _: FrameType | None) -> None:
        self.number = self.number or number

    def asked(self) -> bool:
        return self.number is not None


def run(options: Options) -> int:
    """Run the demo. Raises ProcessError when a process of it fails, OSError when the recording cannot be saved."""
    console = Console()
    stop = Stop()
    show = Lines(console) if options.plain or not console.is_terminal or console.is_dumb_terminal else Screen(console)
    try:
        try:
            code = _measured_here(console, show, stop, options)
        except (CgroupRootError, GroupsError) as error:
            code = _recorded(console, show, stop, options.seconds or RECORDED_SECONDS, str(error))
            if options.record is not None:
                console.print(f"nothing is recorded in {options.record}: no agent ran", highlight=False)
    except Interrupted:
        console.print("ended before its time")
    return 128 + stop.number if stop.number is not None else code


def _measured_here(console: Console, show: Show, stop: Stop, options: Options) -> int:
    if options.recorded:
        raise GroupsError("asked for with --recorded")
    if os.geteuid() != 0:
        raise GroupsError("not root, and the demo makes cgroups of its own")
    hierarchies = Hierarchies.probe(options.cgroup_root)
    for name in remove_stale(hierarchies):
        for files in Path(tempfile.gettempdir()).glob(f"{name}-*"):
            shutil.rmtree(files, ignore_errors=True)
        console.print(f"removed {name}, left behind by a demo that was killed", highlight=False)
    cpus = min(MAX_CPUS, os.cpu_count() or 1)
    groups = Groups.create(hierarchies, MEMORY)
    try:
        with LiveDemo(groups, show.moment, stop.asked, options.record) as demo, show:
            outcome = demo.run(stages(options.seconds or DEFAULT_SECONDS, QUIET * cpus, SURGE * cpus))
    finally:
        for directory in groups.left():
            console.print(f"could not remove {directory}", highlight=False)
    console.print(closing(outcome.measured, outcome.notes, outcome.proof))
    if options.save is not None:
        recorded(outcome).save(options.save)
    return 1 if outcome.proof.differ else 0


def _recorded(console: Console, show: Show, stop: Stop, seconds: float, why: str) -> int:
    recording = shipped()
    said = f"Recorded readings ({recording.machine}), decided again now. Not measured here: {why}."
    console.print(said, highlight=False)
    with show:
        RecordedDemo(recording, show.moment, stop.asked).run(seconds)
    console.print(closing(recording.measured, [said], None))
    return 0


def recorded(outcome: Outcome) -> Recording:
    """Return what the demo has measured, to be decided again elsewhere."""
    return Recording(
        version=__version__,
        machine=f"{counted(os.cpu_count() or 1, 'CPU')}, Linux {'.'.join(platform.release().split('.')[:2])}",
        settings=load_settings(CONFIG, "demo"),
        note=SETTINGS,
        slo=SLO,
        frames=outcome.frames,
        measured=outcome.measured,
    )
