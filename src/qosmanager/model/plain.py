"""Text that may be shown to people: a name may hold what a terminal obeys, and the kernel takes any bytes for a group's name."""

from __future__ import annotations


def plain(text: str) -> str:
    r"""Return the text with control and format characters as their escapes (a byte that is no text: `\xff`); line ends and tabs stay."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in "\n\t" else _escape(each) for each in text)


def _escape(character: str) -> str:
    code = ord(character)
    # os.fsdecode keeps such a byte as half of a surrogate pair.
    return rf"\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else ascii(character)[1:-1]
