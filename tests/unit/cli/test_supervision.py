"""Ready with the first finished cycle, alive as long as they finish."""

from __future__ import annotations

from qosmanager.cli.supervision import Supervised
from qosmanager.config.settings import Settings
from records import record


class Manager:
    def __init__(self, watchdog: float | None = 30.0) -> None:
        self.watchdog = watchdog
        self.said: list[str] = []

    def ready(self, status: str) -> None:
        self.said.append(f"ready: {status}")

    def reloading(self) -> None:
        self.said.append("reloading")

    def alive(self, status: str) -> None:
        del status
        self.said.append("alive")

    def allow(self, seconds: float) -> None:
        self.said.append(f"allow {seconds:g}")


class Listener:
    def __init__(self) -> None:
        self.cycles: list[int] = []
        self.errors: list[str] = []

    def cycle_done(self, record, settings) -> None:
        del settings
        self.cycles.append(record.number)

    def cycle_failed(self, error: Exception) -> None:
        self.errors.append(str(error))


def test_the_first_finished_cycle_makes_it_ready_and_each_is_passed_on():
    manager, listener = Manager(), Listener()
    supervised = Supervised(listener, manager)
    supervised.cycle_failed(ValueError("no node yet"))
    assert manager.said == []
    supervised.cycle_done(record(1), Settings())
    supervised.cycle_done(record(2), Settings())
    assert manager.said == ["allow 30", "ready: cycle 1: level HIGH, BE 0.60 cores, 3 pods", "alive"]
    assert (listener.cycles, listener.errors) == ([1, 2], ["no node yet"])


def test_a_long_period_asks_for_five_of_them():
    manager = Manager()
    Supervised(Listener(), manager).cycle_done(record(1), Settings(sync_period=60.0))
    assert manager.said[0] == "allow 300"


def test_a_reload_ends_with_the_next_finished_cycle():
    manager = Manager()
    supervised = Supervised(Listener(), manager)
    supervised.cycle_done(record(1), Settings())
    manager.said.clear()
    supervised.reloading()
    supervised.cycle_failed(ValueError("x"))
    assert manager.said == ["reloading"]
    supervised.cycle_done(record(2), Settings())
    assert manager.said[1:3] == ["allow 30", "ready: cycle 2: level HIGH, BE 0.60 cores, 3 pods"]
