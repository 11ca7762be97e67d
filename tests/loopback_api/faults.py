"""Ways in which a loopback API server misbehaves when told to."""

from __future__ import annotations

import threading
from typing import NamedTuple

HTML = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"


class Planned(NamedTuple):
    """An answer that takes the place of the real one."""

    status: int
    body: bytes
    content_type: str
    headers: dict[str, str]


class Faults:
    """`answer` plans answers; `silence` keeps quiet until `speak`; `cut_next_event` breaks watches in the middle of a line."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._planned: list[tuple[str, str, int, Planned]] = []
        self._speaking = threading.Event()
        self._speaking.set()
        self.cut_next_event = False

    def answer(
        self,
        status: int,
        body: bytes = HTML,
        *,
        method: str = "",
        part: str = "",
        times: int = 1,
        content_type: str = "text/html",
        headers: dict[str, str] | None = None,
    ) -> None:
        """Answer the next `times` requests of this method ("": any) with `part` in their path like this."""
        with self._lock:
            self._planned.append((method, part, times, Planned(status, body, content_type, headers or {})))

    def take(self, method: str, path: str) -> Planned | None:
        """Return the answer planned for a request, used up by that."""
        with self._lock:
            for index, (of, part, times, planned) in enumerate(self._planned):
                if of in ("", method) and part in path:
                    self._planned[index] = (of, part, times - 1, planned)
                    self._planned = [each for each in self._planned if each[2] > 0]
                    return planned
        return None

    def clear(self) -> None:
        with self._lock:
            self._planned.clear()

    def silence(self) -> None:
        """Take connections and requests, and say nothing any more, on watches neither."""
        self._speaking.clear()

    def speak(self) -> None:
        self._speaking.set()

    def wait_for_speech(self, seconds: float) -> bool:
        return self._speaking.wait(seconds)

    @property
    def is_silent(self) -> bool:
        return not self._speaking.is_set()

    def wake(self) -> None:
        """Nobody is to wait any longer: the server ends."""
        self._speaking.set()
