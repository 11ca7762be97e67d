"""The systemd unit that owns a cgroup, stopped over D-Bus by systemctl (specification, section 9).

In: a group's path. Out: a `UnitStop` that is driven by polling and never blocks. A unit is taken only when systemd itself says that the
group is its own: a user manager's unit may bear the same name.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_SUFFIXES = (".service", ".scope")


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
        except OSError:
            return None


class UnitStop:
    """One stop under way: first systemd is asked whose the group is, then told to stop the unit."""

    def __init__(self, command: str, unit: str, group: str) -> None:
        self.unit = unit
        self._command = command
        self._group = group
        self._stopping = False
        self._process = self._run("show", "--property=ControlGroup", "--value", "--", unit)

    def poll(self) -> bool | None:
        """Whether systemd has taken the stop on itself; None: not known yet."""
        if self._process.poll() is None:
            return None
        output, _ = self._process.communicate()
        if self._process.returncode != 0:
            return False
        if self._stopping:
            return True
        if output.decode("utf-8", "replace").strip().strip("/") != self._group.strip("/"):
            return False
        self._stopping = True
        try:
            self._process = self._run("stop", "--no-block", "--", self.unit)
        except OSError:
            return False
        return None

    def abandon(self) -> None:
        """Do not wait for systemctl any longer."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def _run(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [self._command, *arguments]
        # An absolute path and a checked argument after "--"; no shell.
        return subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
