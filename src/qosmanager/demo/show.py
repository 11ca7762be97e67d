"""Where the demo is shown: a live screen on a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, RenderableType
from rich.live import Live

from qosmanager.demo.screen import decision, line, live
from qosmanager.demo.story import Now


class Show(Protocol):
    """Takes every moment of the demo and, at the end, the results; used as a context."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...

    def moment(self, now: Now) -> None: ...


class Screen:
    """The live screen; it gives the terminal back as it was."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, screen=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._live.stop()

    def moment(self, now: Now) -> None:
        self._live.update(live(now, self._live.console.height), refresh=True)


class Lines:
    """One line each second, and each decision once."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said = 0
        self._stage = ""
        self._next = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return

    def moment(self, now: Now) -> None:
        if now.stage.key != self._stage:
            self._stage, self._next = now.stage.key, 0.0
            self._say(f"== {now.stage.part}, {now.stage.name}: {now.stage.what}" + (f" ({now.settings})" if now.settings else ""))
        for entry in now.decisions:
            if entry.number > self._said:
                self._said = entry.number
                self._say(decision(entry))
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + 1.0
            self._say(line(now))

    def _say(self, text: str | RenderableType) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)
