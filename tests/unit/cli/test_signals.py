"""How the daemon's process takes signals (specification, section 9)."""

import signal

import pytest

from qosmanager.cli.daemon import run_until_signal
from qosmanager.cli.signals import Signals


class Loop:
    """A runner that is stopped by the signal that comes in its first cycle."""

    def __init__(self, number: signal.Signals) -> None:
        self.number = number
        self.stopped = 0

    def run(self, between) -> None:
        between()
        signal.raise_signal(self.number)
        between()

    def stop(self) -> None:
        self.stopped += 1


class Looking:
    """A reloader, and a watch: whether it was looked, and whether a reload was asked for."""

    def __init__(self) -> None:
        self.asked = False
        self.looks = 0

    def look(self) -> None:
        self.looks += 1


@pytest.fixture(autouse=True)
def handlers():
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_stops_and_a_second_one_does_not_break_off_what_follows(number):
    loop, reloader, watch = Loop(number), Looking(), Looking()
    assert run_until_signal(loop, Signals(), reloader, (watch.look,)) == number
    assert (loop.stopped, reloader.looks, watch.looks) == (1, 2, 2)
    for impatient in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.raise_signal(impatient)  # would end this process, or raise KeyboardInterrupt


def test_hangup_asks_for_a_reload_and_stops_nothing():
    loop, reloader = Loop(signal.SIGHUP), Looking()
    assert run_until_signal(loop, Signals(), reloader, ()) == 0
    assert (loop.stopped, reloader.asked) == (0, True)


def test_a_signal_before_the_first_cycle_lets_none_begin():
    signals, loop = Signals(), Loop(signal.SIGHUP)
    signal.raise_signal(signal.SIGTERM)
    assert loop.stopped == 0
    signals.stop(loop)
    assert (loop.stopped, signals.caught) == (1, signal.SIGTERM)
