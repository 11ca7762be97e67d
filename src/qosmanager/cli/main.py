"""The command line: one file per command."""

from __future__ import annotations

import click

import qosmanager
from qosmanager.cli.completion import completion
from qosmanager.cli.config import config
from qosmanager.cli.demo import demo
from qosmanager.cli.doctor import doctor
from qosmanager.cli.errors import Commands
from qosmanager.cli.explain import explain
from qosmanager.cli.import_trace import import_trace
from qosmanager.cli.install_service import install_service
from qosmanager.cli.pause import pause, resume
from qosmanager.cli.plan import plan
from qosmanager.cli.record import record
from qosmanager.cli.replay import replay
from qosmanager.cli.restore import restore
from qosmanager.cli.restored import restored
from qosmanager.cli.run import run
from qosmanager.cli.simulate import simulate
from qosmanager.cli.status import status, top
from qosmanager.cli.uninstall import uninstall
from qosmanager.cli.whatif import whatif


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  qosmanager demo                                     see it work on this machine
  qosmanager doctor                                   what works here, and what ails the agent
  qosmanager run --once --dry-run                     what would it do here, now
  qosmanager run --workloads workloads.yaml           the agent
  qosmanager top                                      watch what it sees and does
  qosmanager explain                                  why it did it, and why not more
  qosmanager restore                                  put everything back""",
)
@click.version_option(qosmanager.__version__, prog_name="qosmanager")
def main() -> None:
    """Let latency-sensitive services and batch work share this machine."""


for command in (
    completion,
    config,
    demo,
    doctor,
    explain,
    import_trace,
    install_service,
    pause,
    plan,
    record,
    replay,
    restore,
    restored,
    resume,
    run,
    simulate,
    status,
    top,
    uninstall,
    whatif,
):
    main.add_command(command)
