"""Packages of Debian for what tests need: asked about, and unpacked without being installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_SAID_IN_ENGLISH = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}


class NoPackageError(Exception):
    """The text says why."""


def or_say_why(prepare: Callable[[], None], reason: Path, lacking: str, skipped: str) -> None:
    """Put something in place. Where that cannot be, it is said, and left in the file of this name for the tests that then skip."""
    reason.parent.mkdir(parents=True, exist_ok=True)
    reason.unlink(missing_ok=True)
    try:
        prepare()
    except NoPackageError as error:
        reason.write_text(f"{lacking}: {error}\n")
        sys.stderr.write(f"{lacking}: {error}; {skipped} are skipped\n")


def require_debian() -> None:
    """Raise NoPackageError on any other system."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise NoPackageError("this is no Debian (no apt-get)")


def is_known(package: str) -> bool:
    """Tell whether apt knows where to get a package."""
    return "Candidate: (none)" not in (policy := output("apt-cache", "policy", package)) and "Candidate:" in policy


@contextmanager
def unpacked(*packages: str) -> Iterator[Path]:
    """Give a directory with what is in some packages, for as long as the context lasts. Raises NoPackageError."""
    with tempfile.TemporaryDirectory() as directory:
        run("apt-get", "download", "--quiet", "-o", "APT::Sandbox::User=root", *packages, at=directory)
        tree = Path(directory, "tree")
        for archive in Path(directory).glob("*.deb"):
            run("dpkg", "-x", str(archive), str(tree))
        yield tree


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False, env=_SAID_IN_ENGLISH).stdout.strip()


def run(*command: str, at: str | None = None) -> None:
    """Run a command in a directory; NoPackageError with the last thing it said where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=at, env=_SAID_IN_ENGLISH)
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise NoPackageError(f"{' '.join(command[:2])} failed: {''.join(last)}")
