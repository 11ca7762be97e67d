"""`qosmanager pause` and `qosmanager resume` (specification, section 2)."""

from __future__ import annotations

import os
import pwd
import time
from pathlib import Path

import click

from qosmanager.cli.errors import CannotRunError
from qosmanager.cli.options import Duration, state_dir_option
from qosmanager.documents.quantities import Rule, shown_duration, shown_time
from qosmanager.linux.agent_file import running_agent
from qosmanager.linux.boot import LinuxBoot
from qosmanager.linux.pause_file import PauseFile
from qosmanager.model.pause import Pause

_ALLOWED = Rule(unit="duration", low=1, high=7 * 24 * 3600)
_LONGEST_REASON = 500  # characters


@click.command(
    epilog="""\b
Examples:
  qosmanager pause 30m
  qosmanager pause 2h --reason "kernel upgrade, ticket 4711"
  qosmanager pause 10m                    a second pause takes the place of the first"""
)
@click.argument("length", metavar="DURATION", type=Duration(_ALLOWED))
@click.option("--reason", default="", metavar="TEXT", help="Why, for whoever looks at the node meanwhile.")
@state_dir_option
def pause(length: float, reason: str, state_dir: Path) -> None:
    """Pause the agent of this node.

    DURATION is 1s to 168h, such as 30m or 1h30m. Bursts end, the BE limits stay as they are, and nothing else changes until the time is
    over or `qosmanager resume` is called. The agent goes on measuring and reporting; status, top, /status, /readyz, the metrics and the log
    say that it is paused. A pause outlives a restart of the agent, but no reboot.

    It may be given while no agent runs: one that starts before the time is over is paused. Only root or the owner of the state directory
    may.

    Exit code: 0 it is in force; 1 it could not be written; 2 wrong usage.
    """
    if len(reason) > _LONGEST_REASON or not reason.isprintable():
        raise click.BadParameter(f"at most {_LONGEST_REASON} characters on one line are allowed", param_hint="--reason")
    boot, now = LinuxBoot(), time.time()
    asked = Pause(boot_id=boot.id, ends=boot.time() + length, since=now, until=now + length, by=_who(), reason=reason)
    try:
        PauseFile(state_dir, boot).save(asked)
    except OSError as error:
        raise _not_written(state_dir, error) from None
    click.echo(f"paused for {shown_duration(length)}, until {shown_time(round(asked.until))}; {_taken_up(state_dir)}")


@click.command(
    epilog="""\b
Examples:
  qosmanager resume"""
)
@state_dir_option
def resume(state_dir: Path) -> None:
    """End a pause before its time.

    Exit code: 0 no pause is in force (also when none was); 1 it could not be ended; 2 wrong usage.
    """
    file = PauseFile(state_dir, LinuxBoot())
    before = file.current()
    try:
        file.clear()
    except OSError as error:
        raise _not_written(state_dir, error) from None
    click.echo("nothing to resume: no pause is in force" if before is None else f"resumed; {_taken_up(state_dir)}")


def _taken_up(state_dir: Path) -> str:
    agent = running_agent(state_dir)
    if agent is None:
        return "no agent runs now, one that starts goes by it"
    return f"the agent (process {agent.pid}) goes by it from its next cycle on"


def _who() -> str:
    """Return the user who asks, for people: with sudo, the one before it."""
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = f"uid {uid}"
    before = os.environ.get("SUDO_USER", "")
    return f"{before} as {name}" if before and before != name and before.isprintable() else name


def _not_written(state_dir: Path, error: OSError) -> CannotRunError:
    hint = "; only its owner or root may pause and resume" if isinstance(error, PermissionError) else ""
    return CannotRunError(f"--state-dir {state_dir}: {error.strerror or error}{hint}", code=1)
