"""`qosmanager uninstall`: stop, put everything back, show it, remove what was installed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from qosmanager.cli.errors import USAGE, CannotRunError
from qosmanager.cli.options import state_dir_option
from qosmanager.cli.restore import restore
from qosmanager.linux.agent_file import running_agent
from qosmanager.linux.service_control import ControlError, ServiceControl
from qosmanager.linux.service_files import CONFIGURATION, UNIT_DIRECTORY, UNITS, placed_units

# Those names, and with more after a dot: half written, or set aside.
_STATE = ("journal.json", "lock", "agent.json", "pause.json", "forecast.json", "evictions.json", "kubernetes.json", "config-map.yaml")
_LOGS = Path("var/log/qosmanager")
_STOPPED = ("qosmanager-restore.timer", "qosmanager.service")


@click.command(
    short_help="Stop the agent, put everything back, remove its units.",
    epilog="""\b
Examples:
  qosmanager uninstall                 asks before it begins
  qosmanager uninstall --yes           for scripts
  qosmanager uninstall --yes --purge   configuration and audit log too
""",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--purge", is_flag=True, help="Remove the configuration and the audit log too.")
@click.option(
    "--prefix",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("/"),
    show_default=True,
    help="Where install-service put its files.",
)
@click.option(
    "--cgroup-root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path("/sys/fs/cgroup"),
    show_default=True,
    help="Where the cgroup hierarchies are mounted.",
)
@state_dir_option
@click.pass_context
def uninstall(context: click.Context, *, yes: bool, purge: bool, prefix: Path, cgroup_root: Path, state_dir: Path) -> None:
    """Stop the agent, put back what it changed, and remove its units and its state.

    The service is stopped and taken out of the boot. An agent that somebody started by hand is not stopped: its process is named. What was
    changed is put back as by `qosmanager restore`, and each file is shown as it is then. Only when all is back is anything removed.

    The configuration and the audit log stay unless --purge is given; the program itself is removed the way it was installed.

    Exit code: 0 it is gone; 1 something could not be put back or removed; 2 wrong usage, or an agent runs.
    """
    try:
        if not yes:
            _ask(prefix, state_dir)
        _stop(prefix)
        if (agent := running_agent(state_dir)) is not None:
            raise CannotRunError(f"an agent that is no service runs here, process {agent.pid}; stop it first: kill {agent.pid}")
        _restore(context, state_dir, cgroup_root)
        _remove(prefix, state_dir, purge=purge)
    except ControlError as error:
        raise CannotRunError(str(error), code=1) from None
    except OSError as error:
        hint = "; root can uninstall" if isinstance(error, PermissionError) else ""
        raise CannotRunError(f"{error.filename}: {error.strerror or error}{hint}", code=1) from None


def _ask(prefix: Path, state_dir: Path) -> None:
    if not sys.stdin.isatty():
        raise CannotRunError("nobody can be asked here; --yes goes without")
    for path in (*placed_units(prefix), *_state_files(state_dir)):
        click.echo(f"to remove {path}")
    if not click.confirm("Stop the agent, put everything back and remove this?"):
        raise CannotRunError("nothing was changed", code=1)


def _stop(prefix: Path) -> None:
    control = ServiceControl()
    there = {path.name for path in placed_units(prefix)}
    units = [name for name in _STOPPED if name in there]
    if prefix == Path("/") and control.runs and units:
        control.disable_now(*units)
        for name in units:
            click.echo(f"stopped   {name}")


def _restore(context: click.Context, state_dir: Path, cgroup_root: Path) -> None:
    try:
        context.invoke(restore, if_expired=False, state_dir=state_dir, cgroup_root=cgroup_root)
    except SystemExit as ended:
        if ended.code not in (0, None):
            raise CannotRunError("not everything is back, so nothing is removed: the journal is still needed", code=1) from None
    except CannotRunError as error:
        raise CannotRunError(f"nothing is removed: {error}", code=error.code if error.code == USAGE else 1) from None


def _remove(prefix: Path, state_dir: Path, *, purge: bool) -> None:
    units = placed_units(prefix)
    for path in (*units, *_state_files(state_dir)):
        path.unlink()
        click.echo(f"removed   {path}")
    if prefix == Path("/") and units:
        ServiceControl().reload()
    theirs = [prefix / UNIT_DIRECTORY / f"{name}.d" for name in UNITS] + [prefix / CONFIGURATION, prefix / _LOGS]
    audit = sorted(state_dir.glob("audit.log*")) if state_dir.is_dir() else []
    for path in (*audit, *theirs):
        if path.exists() and purge:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            click.echo(f"removed   {path}")
        elif path.exists():
            click.echo(f"left      {path} (yours; --purge removes it)")
    _remove_state_directory(state_dir)


def _remove_state_directory(state_dir: Path) -> None:
    if not state_dir.is_dir():
        return
    left = sorted(path.name for path in state_dir.iterdir())
    if left:
        click.echo(f"left      {state_dir}, which holds {', '.join(left)}")
        return
    state_dir.rmdir()
    click.echo(f"removed   {state_dir}")


def _state_files(state_dir: Path) -> Iterator[Path]:
    if state_dir.is_dir() and not state_dir.is_symlink():
        yield from sorted(path for path in state_dir.iterdir() if path.is_file() and _is_state(path.name))


def _is_state(name: str) -> bool:
    return any(name == known or name.startswith(f"{known}.") for known in _STATE)
