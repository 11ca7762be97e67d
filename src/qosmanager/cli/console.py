"""Where tables are printed: on a terminal as wide as it is, elsewhere with whole lines, so that grep and a log keep them."""

from __future__ import annotations

import os

from rich.console import Console

_WHOLE = 250  # columns


def console() -> Console:
    """Return standard output as a console."""
    here = Console(highlight=False)
    return here if here.is_terminal or "COLUMNS" in os.environ else Console(width=_WHOLE, highlight=False)
