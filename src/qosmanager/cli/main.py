"""The command line: one file per command."""

from __future__ import annotations

import click


@click.group()
def main() -> None:
    """Let latency-sensitive services and batch work share this machine."""
