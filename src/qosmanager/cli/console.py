"""What people read on standard output: tables as wide as the terminal, elsewhere whole lines, so that grep and a log keep them; text of
which no terminal obeys anything."""

from __future__ import annotations

import os

import click
from rich.console import Console

from qosmanager.model.plain import plain

_WHOLE = 250  # columns


def console() -> Console:
    """Return standard output as a console."""
    here = Console(highlight=False)
    return here if here.is_terminal or "COLUMNS" in os.environ else Console(width=_WHOLE, highlight=False)


def say(text: str) -> None:
    """Print text that may hold names of groups, errors, or words of others."""
    click.echo(plain(text))
