"""Records each cycle while the agent runs, and never stands in its way.

In: each cycle's record. Out: files (file.py), written on a thread of its own. Whatever goes wrong with them ends the recording with one
line in the log, and nothing else; a disk that does not keep up loses cycles, which are counted.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from pathlib import Path

from msgspec import Struct

from qosmanager import __version__
from qosmanager.config.settings import Settings
from qosmanager.engine.runner import Listener
from qosmanager.model.record import CycleRecord
from qosmanager.model.state import State
from qosmanager.record.directory import Directory
from qosmanager.record.encoder import Encoder, Taken
from qosmanager.record.file import FileWriter, Header
from qosmanager.record.grid import QuantisedReadings
from qosmanager.record.messages import encode
from qosmanager.views.log_lines import pairs
from qosmanager.views.recording import RecordingView

_LOG = logging.getLogger("qosmanager")
_WAITING = 30  # cycles that wait for the disk at most
_CLOSE_WITHIN = 5.0  # seconds


class Bounds(Struct, frozen=True, kw_only=True):
    """Bytes and seconds: of one file, of all files together; how often what is taken in is flushed (a kill loses what is not), and synced
    (a power cut does)."""

    total: int = 1 << 30
    file_bytes: int = 32 << 20
    file_seconds: float = 3600.0
    flush: float = 5.0
    sync: float = 60.0

    @property
    def of_one_file(self) -> int:
        return min(self.file_bytes, self.total // 4)


class Recorder:
    """A listener that records, and tells the one behind it."""

    def __init__(self, place: Directory, readings: QuantisedReadings, state: State, behind: Listener, bounds: Bounds) -> None:
        """`state` is the one before the first cycle."""
        self._readings = readings
        self._before = state
        self._behind = behind
        self._lost = 0
        self._recording = True
        self._jobs: queue.Queue[Taken | None] = queue.Queue(_WAITING)
        self._files = Files(place, bounds)
        self._why = ""
        self._thread = threading.Thread(target=self._work, name="record", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def cycle_done(self, record: CycleRecord, settings: Settings) -> None:
        before, self._before = self._before, record.state
        if self._recording:
            self._take(Taken(before=before, record=record, settings=settings, placement=self._readings.placement))
        self._behind.cycle_done(record, settings)

    def cycle_failed(self, error: Exception) -> None:
        self._behind.cycle_failed(error)

    def view(self) -> RecordingView:
        """Return what is said of it."""
        files = self._files
        return RecordingView(directory=str(files.directory), cycles=files.cycles, bytes=files.written, lost=self._lost, stopped=self._why)

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

    def _work(self) -> None:
        files = self._files
        try:
            while True:
                try:
                    job = self._jobs.get(timeout=files.rests())
                except queue.Empty:
                    files.flush()
                    continue
                if job is None:
                    files.close()
                    return
                files.add(job)
        except Exception as error:  # noqa: BLE001  whatever it is, the agent is not to notice
            self._stop(error)

    def _stop(self, error: Exception) -> None:
        self._recording = False
        self._readings.stop()
        if isinstance(error, OSError):
            self._why = error.strerror or str(error)
        else:
            self._why = f"{type(error).__name__}: {error}"
        files = self._files
        files.abandon()
        with contextlib.suppress(queue.Empty):
            while True:
                self._jobs.get_nowait()
        _LOG.error(
            pairs(
                "RecordStopped",
                directory=files.directory,
                error=self._why,
                cycles=files.cycles,
                detail="what is recorded stays; the agent goes on without recording",
            )
        )


class Files:
    """The files of one run, one after the other. Every method raises OSError."""

    def __init__(self, place: Directory, bounds: Bounds) -> None:
        self.directory: Path = place.path
        self.cycles = 0  # flushed
        self.written = 0  # bytes
        self._place = place
        self._bounds = bounds
        self._file: FileWriter | None = None
        self._encoder = Encoder()
        self._began = self._flushed = self._synced = 0.0
        self._waiting = 0  # cycles that are not flushed

    def rests(self) -> float | None:
        """Return in how many seconds to flush; None: there is nothing to."""
        return max(0.0, self._flushed + self._bounds.flush - time.monotonic()) if self._waiting else None

    def add(self, taken: Taken) -> None:
        """Take in a cycle. One in which something was done is flushed at once: it is what is asked for after a crash."""
        file = self._open(taken.record.wall)
        file.add(encode(self._encoder.encode(taken)))
        self._waiting += 1
        record = taken.record
        if record.plan.actions or record.receipts or record.outcomes or not self.rests():
            self.flush()

    def flush(self) -> None:
        """Hand to the kernel what was taken in."""
        file, now = self._file, time.monotonic()
        if file is None:
            return
        before = file.size
        file.flush()
        if not file.is_there:
            raise OSError(None, f"{file.path} was removed")
        self.written += file.size - before
        self.cycles += self._waiting
        self._waiting, self._flushed = 0, now
        if now - self._synced >= self._bounds.sync:
            self._synced = now
            file.sync()

    def close(self) -> None:
        """End the last file."""
        if self._file is not None:
            self.flush()
            self._file.close()
            self._file = None
        self._place.close()

    def abandon(self) -> None:
        """Let the last file go as it is."""
        if self._file is not None:
            self._file.abandon()
            self._file = None
        self._place.close()

    def _open(self, wall: float) -> FileWriter:
        now, file, bounds = time.monotonic(), self._file, self._bounds
        if file is not None and file.size < bounds.of_one_file and now - self._began < bounds.file_seconds:
            return file
        if file is not None:
            self.flush()
            file.close()
            self._file = None
        self._place.keep(bounds.total - bounds.of_one_file)
        self._file = fresh = self._place.begin(Header(version=__version__, begun=wall))
        self.written += fresh.size
        self._encoder = Encoder()
        self._began = self._flushed = self._synced = now
        return fresh
