"""The recorder beside the agent: it records, it ends when it must, and never stands in the way."""

import logging
import os
import resource
import signal
import time

import pytest
from msgspec.structs import replace

from qosmanager.record.directory import Directory
from qosmanager.record.grid import QuantisedReadings
from qosmanager.record.reader import Recording
from qosmanager.record.recorder import Recorder
from qosmanager.record.replay import replay
from qosmanager.record.writer import Bounds, Writer
from recordings import PLACEMENT, SETTINGS, run, written


class Behind:
    """The listener behind the recorder."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def cycle_done(self, record, settings) -> None:
        del settings
        self.told.append(record.number)

    def cycle_failed(self, error) -> None:
        self.told.append(error)


class Node:
    """Readings of which only the place matters."""

    def sample(self):
        return run(1)[0].record.snapshot, PLACEMENT


@pytest.fixture
def node():
    port = QuantisedReadings(Node())
    port.sample()
    return port


@pytest.fixture
def start(tmp_path, node):
    begun: list[Recorder] = []

    def begin(cycles, bounds=None) -> tuple[Recorder, Behind]:
        behind = Behind()
        recorder = Recorder(Directory(tmp_path / "record"), node, cycles[0].before, behind, bounds or Bounds())
        recorder.start()
        begun.append(recorder)
        return recorder, behind

    yield begin
    for recorder in begun:
        recorder.close()


def numbers(path) -> list[int]:
    return [recorded.number for recorded in Recording(path).outlines()]


def until(probe) -> None:
    deadline = time.monotonic() + 60
    while not probe():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_every_cycle_is_recorded_and_told_on(start, tmp_path):
    cycles = run(12)
    recorder, behind = start(cycles)
    for cycle in cycles:
        recorder.cycle_done(cycle.record, SETTINGS)
    recorder.cycle_failed(ValueError("x"))
    recorder.close()
    assert numbers(tmp_path / "record") == list(range(1, 13))
    assert behind.told[:-1] == list(range(1, 13))
    view = recorder.view()
    assert (view.cycles, view.lost, view.stopped) == (12, 0, "")
    assert view.bytes == sum(path.stat().st_size for path in (tmp_path / "record").iterdir())


def test_a_cycle_in_which_something_is_done_is_on_the_disk_at_once(start, tmp_path):
    cycles = [cycle for cycle in run(12) if cycle.record.plan.actions]
    recorder, _ = start(cycles, Bounds(flush=3600.0))
    recorder.cycle_done(cycles[0].record, SETTINGS)
    until(lambda: recorder.view().cycles == 1)
    assert numbers(tmp_path / "record") == [cycles[0].record.number]


def test_quiet_cycles_are_flushed_after_a_while_though_no_more_come(start):
    cycles = [cycle for cycle in run(20) if not (cycle.record.plan.actions or cycle.record.outcomes)]
    recorder, _ = start(cycles, Bounds(flush=0.2))
    recorder.cycle_done(cycles[0].record, SETTINGS)
    until(lambda: recorder.view().cycles == 1)
    assert recorder.view().lost == 0


def test_a_full_disk_ends_the_recording_with_one_line_and_the_cycles_go_on(start, tmp_path, caplog, node):
    """The limit on a file's size is the fullness of a disk that a test can have to itself."""
    cycles = run(40)
    recorder, behind = start(cycles, Bounds(flush=0.0))
    recorder.cycle_done(cycles[0].record, SETTINGS)
    until(lambda: recorder.view().cycles == 1)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    logging.getLogger("qosmanager").propagate = True
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (recorder.view().bytes + 200, before[1]))
        for cycle in cycles[1:]:
            recorder.cycle_done(cycle.record, SETTINGS)
            time.sleep(0.002)
        until(lambda: recorder.view().stopped)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert behind.told == list(range(1, 41))
    lines = [entry.getMessage() for entry in caplog.records if "Record" in entry.getMessage()]
    assert len(lines) == 1
    assert "RecordStopped" in lines[0]
    assert "the agent goes on without recording" in lines[0]
    tape = Recording(tmp_path / "record")
    found = [recorded.number for recorded in tape.outlines()]
    assert found == list(range(1, recorder.view().cycles + 1))
    assert found
    assert not tape.damages
    # Nothing is on the grid any more.
    assert node.sample()[0] is not None
    assert node._quantiser is None


class Broken(Node):
    """From the second sample on it measures what no grid can take."""

    def __init__(self) -> None:
        self.asked = 0

    def sample(self):
        snapshot, placement = super().sample()
        self.asked += 1
        return (snapshot if self.asked == 1 else replace(snapshot, node_age="old")), placement


def test_readings_that_go_on_no_grid_end_the_recording_with_one_line_and_the_cycles_go_on(tmp_path, caplog):
    logging.getLogger("qosmanager").propagate = True
    readings, behind, cycles = QuantisedReadings(Broken()), Behind(), run(3)
    recorder = Recorder(Directory(tmp_path / "record"), readings, cycles[0].before, behind, Bounds())
    recorder.start()
    for cycle in cycles:
        assert readings.sample()[1] is PLACEMENT
        recorder.cycle_done(cycle.record, SETTINGS)
    until(lambda: recorder.view().stopped)
    recorder.close()
    assert readings.sample()[0].node_age == "old"  # as it is
    assert behind.told == [1, 2, 3]
    assert recorder.view().stopped.startswith("TypeError: ")
    (line,) = [entry.getMessage() for entry in caplog.records if "Record" in entry.getMessage()]
    assert "RecordStopped" in line
    assert numbers(tmp_path / "record") == [1]


def test_a_directory_that_is_taken_away_ends_the_recording(start, tmp_path):
    cycles = run(10)
    recorder, behind = start(cycles, Bounds(flush=0.0))
    recorder.cycle_done(cycles[0].record, SETTINGS)
    until(lambda: recorder.view().cycles == 1)
    for path in (tmp_path / "record").iterdir():
        path.unlink()
    recorder.cycle_done(cycles[1].record, SETTINGS)
    until(lambda: recorder.view().stopped)
    assert "was removed" in recorder.view().stopped
    recorder.cycle_done(cycles[2].record, SETTINGS)
    assert behind.told == [1, 2, 3]


def test_a_disk_that_does_not_keep_up_loses_cycles_and_what_follows_can_be_decided_again(tmp_path, node):
    cycles = run(60)
    recorder = Recorder(Directory(tmp_path), node, cycles[0].before, Behind(), Bounds())
    for cycle in cycles[:50]:
        recorder.cycle_done(cycle.record, SETTINGS)  # nobody writes yet, as with a disk that hangs
    assert recorder.view().lost == 20
    recorder.start()
    until(recorder._jobs.empty)
    for cycle in cycles[50:]:
        recorder.cycle_done(cycle.record, SETTINGS)
    recorder.close()
    found = list(replay(Recording(tmp_path).cycles()))
    assert [each.record.number for each in found] == [*range(1, 31), *range(51, 61)]
    assert [each.difference for each in found] == [None] * 40


def test_no_files_together_take_more_than_they_may(tmp_path):
    cycles = run(400)
    bounds = Bounds(total=40_000, flush=0.0)
    writer = Writer(Directory(tmp_path), bounds)
    largest = 0
    for cycle in cycles:
        writer.add(cycle)
        largest = max(largest, sum(path.stat().st_size for path in tmp_path.iterdir()))
    writer.close()
    assert 20_000 < largest <= 40_000 + 4000  # a file ends with the cycle that makes it too large
    assert numbers(tmp_path)[-1] == 400
    assert numbers(tmp_path)[0] > 1


def test_a_file_that_is_old_enough_is_followed_by_another_that_stands_alone(tmp_path):
    cycles = run(6)
    last = written(tmp_path, cycles, Bounds(file_seconds=0.0))
    assert len(os.listdir(tmp_path)) == 6
    (recorded,) = Recording(last).outlines()
    assert recorded.before == cycles[5].before
