"""The files that make the agent a systemd service: shipped with the package, placed below a prefix, and taken away again.

A unit that is placed ends with a mark, the digest of what stands above it. So a unit of an earlier version is told from one that somebody
has changed: the first is replaced, the second is theirs. Configuration is theirs from the moment it is there.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import sys
from enum import Enum
from importlib import resources
from pathlib import Path

from msgspec import Struct

from qosmanager.linux.replace_file import replace_file

UNITS = ("qosmanager.service", "qosmanager-restore.service", "qosmanager-restore.timer")
EXAMPLES = ("config.yaml", "workloads.yaml")
UNIT_DIRECTORY = Path("etc/systemd/system")
CONFIGURATION = Path("etc/qosmanager")
_PROGRAM = "/usr/bin/qosmanager"  # as it stands in the shipped files
_MARK = "# placed by qosmanager install-service; to change it, `systemctl edit` it: "


class Fate(Enum):
    """What is done with one file."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    KEPT = "kept"


class Placing(Struct, frozen=True, kw_only=True):
    """One file to be placed. `difference`: unified diff from a file that is somebody's own to ours, "" for any other."""

    path: Path
    text: str
    fate: Fate
    difference: str = ""


def program() -> str:
    """Return the command line of the program that runs now, as a unit names it. ValueError for a path that a unit cannot hold."""
    script = Path(sys.executable).with_name("qosmanager")
    command = str(script) if script.exists() else f"{sys.executable} -m qosmanager"
    if any(character.isspace() or character in "%$\"'\\" for character in str(script)):
        raise ValueError(f"{script.parent}: a path with blanks or any of % $ \" ' \\ cannot stand in a unit")
    return command


def placings(prefix: Path, command: str) -> tuple[Placing, ...]:
    """Say what is to be done below `prefix`. OSError when what is there cannot be read."""
    units = tuple(_unit(prefix / UNIT_DIRECTORY / name, _marked(_adapted(_shipped(name), command))) for name in UNITS)
    return units + tuple(_example(prefix / CONFIGURATION / name, _shipped(name)) for name in EXAMPLES)


def place(placing: Placing) -> None:
    """Do it. OSError when it cannot be done."""
    if placing.fate in (Fate.CREATED, Fate.UPDATED):
        placing.path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(placing.path, placing.text.encode("utf-8"), 0o644)


def placed_units(prefix: Path) -> tuple[Path, ...]:
    """Return the units that are there."""
    return tuple(path for name in UNITS if os.path.lexists(path := prefix / UNIT_DIRECTORY / name))


def _shipped(name: str) -> str:
    return (resources.files("qosmanager") / "units" / name).read_text(encoding="utf-8")


def _adapted(text: str, command: str) -> str:
    """Name the program that runs now; one below a home directory must stay visible to the service."""
    if command.startswith(("/home/", "/root/", "/run/user/")):
        text = text.replace("ProtectHome=yes", "ProtectHome=read-only")
    return text.replace(_PROGRAM, command)


def _marked(text: str) -> str:
    return f"{text}{_MARK}{hashlib.sha256(text.encode('utf-8')).hexdigest()}\n"


def _is_ours(text: str) -> bool:
    above, mark, _ = text.rpartition(_MARK)
    return bool(mark) and _marked(above) == text


def _unit(path: Path, text: str) -> Placing:
    there = _text_of(path)
    if there is None:
        return Placing(path=path, text=text, fate=Fate.CREATED)
    if there == text:
        return Placing(path=path, text=text, fate=Fate.UNCHANGED)
    if _is_ours(there):
        return Placing(path=path, text=text, fate=Fate.UPDATED)
    lines = difflib.unified_diff(there.splitlines(), text.splitlines(), str(path), "as shipped", lineterm="")
    return Placing(path=path, text=text, fate=Fate.KEPT, difference="\n".join(lines))


def _example(path: Path, text: str) -> Placing:
    # A configuration differs from the example as a matter of course: no difference is shown.
    return Placing(path=path, text=text, fate=Fate.CREATED if _text_of(path) is None else Fate.KEPT)


def _text_of(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        if path.is_symlink():
            return ""  # masked, or a link to nowhere: somebody meant that
        return None
