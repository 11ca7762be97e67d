"""Waiting for a state, never for a time: on a machine that others use, or that is emulated, all of it comes later."""

from __future__ import annotations

import contextlib
import os
import time
import urllib.error

# How many times slower than usual everything goes here (an emulated machine).
SLOWNESS = float(os.environ.get("QOSM_SLOWNESS", "1"))
# What a person would call long, times this, is given up: others may take the CPUs, and a machine below this one may stand still.
PATIENCE = 6 * SLOWNESS


def wait(probe, seconds: float, what: str, more=lambda: ""):
    """Wait until a probe gives something true, and return it; a generous bound, not a measurement."""
    deadline = time.monotonic() + seconds * PATIENCE
    while True:
        # An agent that has finished no cycle yet answers 503.
        with contextlib.suppress(urllib.error.HTTPError):
            if (found := probe()) not in (None, False):
                return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds * PATIENCE:.0f} s for {what}{more()}")
        time.sleep(0.02 * SLOWNESS)
