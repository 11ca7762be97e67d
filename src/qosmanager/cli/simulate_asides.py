"""What `qosmanager simulate` makes besides its text: an HTML page (`--report`), a recording of the run with the agent (`--record`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from qosmanager.cli.errors import CannotRunError
from qosmanager.cli.recording import MISSING
from qosmanager.cli.report_page import follow, write_page
from qosmanager.cli.simulate_screen import TITLES, Wanted, facts, found, rows
from qosmanager.model.state import State
from qosmanager.ports import Readings
from qosmanager.simulate.report import Report
from qosmanager.simulate.run import Cycle
from qosmanager.simulate.scenario import Agent

if TYPE_CHECKING:
    from qosmanager.report.track import Track


class PageAside:
    """Draws the runs side by side. Needs the extra `report`."""

    def __init__(self, wanted: Wanted, path: Path) -> None:
        self._node = wanted.loaded.scenario.node
        self._path = path
        self._tracks: dict[Agent, Track] = {}

    def wrap(self, readings: Readings) -> Readings:
        return readings

    def take(self, agent: Agent, cycle: Cycle) -> None:
        from qosmanager.report.track import Track  # noqa: PLC0415 - an extra

        if agent not in self._tracks:
            self._tracks[agent] = Track(TITLES[agent])
        follow(self._tracks[agent], cycle, self._node.memory)

    def finish(self, told: Report) -> None:
        """Write the page. Raises CannotRunError."""
        from qosmanager.report.page import Page, Verdict  # noqa: PLC0415 - an extra

        specs = told.loaded.scenario.workloads
        page = Page(
            title=told.loaded.name,
            about=told.loaded.scenario.about,
            facts=facts(told),
            cpus=self._node.cpus,
            memory=self._node.memory,
            tracks=tuple(self._tracks.values()),
            rows=tuple((name, *cells) for name, cells in rows(list(told.totals.values()))),
            slos={f"{spec.namespace}/{spec.name}": spec.slo.p99 for spec in specs if spec.slo.p99 is not None and spec.service},
            verdicts=tuple(Verdict(finding.met, found(finding)) for finding in told.findings),
            notes=("A run of the simulator: the decisions are the agent's own, the node is a model.",),
        )
        write_page(page, self._path)


class TapeAside:
    """Records the run with the agent. Needs the extra `record`."""

    def __init__(self, wanted: Wanted, directory: Path) -> None:
        """Raises CannotRunError."""
        try:
            from qosmanager.record.directory import Directory, DirectoryInUseError  # noqa: PLC0415 - an extra
            from qosmanager.record.writer import Bounds, Writer  # noqa: PLC0415
        except ImportError:
            raise CannotRunError(f"--record: {MISSING}") from None
        self._settings = wanted.settings
        self._before = State()
        self._directory = directory
        try:
            self._writer = Writer(Directory(directory), Bounds())
        except DirectoryInUseError as error:
            raise CannotRunError(f"--record {error}") from None
        except OSError as error:
            raise self._unwritten(error) from None

    def wrap(self, readings: Readings) -> Readings:
        from qosmanager.record.grid import QuantisedReadings  # noqa: PLC0415 - an extra

        self._readings = QuantisedReadings(readings)
        return self._readings

    def take(self, agent: Agent, cycle: Cycle) -> None:
        """Write the cycle, at once: a simulation waits for its disk. Raises CannotRunError."""
        from qosmanager.record.encoder import Taken  # noqa: PLC0415 - an extra

        record = cycle.record
        if agent is not Agent.ON or record is None:
            return
        if (failure := self._readings.failure) is not None:
            raise CannotRunError(f"--record {self._directory}: readings that cannot be recorded ({type(failure).__name__}: {failure})")
        taken = Taken(before=self._before, record=record, settings=self._settings, placement=self._readings.placement)
        self._before = record.state
        try:
            self._writer.add(taken)
        except OSError as error:
            raise self._unwritten(error) from None

    def finish(self, told: Report) -> None:
        del told
        try:
            self._writer.close()
        except OSError as error:
            raise self._unwritten(error) from None

    def _unwritten(self, error: OSError) -> CannotRunError:
        return CannotRunError(f"--record {self._directory}: cannot be written: {error.strerror or error}", code=1)
