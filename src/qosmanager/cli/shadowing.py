"""Another configuration beside the agent's (`--shadow`): decided in every cycle, never done."""

from __future__ import annotations

import logging
from pathlib import Path

from msgspec.structs import replace

from qosmanager.config.settings import Settings
from qosmanager.engine.runner import Listener
from qosmanager.engine.shadow import Shadow
from qosmanager.model.record import CycleRecord
from qosmanager.model.state import State
from qosmanager.views.log_lines import pairs
from qosmanager.views.shadow import ShadowView

_LOG = logging.getLogger("qosmanager")


class Shadowed:
    """Decides each cycle under the other configuration too, then tells the listener behind it. A fault there ends it, and nothing else."""

    def __init__(self, config: Path, settings: Settings, state: State, behind: Listener) -> None:
        """`state` is that of the agent before its first cycle."""
        self._shadow = Shadow(str(config), settings, state)
        self._behind = behind
        self._failure = ""

    def cycle_done(self, record: CycleRecord, settings: Settings) -> None:
        if not self._failure:
            self._look(record)
        self._behind.cycle_done(record, settings)

    def cycle_failed(self, error: Exception) -> None:
        self._behind.cycle_failed(error)

    def use(self, settings: Settings) -> None:
        """Take the other configuration anew, from the next cycle on; what it has come to stays."""
        self._shadow.settings = settings

    def view(self) -> ShadowView:
        """Return what is said of it."""
        view = self._shadow.view
        return replace(view, failure=self._failure) if self._failure else view

    def _look(self, record: CycleRecord) -> None:
        try:
            self._shadow.look(record)
        except Exception as error:  # noqa: BLE001  whatever fails there, the agent is not to notice
            self._failure = f"{type(error).__name__}: {error}"
            detail = "the agent goes on; the other configuration is not decided any more"
            _LOG.error(pairs("ShadowFailed", cycle=record.number, error=self._failure, detail=detail), exc_info=error)
