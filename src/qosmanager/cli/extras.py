"""What is installed only on demand, and how to get it."""

from __future__ import annotations

import shlex
import sys

# As pyproject.toml has them, by extra. They are named one by one: whoever reads the message may have no source at hand.
PACKAGES = {
    "record": ("backports.zstd>=1.0",),
    "report": ("plotly>=6.0",),
    "parquet": ("backports.zstd>=1.0", "pyarrow>=18"),
}


def lacks(what: str, extra: str) -> str:
    """Say that `what` ("recordings need") is not there without an extra, and the command that adds its packages to this installation."""
    return f"{what} the extra `{extra}`: {shlex.join([sys.executable, '-m', 'pip', 'install', *PACKAGES[extra]])}"
