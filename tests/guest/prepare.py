"""Puts in place what a guest needs (make v2-image): qemu and busybox by apt-get, a Debian kernel below build/; needs Debian and root.
With the argument `user-mode-linux` also that one.

Where that is not possible, it says why and leaves the reason for the tests, which then skip with it. It never fails the build.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from guest.machine import BUSYBOX, HOME, KERNEL, QEMU, REASON, USER_MODE_LINUX

# The first one that there is: 6.12 comes with Debian 12's updates too.
KERNELS = ("linux-image-6.12-cloud-amd64", "linux-image-cloud-amd64")


class CannotPrepareError(Exception):
    """The text says why."""


def prepare(*, user_mode: bool) -> None:
    if KERNEL.exists() and shutil.which(QEMU) and BUSYBOX.exists() and (USER_MODE_LINUX.exists() or not user_mode):
        return
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise CannotPrepareError("no guest kernel: this is no Debian (no apt-get)")
    if _output("dpkg", "--print-architecture") != "amd64":
        raise CannotPrepareError("no guest kernel: the recipe is for amd64")
    if os.geteuid() != 0:
        raise CannotPrepareError("no guest kernel: installing qemu-system-x86 and busybox-static needs root")
    if not _known(KERNELS[-1]):
        _run("apt-get", "update", "--quiet")
    if shutil.which(QEMU) is None or not BUSYBOX.exists():
        _run("apt-get", "install", "--quiet", "--yes", "--no-install-recommends", "qemu-system-x86", "busybox-static")
    if not KERNEL.exists():
        _fetch(next((_exact(name) for name in KERNELS if _known(name)), None), "boot/vmlinuz-*", KERNEL)
    if user_mode and not USER_MODE_LINUX.exists():
        _fetch("user-mode-linux", "usr/bin/linux.uml", USER_MODE_LINUX)


def _known(package: str) -> bool:
    return "Candidate: (none)" not in (policy := _output("apt-cache", "policy", package)) and "Candidate:" in policy


def _exact(meta: str) -> str:
    """Return the package that a package without content of its own depends on."""
    words = _output("apt-cache", "depends", meta).split()
    return next(word for word in words if word.startswith("linux-image-") and word != meta)


def _fetch(package: str | None, pattern: str, to: Path) -> None:
    """Take one file out of a package, which is not installed."""
    if package is None:
        raise CannotPrepareError(f"no guest kernel: apt knows none of {', '.join(KERNELS)}")
    with tempfile.TemporaryDirectory() as directory:
        _run("apt-get", "download", "--quiet", "-o", "APT::Sandbox::User=root", package, at=directory)
        (archive,) = Path(directory).glob("*.deb")
        _run("dpkg", "-x", str(archive), "tree", at=directory)
        (kernel,) = Path(directory, "tree").glob(pattern)
        shutil.move(kernel, to)
    sys.stdout.write(f"guest kernel: {package}\n")


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}).stdout.strip()


def _run(*command: str, at: str | None = None) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=at, env=environment)
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise CannotPrepareError(f"no guest kernel: {' '.join(command[:2])} failed: {''.join(last)}")


def main() -> None:
    HOME.mkdir(parents=True, exist_ok=True)
    REASON.unlink(missing_ok=True)
    try:
        prepare(user_mode="user-mode-linux" in sys.argv[1:])
    except CannotPrepareError as error:
        REASON.write_text(f"{error}\n")
        sys.stderr.write(f"{error}; the tests of the v2 kernel are skipped\n")


if __name__ == "__main__":
    main()
