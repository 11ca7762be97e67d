"""A real server over a real board, for tests of the commands that ask a running agent."""

from __future__ import annotations

from contextlib import contextmanager

from msgspec.structs import replace

from qosmanager.config.settings import Settings
from qosmanager.http.board import Board
from qosmanager.http.server import Listen, Server
from qosmanager.model.qos import QoS
from qosmanager.model.snapshot import Pod, PodCpu
from qosmanager.views.status import About
from records import WALL, record

DEFAULTS = Settings()


@contextmanager
def agent(*records, settings=DEFAULTS):
    """Serve an agent that has done these cycles."""
    board = Board(About(version="1.2.3", pid=42, started=WALL - 60), settings)
    for each in records:
        board.publish(each, settings)
    with Server(board, Listen("127.0.0.1", 0)) as server:
        yield server


def with_pods(*pods, number=1, **changes):
    base = record(number, **changes)
    return replace(base, snapshot=replace(base.snapshot, pods=pods))


def many_pods(count):
    """Half LS, half BE; pod number n uses n hundredths of a core."""
    return tuple(
        Pod(name=f"pod-{number:03d}", namespace="shop", qos=QoS.BE if number % 2 else QoS.LS, cpu=PodCpu(usage=number / 100))
        for number in range(count)
    )
