"""The systemd unit that owns a cgroup, stopped over D-Bus by systemctl (specification, section 9).

In: a group's path. Out: a `UnitStop`, which goes on by itself and tells what came of it; nothing here blocks. A unit is taken only when
systemd itself says that the group is its own: a user manager's unit may bear the same name.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import threading
from itertools import accumulate
from pathlib import Path

_SUFFIXES = (".service", ".scope")
_ANSWERS = 5.0  # seconds in which systemctl must have ended


class Systemd:
    """systemd of this machine, if it runs here."""

    def __init__(self, runtime: Path = Path("/run/systemd/system")) -> None:
        self._command = shutil.which("systemctl") if runtime.is_dir() else None

    def stop(self, group: str) -> UnitStop | None:
        """Begin to stop the unit that owns a group; None when no unit can."""
        unit = group.rpartition("/")[2]
        if self._command is None or not unit.endswith(_SUFFIXES):
            return None
        try:
            return UnitStop(self._command, unit, group)
        except RuntimeError:  # no room for a thread
            return None


class UnitStop:
    """One stop under way: first systemd is asked whose the group is, then told to stop the unit. Both come at once, however seldom
    somebody looks: it has a thread of its own, and this process does not end before that. `taken`: whether systemd has taken the stop on
    itself; None: not known yet.
    """

    def __init__(self, command: str, unit: str, group: str) -> None:
        self.taken: bool | None = None
        self._command = command
        self._unit = unit
        self._group = group.strip("/")
        threading.Thread(target=self._work, name=f"stop {unit}").start()

    def _work(self) -> None:
        taken = False
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            if self._owner(self._ask("show", "--property=ControlGroup,Slice")) == self._group:
                self._ask("stop", "--no-block")
                taken = True
        self.taken = taken

    def _owner(self, shown: str) -> str:
        """Return the unit's group. One whose processes have just ended has none, and is to be stopped all the same: systemd would start
        it again. Its slice tells then where that would be."""
        properties = dict(line.partition("=")[::2] for line in shown.splitlines())
        slices = accumulate(properties.get("Slice", "").removesuffix(".slice").split("-"), "{}-{}".format)
        return properties.get("ControlGroup", "").strip("/") or "/".join([*(f"{each}.slice" for each in slices), self._unit])

    def _ask(self, *arguments: str) -> str:
        """Return what systemctl says of the unit. Raises OSError, SubprocessError where it fails or does not answer."""
        command = [self._command, *arguments, "--", self._unit]
        # An absolute path and a checked argument after "--"; no shell.
        done = subprocess.run(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_ANSWERS, check=True
        )
        return done.stdout.decode("utf-8", "replace")
