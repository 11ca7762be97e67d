"""Sentences that several explanations share: readings by their names in a score, and lines folded at 100 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from qosmanager.model.count import counted

WIDTH = 100

_READINGS = {
    "cpu_percent": "node CPU {:.1f} percent",
    "cpu_percent_without_be": "node CPU without BE {:.1f} percent",
    "load_without_be": "at most {:.4g} of it not BE's",
    "ls_usage": "LS usage {:.4g} cores",
    "ls_request": "LS request counts as {:.4g} cores",
    "cpu_trend": "CPU without BE {:+.2f} points a minute",
    "load1": "load {:.4g}",
    "memory_percent": "memory in use {:.1f} percent",
    "ls_memory_growth": "LS memory {:+.2f} percent a minute",
    "pgscan_direct": "direct scan {:.0f} pages/s",
    "pgscan_kswapd": "kswapd scan {:.0f} pages/s",
    "swap_percent": "swap in use {:.1f} percent",
    "io_psi_some": "stalled on I/O {:.1f} percent of the time",
    "iowait": "waiting for I/O {:.1f} percent",
    "disk_util": "busiest disk {:.1f} percent busy",
    "net_util": "busiest link {:.1f} percent used",
}


def readings(inputs: Mapping[str, float | None], note: str) -> str:
    """Return the readings behind a factor; a note, where there is one, says it all."""
    if note:
        return note
    known = {name: value for name, value in inputs.items() if value is not None}
    return ", ".join(_reading(name, value) for name, value in known.items())


def _reading(name: str, value: float) -> str:
    return counted(value, "CPU") if name == "cpus" else _READINGS.get(name, f"{name} {{:.4g}}").format(value)


def wrapped(line: str) -> str:
    """Indent a line, and what does not fit on it by two more; a tab marks where its continuation is to stand."""
    head, tab, tail = line.partition("\t")
    hang = len(head) + 2 if tab else 4
    return textwrap.fill(
        head + tail,
        WIDTH,
        initial_indent="  ",
        subsequent_indent=" " * hang,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )
