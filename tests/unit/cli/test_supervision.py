"""Ready with the first finished cycle, alive as long as they finish."""

from __future__ import annotations

from msgspec.structs import replace

from qosmanager.cli.supervision import Supervised
from qosmanager.config.settings import Settings
from qosmanager.model.qos import Level
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
        self.said.append(f"alive: {status}")

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
    seen = "cycle 1: level HIGH, BE 0.60 cores, 3 pods"
    assert manager.said == ["allow 30", f"ready: {seen}", f"alive: {seen}"]
    assert (listener.cycles, listener.errors) == ([1, 2], ["no node yet"])


def test_what_changes_is_told_at_once_and_what_stays_only_from_time_to_time():
    manager = Manager(watchdog=3600.0)
    supervised = Supervised(Listener(), manager)
    held = record(1)
    lower = replace(held, number=3, state=replace(held.state, be_limit=0.5))
    calmer = replace(lower, number=4, assessment=replace(lower.assessment, effective_level=Level.LOW))
    for each in (held, replace(held, number=2), lower, calmer, replace(calmer, number=5)):
        supervised.cycle_done(each, Settings())
    assert [said for said in manager.said if said.startswith("alive")] == [
        "alive: cycle 1: level HIGH, BE 0.60 cores, 3 pods",
        "alive: cycle 3: level HIGH, BE 0.50 cores, 3 pods",
        "alive: cycle 4: level LOW, BE 0.50 cores, 3 pods",
    ]


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
