"""systemctl, for the commands that install and remove the service."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_TIMEOUT = 90.0  # seconds; a stop waits for the agent to leave


class ControlError(Exception):
    """systemctl did not do what it was asked: the command and what it said."""


class ServiceControl:
    """systemd of this machine; `runs` tells whether it is the one that manages services here."""

    def __init__(self, runtime: Path = Path("/run/systemd/system")) -> None:
        self._command = shutil.which("systemctl") if runtime.is_dir() else None

    @property
    def runs(self) -> bool:
        return self._command is not None

    def is_active(self, unit: str) -> bool:
        """Tell whether a unit runs; False where systemd does not."""
        return self.runs and self._run("is-active", "--quiet", unit).returncode == 0

    def reload(self) -> None:
        """Have the unit files read anew. Raises ControlError."""
        self._checked("daemon-reload")

    def disable_now(self, *units: str) -> None:
        """Stop units and take them out of the boot. Raises ControlError."""
        self._checked("disable", "--now", *units)

    def _checked(self, *arguments: str) -> None:
        if not self.runs:
            return
        ended = self._run(*arguments)
        if ended.returncode != 0:
            said = ended.stderr.strip().replace("\n", "; ") or f"exit code {ended.returncode}"
            raise ControlError(f"systemctl {' '.join(arguments)}: {said}")

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        assert self._command is not None
        command = [self._command, *arguments]
        try:
            # An absolute path and names of our own; no shell.
            return subprocess.run(  # noqa: S603
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_TIMEOUT
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ControlError(f"systemctl {' '.join(arguments)}: {error}") from None
