"""Puts a small Debian with systemd below build/, unpacked and not installed (make soak-systemd); its kernel comes from guest/prepare.py.

Where that is not possible, it says why and leaves the reason for the tests, which then skip with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from debian import NoPackageError, or_say_why, require_debian, run
from real_systemd.machine import HOME, REASON, TREE

PACKAGES = (
    *("systemd", "systemd-sysv", "dbus", "python3", "base-files", "base-passwd", "usr-is-merged"),
    *("coreutils", "util-linux", "mount", "procps", "dash", "grep", "libc-bin"),
)
# Packages are not configured, so what their scripts would have made is made here.
FILES = {
    "etc/hostname": "guest\n",
    "etc/hosts": "127.0.0.1 localhost\n",
    "etc/fstab": "/dev/ubda / ext4 defaults 0 0\n",
    "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
}


def prepare() -> None:
    if TREE.exists():
        return
    require_debian()
    if os.geteuid() != 0:
        raise NoPackageError("a root file system belongs to root")
    tree = HOME / "unfinished"
    shutil.rmtree(tree, ignore_errors=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (tree / "usr" / name).mkdir(parents=True)
        (tree / name).symlink_to(f"usr/{name}")
    for package in _downloaded(HOME / "packages"):
        _unpack(package, tree)
    for name in ("passwd", "group"):
        shutil.copy(tree / f"usr/share/base-passwd/{name}.master", tree / "etc" / name)
    for name, text in FILES.items():
        (tree / name).write_text(text, encoding="ascii")
    run("ldconfig", "-r", str(tree))
    run(sys.executable, "-m", "compileall", "-q", "-s", str(tree), "-p", "/", str(tree / "usr/lib/python3.11"))
    tree.rename(TREE)


def _downloaded(directory: Path) -> list[Path]:
    """Fetch the packages and all that they need, as on a machine where nothing is installed."""
    (directory / "partial").mkdir(parents=True, exist_ok=True)
    options = ("Dir::State::status=/dev/null", f"Dir::Cache::archives={directory}", "Debug::NoLocking=1", "APT::Sandbox::User=root")
    words = [word for option in (*options, "APT::Install-Recommends=false") for word in ("-o", option)]
    run("apt-get", "install", "--quiet", "--yes", "--download-only", *words, *PACKAGES)
    return sorted(directory.glob("*.deb"))


def _unpack(package: Path, tree: Path) -> None:
    """Unpack it without dpkg -x, which would put directories in the place of links to them (/bin)."""
    left_out = [f"--exclude=./usr/share/{name}" for name in ("doc", "man", "locale")]
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as packed:
        done = subprocess.run(["tar", "-x", "-C", str(tree), "--keep-directory-symlink", *left_out], stdin=packed.stdout, check=False)
    if packed.returncode or done.returncode:
        raise NoPackageError(f"{package.name} cannot be unpacked")


if __name__ == "__main__":
    or_say_why(prepare, REASON, "no guest with systemd", "its tests")
