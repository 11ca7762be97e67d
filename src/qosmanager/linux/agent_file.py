"""Where the running agent is: <state-dir>/agent.json, so that other commands find it (its port may be any).

In: what an agent says of itself when it has started. Out: the same for as long as that very process lives; one that died without a word
is not there.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec
from msgspec import Struct

from qosmanager.linux.processes import start_time
from qosmanager.linux.replace_file import read_small_file, replace_file

_NAME = "agent.json"


class RunningAgent(Struct, frozen=True, kw_only=True):
    """One process, told apart from a later one of the same pid by when it `started` (clock ticks since boot). `url` None: it does not
    listen; `audit_log` None: it keeps none."""

    pid: int
    started: int
    url: str | None = None
    audit_log: str | None = None

    @classmethod
    def this_process(cls, url: str | None, audit_log: Path | None = None) -> RunningAgent:
        pid = os.getpid()
        return cls(pid=pid, started=start_time(pid), url=url, audit_log=None if audit_log is None else str(audit_log))


def publish(directory: Path, agent: RunningAgent) -> None:
    """Say where the agent is. OSError when it cannot be written."""
    replace_file(directory / _NAME, msgspec.json.encode(agent), 0o644)


def withdraw(directory: Path) -> None:
    """Say that it has stopped."""
    with contextlib.suppress(OSError):
        os.unlink(directory / _NAME)


def running_agent(directory: Path) -> RunningAgent | None:
    """Return the agent that runs with this state directory; None: none does, or this user may not see it."""
    try:
        raw = read_small_file(directory / _NAME)
        agent = None if raw is None else msgspec.json.decode(raw, type=RunningAgent)
        return agent if agent is not None and start_time(agent.pid) == agent.started else None
    except (OSError, ValueError, msgspec.DecodeError, RecursionError):
        return None
