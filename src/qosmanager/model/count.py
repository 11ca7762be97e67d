"""A number and what it counts, as a person says it."""

from __future__ import annotations


def counted(number: float, noun: str) -> str:
    """Return "1 pod", "0 pods", "1.5 CPUs": the noun is given as for one."""
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:.12g} {noun}{ending}"
