"""The command line: one file per command."""

from __future__ import annotations

import click

from qosmanager.cli.demo import demo
from qosmanager.cli.errors import Commands
from qosmanager.cli.plan import plan
from qosmanager.cli.restore import restore
from qosmanager.cli.run import run


@click.group(cls=Commands)
def main() -> None:
    """Let latency-sensitive services and batch work share this machine."""


main.add_command(demo)
main.add_command(plan)
main.add_command(restore)
main.add_command(run)
