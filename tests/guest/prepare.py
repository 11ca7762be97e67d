"""Puts in place what a guest needs (make v2-image): qemu and busybox by apt-get, a Debian kernel below build/; needs Debian and root.
With the argument `user-mode-linux` also that one.

Where that is not possible, it says why and leaves the reason for the tests, which then skip with it. It never fails the build.
"""

from __future__ import annotations

import os
import shutil
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from debian import NoPackageError, is_known, or_say_why, output, require_debian, run, unpacked
from guest.machine import BUSYBOX, KERNEL, QEMU, REASON, USER_MODE_LINUX

# The first one that there is: 6.12 comes with Debian 12's updates too.
KERNELS = ("linux-image-6.12-cloud-amd64", "linux-image-cloud-amd64")


def prepare(*, user_mode: bool) -> None:
    if KERNEL.exists() and shutil.which(QEMU) and BUSYBOX.exists() and (USER_MODE_LINUX.exists() or not user_mode):
        return
    require_debian()
    if output("dpkg", "--print-architecture") != "amd64":
        raise NoPackageError("the recipe is for amd64")
    if os.geteuid() != 0:
        raise NoPackageError("installing qemu-system-x86 and busybox-static needs root")
    if not is_known(KERNELS[-1]):
        run("apt-get", "update", "--quiet")
    if shutil.which(QEMU) is None or not BUSYBOX.exists():
        run("apt-get", "install", "--quiet", "--yes", "--no-install-recommends", "qemu-system-x86", "busybox-static")
    if not KERNEL.exists():
        _fetch(next((_exact(name) for name in KERNELS if is_known(name)), None), "boot/vmlinuz-*", KERNEL)
    if user_mode and not USER_MODE_LINUX.exists():
        _fetch("user-mode-linux", "usr/bin/linux.uml", USER_MODE_LINUX)


def _exact(meta: str) -> str:
    """Return the package that a package without content of its own depends on."""
    words = output("apt-cache", "depends", meta).split()
    return next(word for word in words if word.startswith("linux-image-") and word != meta)


def _fetch(package: str | None, pattern: str, to: Path) -> None:
    """Take one file out of a package, which is not installed."""
    if package is None:
        raise NoPackageError(f"apt knows none of {', '.join(KERNELS)}")
    with unpacked(package) as tree:
        (kernel,) = tree.glob(pattern)
        shutil.move(kernel, to)
    sys.stdout.write(f"guest kernel: {package}\n")


if __name__ == "__main__":
    or_say_why(partial(prepare, user_mode="user-mode-linux" in sys.argv[1:]), REASON, "no guest kernel", "the tests of the v2 kernel")
