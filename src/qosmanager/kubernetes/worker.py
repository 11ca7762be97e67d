"""A thread that does what is due, and sleeps until something is: whatever talks to the API server runs on one, never on the cycle's."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from qosmanager.ports import Clock
from qosmanager.views.log_lines import pairs

_LOG = logging.getLogger("qosmanager")
_AFTER_FAILURE = 5.0  # seconds
_LONGEST_SLEEP = 60.0  # seconds


class Worker:
    """Calls `work` with the monotonic time in seconds; that returns in how many seconds it wants to be called again at the latest."""

    def __init__(self, name: str, work: Callable[[float], float], clock: Clock) -> None:
        self._name = name
        self._work = work
        self._clock = clock
        self._woken = threading.Event()
        self._stopping = False
        self._failure = ""
        self._thread = threading.Thread(target=self._run, name=f"qosm-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """There is something to do now."""
        self._woken.set()

    def stop(self, patience: float = 2.0) -> None:
        """Begin nothing more; wait this many seconds for what is under way."""
        self._stopping = True
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(patience)

    def _run(self) -> None:
        while not self._stopping:
            self._woken.clear()
            try:
                delay = self._work(self._clock.monotonic())
                self._failure = ""
            except Exception as error:  # noqa: BLE001  a thread that ended here would leave the agent without this part for ever
                self._fail(error)
                delay = _AFTER_FAILURE
            self._woken.wait(min(max(delay, 0.0), _LONGEST_SLEEP))

    def _fail(self, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        if text != self._failure:
            _LOG.error(pairs("KubernetesFault", part=self._name, error=text), exc_info=error)
        self._failure = text
