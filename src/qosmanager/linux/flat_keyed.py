"""Flat keyed kernel files (`NAME NUMBER` a line): /proc/vmstat, cpu.stat, memory.stat."""

from __future__ import annotations


def counter(content: bytes, name: bytes) -> int | None:
    """Return the number beside `name`; None: no such line. Raises ValueError where no number stands there."""
    if content.startswith(name + b" "):
        start = 0
    else:
        start = content.find(b"\n" + name + b" ") + 1
        if start == 0:
            return None
    end = content.find(b"\n", start)
    return int(content[start + len(name) : end if end >= 0 else len(content)])


def required(content: bytes, name: bytes) -> int:
    """Return the number beside `name`. Raises ValueError when there is none."""
    value = counter(content, name)
    if value is None:
        raise ValueError(f"no {name.decode()} in {content[:60]!r}")
    return value
