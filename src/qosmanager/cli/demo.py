"""`qosmanager demo`: real workloads in cgroups of its own, without and with the agent, measured from outside."""

from __future__ import annotations

import os
from pathlib import Path

import click

from qosmanager.cli.errors import CannotRunError
from qosmanager.cli.options import Seconds

_SECONDS = Seconds(20, 3600)


@click.command(
    short_help="Show a service beside batch work, unmanaged and managed.",
    epilog="""\b
Examples:
  qosmanager demo                      two minutes, on a screen
  qosmanager demo --plain > demo.log   the same as lines
  qosmanager demo --recorded           no root: recorded readings, decided again""",
)
@click.option("--duration", type=_SECONDS, metavar="SECONDS", help="How long it lasts, 20 to 3600 [default: 120; recorded: 30].")
@click.option("--plain", is_flag=True, help="Lines instead of a screen; so it is anyway where there is no terminal.")
@click.option("--recorded", is_flag=True, help="Decide recorded readings again instead of measuring this machine.")
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), help="Write the managed part's readings to this file.")
@click.option(
    "--record", metavar="DIR", type=click.Path(path_type=Path), help="Have the agent record every cycle here, for `qosmanager replay`."
)
@click.option("--cgroup-root", type=click.Path(path_type=Path), default="/sys/fs/cgroup", show_default=True, help="Where the cgroups are.")
def demo(duration: float | None, *, plain: bool, recorded: bool, save: Path | None, record: Path | None, cgroup_root: Path) -> None:
    """Show a service and batch work on one machine: alone, unmanaged, managed.

    Shown are CPUSuppress with batch's small weight, and MemoryEvict. Not shown: CPUBurst, because the service has no CPU limit to exceed,
    and CPUEvict, as long as holding batch is enough.

    Needs root and cgroups that can be written; elsewhere it shows recorded readings, decided again. Everything it makes is removed at its
    end, Ctrl-C included.
    """
    if recorded and record is not None:
        raise CannotRunError("--record: with --recorded no agent runs that could be recorded")
    # The other commands need neither screen nor processes.
    from qosmanager.demo.processes import ProcessError  # noqa: PLC0415
    from qosmanager.demo.run import Options, run  # noqa: PLC0415

    options = Options(seconds=duration, plain=plain, recorded=recorded, save=save, record=record, cgroup_root=cgroup_root)
    try:
        code = run(options)
    except ProcessError as error:
        raise CannotRunError(str(error), code=1) from None
    except OSError as error:
        raise CannotRunError(f"{error.filename or 'demo'}: {os.strerror(error.errno or 0)}") from None
    raise SystemExit(code)
