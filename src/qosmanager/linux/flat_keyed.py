"""Flat keyed kernel files (`NAME NUMBER` a line): /proc/vmstat, cpu.stat, memory.stat."""

from __future__ import annotations

_LONGEST = 24  # 64 bits are 20 digits; a sign and what stands around them


def whole(text: bytes) -> int:
    """Return the number that a kernel's text is. Raises ValueError for what no kernel says: no number, or one no counter can hold."""
    if len(text) > _LONGEST:
        raise ValueError(f"no number of the kernel's: {text[:60]!r}")
    return int(text)


def counter(content: bytes, name: bytes) -> int | None:
    """Return the number beside `name`; None: no such line. Raises ValueError where no number stands there."""
    if content.startswith(name + b" "):
        start = 0
    else:
        start = content.find(b"\n" + name + b" ") + 1
        if start == 0:
            return None
    end = content.find(b"\n", start)
    return whole(content[start + len(name) : end if end >= 0 else len(content)])


def required(content: bytes, name: bytes) -> int:
    """Return the number beside `name`. Raises ValueError when there is none."""
    value = counter(content, name)
    if value is None:
        raise ValueError(f"no {name.decode()} in {content[:60]!r}")
    return value
