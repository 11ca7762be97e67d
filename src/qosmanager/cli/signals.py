"""Signals of the agent, caught from its very start: one that comes before the first cycle must not end it without putting things back."""

from __future__ import annotations

import signal
from types import FrameType

from qosmanager.engine.runner import Runner


class Signals:
    """SIGTERM and SIGINT stop, SIGHUP asks for a reload. The handlers stay: an impatient second signal breaks nothing off."""

    def __init__(self) -> None:
        self.caught = 0
        self.reload_asked = False
        self._runner: Runner | None = None
        for number, handler in ((signal.SIGTERM, self._stop), (signal.SIGINT, self._stop), (signal.SIGHUP, self._reload)):
            signal.signal(number, handler)

    def stop(self, runner: Runner) -> None:
        """From now on a signal stops this runner; one that has come already does so at once."""
        self._runner = runner
        if self.caught:
            runner.stop()

    def _stop(self, number: int, _: FrameType | None) -> None:
        self.caught = number
        if self._runner is not None:
            self._runner.stop()

    def _reload(self, _: int, __: FrameType | None) -> None:
        self.reload_asked = True
