"""What a user's document got wrong, as values: one line for each problem, all of them at once (specification, section 6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

SHOWN = 60  # characters of a value in a message
MOST = 100  # problems of one document; a file with more is another kind of file


class Problem(Struct, frozen=True, kw_only=True):
    """One thing that is wrong. `line` counts from 1 (None: the file itself), `path` has dots ("qosManager.cpuBurst.burstRatio").

    With a `value` (as written) the `message` says what is allowed; without one it says what is wrong.
    """

    source: str
    line: int | None
    message: str
    path: str = ""
    value: str | None = None
    hint: str = ""

    def __str__(self) -> str:
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        parts = [place, self.path] if self.path else [place]
        text = self.message if self.value is None else f"{self.value} is not allowed; {self.message}"
        return ": ".join(parts) + f": {text}" + (f" ({self.hint})" if self.hint else "")


class DocumentError(Exception):
    """Documents are refused; `problems` holds at least one, those of each document together, in the order of the lines."""

    def __init__(self, problems: list[Problem] | tuple[Problem, ...]) -> None:
        sources = list(dict.fromkeys(problem.source for problem in problems))
        self.problems = tuple(sorted(problems, key=lambda problem: (sources.index(problem.source), problem.line or 0)))
        super().__init__("\n".join(str(problem) for problem in self.problems))


def read_all(*readings: Callable[[], Any]) -> list[Any]:
    """Return what each of some readings of documents returns. Raises DocumentError with the problems of all of them."""
    results: list[Any] = []
    problems: list[Problem] = []
    for read in readings:
        try:
            results.append(read())
        except DocumentError as error:
            problems += error.problems
    if problems:
        raise DocumentError(problems)
    return results


def printable(text: str, most: int = SHOWN) -> str:
    """Return the text on one line, of so many characters at most, and without those that a terminal would obey."""
    clean = "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text[: most + 1])
    return clean if len(clean) <= most else f"{clean[:most]}..."
