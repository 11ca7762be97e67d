"""Records each cycle while the agent runs, and never stands in its way.

In: each cycle's record. Out: files (writer.py), written on a thread of its own. Whatever goes wrong with them, or with putting readings on
the grid, ends the recording with one line in the log, and nothing else; a disk that does not keep up loses cycles, which are counted.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading

from qosmanager.config.settings import Settings
from qosmanager.engine.runner import Listener
from qosmanager.model.record import CycleRecord
from qosmanager.model.state import State
from qosmanager.record.directory import Directory
from qosmanager.record.encoder import Taken
from qosmanager.record.grid import QuantisedReadings
from qosmanager.record.writer import Bounds, Writer
from qosmanager.views.log_lines import pairs
from qosmanager.views.recording import RecordingView

_LOG = logging.getLogger("qosmanager")
_WAITING = 30  # cycles that wait for the disk at most
_CLOSE_WITHIN = 5.0  # seconds


class Recorder:
    """A listener that records, and tells the one behind it."""

    def __init__(self, place: Directory, readings: QuantisedReadings, state: State, behind: Listener, bounds: Bounds) -> None:
        """`state` is the one before the first cycle."""
        self._readings = readings
        self._before = state
        self._behind = behind
        self._lost = 0
        self._recording = True
        self._jobs: queue.Queue[Taken | Exception | None] = queue.Queue(_WAITING)
        self._writer = Writer(place, bounds)
        self._why = ""
        self._thread = threading.Thread(target=self._work, name="record", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def cycle_done(self, record: CycleRecord, settings: Settings) -> None:
        before, self._before = self._before, record.state
        if self._recording and self._readings.failure is not None:
            self._recording = False
            self._end_with(self._readings.failure)
        elif self._recording:
            self._take(Taken(before=before, record=record, settings=settings, placement=self._readings.placement))
        self._behind.cycle_done(record, settings)

    def cycle_failed(self, error: Exception) -> None:
        self._behind.cycle_failed(error)

    def view(self) -> RecordingView:
        """Return what is said of it."""
        writer = self._writer
        return RecordingView(
            directory=str(writer.directory), cycles=writer.cycles, bytes=writer.written, lost=self._lost, stopped=self._why
        )

    def close(self) -> None:
        """Write what is left, as far as the disk takes it within 5 s."""
        with contextlib.suppress(queue.Full):
            self._jobs.put(None, timeout=_CLOSE_WITHIN)
        self._thread.join(_CLOSE_WITHIN)

    def _take(self, taken: Taken) -> None:
        try:
            self._jobs.put_nowait(taken)
        except queue.Full:
            if not self._lost:
                _LOG.warning(pairs("RecordLost", cycle=taken.record.number, detail="the disk does not keep up; counted from now on"))
            self._lost += 1

    def _end_with(self, error: Exception) -> None:
        """Have the thread that writes end the recording, after what waits; what it has no room for is lost."""
        while True:
            try:
                self._jobs.put_nowait(error)
            except queue.Full:
                with contextlib.suppress(queue.Empty):
                    self._jobs.get_nowait()
                self._lost += 1
            else:
                return

    def _work(self) -> None:
        writer = self._writer
        try:
            while True:
                try:
                    job = self._jobs.get(timeout=writer.rests())
                except queue.Empty:
                    writer.flush()
                    continue
                if job is None:
                    writer.close()
                    return
                if isinstance(job, Exception):
                    writer.flush()
                    raise job  # noqa: TRY301 - it ends the recording as one of its own would
                writer.add(job)
        except Exception as error:  # noqa: BLE001  whatever it is, the agent is not to notice
            self._stop(error)

    def _stop(self, error: Exception) -> None:
        self._recording = False
        self._readings.stop()
        if isinstance(error, OSError):
            self._why = error.strerror or str(error)
        else:
            self._why = f"{type(error).__name__}: {error}"
        writer = self._writer
        writer.abandon()
        with contextlib.suppress(queue.Empty):
            while True:
                self._jobs.get_nowait()
        _LOG.error(
            pairs(
                "RecordStopped",
                directory=writer.directory,
                error=self._why,
                cycles=writer.cycles,
                detail="what is recorded stays; the agent goes on without recording",
            )
        )
