"""What a user's document got wrong, as values: one line for each problem, all of them at once (specification, section 6)."""

from __future__ import annotations

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
    """A document is refused; `problems` holds at least one, in the order of the lines."""

    def __init__(self, problems: list[Problem] | tuple[Problem, ...]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line or 0))
        super().__init__("\n".join(str(problem) for problem in self.problems))


def printable(text: str, most: int = SHOWN) -> str:
    """Return the text on one line, of so many characters at most, and without those that a terminal would obey."""
    clean = "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text[: most + 1])
    return clean if len(clean) <= most else f"{clean[:most]}..."
