"""How a run is recorded (`--record`), and how a recording is opened by the commands that read one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qosmanager.cli.errors import CannotRunError
from qosmanager.cli.extras import lacks
from qosmanager.documents.quantities import size
from qosmanager.engine.runner import Listener
from qosmanager.model.state import State
from qosmanager.ports import Readings
from qosmanager.views.log_lines import pairs
from qosmanager.views.recording import RecordingView

if TYPE_CHECKING:
    from qosmanager.record.directory import Directory
    from qosmanager.record.reader import Recording

_LOG = logging.getLogger("qosmanager")
_LEAST = 1 << 20
MISSING = lacks("recordings need", "record")


class SizeType(click.ParamType[int]):
    """Bytes, as documents write them."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            found = value if isinstance(value, int) else size(value)
        except ValueError:
            found = 0
        if found < _LEAST:
            self.fail(f"{value!r} is no size of at least 1Mi (such as 500Mi, 2Gi or a number of bytes)", param, ctx)
        return found


class Tape:
    """One run being recorded. `readings` is to be measured by, `listen` puts the recorder before a listener."""

    def __init__(self, directory: Path, keep: int, readings: Readings) -> None:
        """Raises CannotRunError for what a user can mend. A directory that cannot be written does not keep the agent from running."""
        try:
            from qosmanager.record.directory import Directory, DirectoryInUseError  # noqa: PLC0415 - loaded only where a run is recorded
            from qosmanager.record.grid import QuantisedReadings  # noqa: PLC0415
        except ImportError:
            raise CannotRunError(f"--record: {MISSING}") from None
        self.readings = readings
        self._keep = keep
        self._view: Callable[[], RecordingView] = lambda: RecordingView(
            directory=str(directory), cycles=0, bytes=0, lost=0, stopped=self._why
        )
        self._why = ""
        self._place: Directory | None = None
        try:
            self._place = Directory(directory)
        except DirectoryInUseError as error:
            raise CannotRunError(f"--record {error}") from None
        except (NotADirectoryError, FileExistsError):
            raise CannotRunError(f"--record {directory}: this is no directory; files are made in it") from None
        except OSError as error:
            self._why = error.strerror or str(error)
            _LOG.error(pairs("RecordStopped", directory=directory, error=self._why, detail="the agent goes on without recording"))
            return
        self._quantised = self.readings = QuantisedReadings(readings)

    def listen(self, state: State, behind: Listener, stack: ExitStack) -> Listener:
        """Record from now on, `state` being the one before the first cycle, until `stack` unwinds."""
        if self._place is None:
            return behind
        from qosmanager.record.recorder import Recorder  # noqa: PLC0415 - as above
        from qosmanager.record.writer import Bounds  # noqa: PLC0415

        recorder = Recorder(self._place, self._quantised, state, behind, Bounds(total=self._keep))
        recorder.start()
        stack.callback(recorder.close)
        self._view = recorder.view
        return recorder

    def view(self) -> RecordingView:
        """Return what is said of it."""
        return self._view()


def opened(path: Path) -> Recording:
    """Open a recording. Raises CannotRunError."""
    try:
        from qosmanager.record.file import NotARecordingError  # noqa: PLC0415 - the other commands need no zstd
        from qosmanager.record.reader import Recording  # noqa: PLC0415
    except ImportError:
        raise CannotRunError(MISSING) from None
    try:
        return Recording(path)
    except NotARecordingError as error:
        raise CannotRunError(str(error)) from None


def tell_damages(recording: Recording) -> None:
    """Say on standard error where files stop being readable."""
    for damage in recording.damages:
        click.echo(
            f"{damage.file}: {damage.what}, at byte {damage.offset}; what lies before it is read, what follows in this file is lost",
            err=True,
        )
