"""A line of a screen, folded where it may be. In: a line, the columns there are, and how far what follows hangs. Out: the same as lines."""

from __future__ import annotations

import re

from rich.text import Text

# A number stays with the word before it, and a unit with its number.
_BREAK = re.compile(r" +(?![ \d-]|(?:s|ms|min|h|d|cores?|CPUs?)\b|%)")


def folded(line: Text, columns: int, hang: int) -> Text:
    """Fold a line between words, as late as it may be; a word that is longer than the columns is left to the terminal."""
    begin, room, parts = 0, columns, []
    breaks = list(_BREAK.finditer(line.plain))
    while len(line.plain) - begin > room:
        fits = [each for each in breaks if begin < each.start() <= begin + room]
        if not fits:
            break
        parts.append(line[begin : fits[-1].start()])
        begin, room = fits[-1].end(), columns - hang
    return Text("\n" + " " * hang).join([*parts, line[begin:]])
