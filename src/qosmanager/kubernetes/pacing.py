"""How long to wait before trying again: longer after each failure, and not all nodes at once."""

from __future__ import annotations

from collections.abc import Callable

FIRST = 0.5  # seconds
LONGEST = 16.0  # seconds; an API server that is back is noticed within that
MOST_ASKED = 60.0  # seconds that a server may ask for


class Backoff:
    """`random` gives numbers from 0 to 1; it spreads what many nodes try."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._next = FIRST

    def failed(self, asked: float = 0.0) -> float:
        """Return the seconds to wait after one more failure; `asked`: what the server has asked for."""
        wait = self._next * (0.5 + 0.5 * self._random())
        self._next = min(LONGEST, self._next * 2)
        return max(wait, min(asked, MOST_ASKED))

    def succeeded(self) -> None:
        """Begin anew."""
        self._next = FIRST
