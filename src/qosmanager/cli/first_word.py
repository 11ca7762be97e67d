"""Waiting at the start for what a cluster says first, which is said: whoever starts an agent by hand sees no hang.

In: what is waited for, whether it is there, and why it is not. Out: whether it came in time; lines of the log, seldom.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from qosmanager.views.log_lines import pairs

_LOG = logging.getLogger("qosmanager")
_QUIET = 0.5  # seconds in which a cluster that is reached has answered
_SELDOM = 5.0  # seconds from one line to the next
_LOOK = 0.05  # seconds


def await_first(what: str, seconds: float, is_there: Callable[[], bool], problems: Callable[[], Iterable[str]]) -> bool:
    """Wait at most so many seconds, and say so where that takes some time; tell whether it is there."""
    began = time.monotonic()
    say_at = began + _QUIET
    while not (there := is_there()) and (now := time.monotonic()) < began + seconds:
        if now >= say_at:
            why = "; ".join(problems()) or "no answer yet"
            _LOG.info(pairs("Waiting", what=what, at_most=f"{seconds:g}s", problem=why))
            say_at += _SELDOM
        time.sleep(_LOOK)
    return there
