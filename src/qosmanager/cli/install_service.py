"""`qosmanager install-service`: the agent as a systemd service."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from qosmanager.cli.errors import CannotRunError
from qosmanager.linux.service_control import ControlError, ServiceControl
from qosmanager.linux.service_files import Fate, Placing, place, placings, program

_DONE = {
    Fate.CREATED: "created   ",
    Fate.UPDATED: "updated   ",
    Fate.UNCHANGED: "unchanged ",
    Fate.KEPT: "kept      ",
}
_TO_DO = {**_DONE, Fate.CREATED: "to create ", Fate.UPDATED: "to update "}
_HOMES = ("/home/", "/root/", "/run/user/")  # ProtectHome=yes in the unit
_START = "systemctl enable --now qosmanager.service qosmanager-restore.timer"


@click.command(
    "install-service",
    short_help="Install the systemd units and an example configuration.",
    epilog="""\b
Examples:
  qosmanager install-service --dry-run           what would be written
  qosmanager install-service                     write it; it is not started yet
  qosmanager install-service --prefix pkg/root   into a tree, for a package
""",
)
@click.option("--dry-run", is_flag=True, help="Say what would be done; write nothing.")
@click.option(
    "--prefix",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("/"),
    show_default=True,
    help="Below this directory; systemd is told only where it is /.",
)
def install_service(*, dry_run: bool, prefix: Path) -> None:
    """Install the systemd units and, where there is none, an example configuration.

    Written are etc/systemd/system/qosmanager.service (Type=notify, watched, restarted, hardened), qosmanager-restore.service and its
    timer, which open batch work again when an agent is gone for good, and etc/qosmanager/config.yaml and workloads.yaml. The example
    only observes: nothing on the node is changed until you say enforce.

    What is yours is never overwritten: a configuration that is there is kept, and so is a unit that was changed by hand, with the
    difference printed. Use `systemctl edit` for changes that outlive an update.

    Exit code: 0 all is as shipped or yours; 1 something could not be written; 2 wrong usage.
    """
    try:
        command = program()
        wanted = placings(prefix, command)
        for placing in wanted:
            if not dry_run:
                place(placing)
            _say(placing, _TO_DO if dry_run else _DONE)
        for note in unseen(command, os.path.realpath(sys.executable)):
            click.echo(f"note      {note}")
        if not dry_run:
            _tell_systemd(prefix)
    except ValueError as error:
        raise CannotRunError(str(error)) from None
    except ControlError as error:
        raise CannotRunError(str(error), code=1) from None
    except OSError as error:
        raise CannotRunError(f"{error.filename or prefix}: {error.strerror or error}; root can install", code=1) from None


def _say(placing: Placing, words: dict[Fate, str]) -> None:
    why = ""
    if placing.fate is Fate.KEPT:
        why = " (changed by hand; the difference to ours:)" if placing.difference else " (yours)"
    click.echo(f"{words[placing.fate]}{placing.path}{why}")
    if placing.difference:
        click.echo("".join(f"    {line}\n" for line in placing.difference.splitlines()), nl=False)


def unseen(command: str, interpreter: str) -> list[str]:
    """Say which of the command and the interpreter (links resolved) the unit cannot start: it has a /tmp of its own, and no homes."""
    notes = []
    if command.startswith(("/tmp/", "/var/tmp/")):  # noqa: S108 - named, not used
        notes.append(f"{command} is in a directory that is emptied, and that the service cannot see: install it elsewhere")
    if command.startswith(_HOMES):
        notes.append(f"{command} is in a home, which the service cannot see: install it elsewhere, such as /opt/qosmanager")
    if interpreter.startswith(_HOMES):
        notes.append(f"it runs with {interpreter}, which is in a home that the service cannot see: make its venv with /usr/bin/python3")
    return notes


def _tell_systemd(prefix: Path) -> None:
    control = ServiceControl()
    if prefix != Path("/"):
        return
    if not control.runs:
        click.echo("note      systemd does not run here; the units wait until it does")
        return
    control.reload()
    click.echo("done      systemctl daemon-reload")
    click.echo(f"next      {_START}" if not control.is_active("qosmanager.service") else "next      systemctl restart qosmanager.service")
