"""`qosmanager status` and `qosmanager top`: what the running agent sees and does now."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
from msgspec.structs import replace
from rich.console import Console
from rich.live import Live

from qosmanager.cli.console import console
from qosmanager.cli.options import Seconds, output_option, state_dir_option, url_option
from qosmanager.cli.reach import agent_at, answering
from qosmanager.cli.screen import ASKED_DECISIONS, Moment, Room, screen
from qosmanager.http.client import AgentClient, NoAnswerError

_QUIT = b"q"


@click.command(
    epilog="""\b
Examples:
  qosmanager status
  qosmanager status --output json | jq .be
  qosmanager status --url http://127.0.0.1:9400"""
)
@output_option
@url_option
@state_dir_option
def status(output: str, url: str | None, state_dir: Path) -> None:
    """Show what the running agent sees and does now.

    The node, each pressure score with its factors, the level BE is held at, the pods by class, the last actions and events with their
    reasons. THR is the share of throttled periods, LIMIT a pod's own CPU limit, NOW the one in force (raised while a burst runs; in the BE
    line: of all BE together). A dash is "not measured". CPU in cores, latency in milliseconds.

    Exit code: 0; 1 no agent answers; 2 wrong usage.
    """
    client = agent_at(url, state_dir)
    with answering():
        if output == "json":
            click.echo(msgspec.json.format(msgspec.json.encode(client.status()), indent=2))
            return
        moment = _look(client)
    out = console()
    out.print(screen(moment, Room(out.width)))


@click.command(
    epilog="""\b
Examples:
  qosmanager top
  qosmanager top --interval 0.5
  qosmanager top --once > moment.txt"""
)
@click.option("--interval", type=Seconds(0.1, 60), default=1.0, show_default=True, metavar="SECONDS", help="Time between looks.")
@click.option("--once", is_flag=True, help="One screen, then stop; so it is anyway where there is no terminal, or a dumb one.")
@url_option
@state_dir_option
def top(*, interval: float, once: bool, url: str | None, state_dir: Path) -> None:
    """Watch what the running agent sees and does.

    The same as `qosmanager status`, refreshed, and cut to the size of the terminal: of each class the pods that use most CPU. q or Ctrl-C
    leaves. An agent that stops answering meanwhile is said so, and looked for again.

    Exit code: 0; 1 no agent answers at the start; 2 wrong usage.
    """
    client = agent_at(url, state_dir)
    with answering():
        moment = _look(client)
    out = console()
    if once or not out.is_terminal or out.is_dumb_terminal:
        out.print(screen(moment, Room(out.width)))
        return
    with contextlib.suppress(KeyboardInterrupt):
        _watch(client, moment, out, interval)


def _look(client: AgentClient) -> Moment:
    return Moment(status=client.status(), decisions=client.decisions(ASKED_DECISIONS))


def _watch(client: AgentClient, moment: Moment, out: Console, interval: float) -> None:
    with _keys() as keys, Live(console=out, screen=True, auto_refresh=False) as live:
        while True:
            live.update(screen(moment, Room(out.width, out.height)), refresh=True)
            if _quit_within(interval, keys):
                return
            try:
                moment = _look(client)
            except NoAnswerError as error:
                moment = replace(moment, trouble=str(error))


@contextlib.contextmanager
def _keys() -> Iterator[int | None]:
    """Give the terminal's keys as they are pressed, and the terminal back as it was, also at SIGTERM; None: there are no keys."""
    previous = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        if not sys.stdin.isatty():
            yield None
            return
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
        try:
            tty.setcbreak(descriptor)
            yield descriptor
        finally:
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
    finally:
        signal.signal(signal.SIGTERM, previous)


def _quit_within(seconds: float, keys: int | None) -> bool:
    """Wait; tell whether q was pressed meanwhile. Any other key looks again at once."""
    if keys is None:
        time.sleep(seconds)
        return False
    pressed, _, _ = select.select([keys], [], [], seconds)
    return bool(pressed) and os.read(keys, 1).lower() in (_QUIT, b"")
