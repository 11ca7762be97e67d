"""An image of this host's own Debian Python: a base for deploy/Containerfile where no registry is reached.

In: buildah, and the Debian packages below, which are installed here. Out: an image under a name, in a store of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

# What python3 with its venv module needs, and a shell with the commonest commands.
PACKAGES = [
    "base-files",
    "libc6",
    "libc-bin",
    "libcrypt1",
    "libssl3",
    "zlib1g",
    "libffi8",
    "libexpat1",
    "libbz2-1.0",
    "liblzma5",
    "libuuid1",
    "libtinfo6",
    "libncursesw6",
    "libreadline8",
    "libsqlite3-0",
    "libdb5.3",
    "libnsl2",
    "libtirpc3",
    "libgcc-s1",
    "libstdc++6",
    "libselinux1",
    "libacl1",
    "libattr1",
    "libgmp10",
    "libpcre2-8-0",
    "dash",
    "coreutils",
    "media-types",
    "python3-minimal",
    "python3",
    "python3.11",
    "python3.11-minimal",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libpython3-stdlib",
    "python3.11-venv",
    "python3-distutils",
    "python3-pip-whl",
    "python3-setuptools-whl",
]
AUTHORITIES = "etc/ssl/certs/ca-certificates.crt"


class NoImageError(Exception):
    """It cannot be made here; the text says why."""


class Buildah:
    """buildah with a store of its own, which `close` removes."""

    def __init__(self, store: Path) -> None:
        if shutil.which("buildah") is None or shutil.which("runc") is None:
            raise NoImageError("no buildah or no runc here: apt-get install --no-install-recommends buildah runc")
        if os.geteuid() != 0:
            raise NoImageError("root is needed")
        self._store = store
        self._options = ("--root", str(store / "root"), "--runroot", str(store / "run"), "--storage-driver", "vfs")

    def __call__(self, command: str, *arguments: str) -> str:
        environment = {**os.environ, "BUILDAH_ISOLATION": "chroot"}
        done = subprocess.run(
            ["buildah", *self._options, command, *arguments], capture_output=True, text=True, check=False, env=environment, timeout=600
        )
        if done.returncode != 0:
            raise NoImageError(f"buildah {command}: {done.stderr.strip()[-2000:]}")
        return done.stdout.strip()

    def make_base(self, name: str) -> None:
        """Make the image. Raises NoImageError."""
        tree = self._store / "base"
        _copy(tree)
        container = self("from", "scratch")
        self("add", "--quiet", container, str(tree), "/")
        self("commit", "--quiet", container, name)
        self("rm", container)

    def close(self) -> None:
        shutil.rmtree(self._store, ignore_errors=True)


def _copy(tree: Path) -> None:
    listed = subprocess.run(["dpkg", "-L", *PACKAGES], capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        raise NoImageError(f"not all of Debian 12's packages for Python are here: {listed.stderr.strip()}")
    for name in ("bin", "lib", "lib64", "sbin"):
        (tree / "usr" / name).mkdir(parents=True)
        (tree / name).symlink_to(f"usr/{name}")
    # Directories come by themselves, but for links to them.
    wanted = {path.lstrip("/") for path in listed.stdout.splitlines() if os.path.islink(path) or os.path.isfile(path)}
    wanted = {path for path in wanted if not path.startswith(("usr/share/doc/", "usr/share/man/", "usr/share/locale/"))}
    wanted |= {"etc/passwd", "etc/group"}
    packing = ["tar", "-C", "/", "-cf", "-", "-T", "-"]
    unpacking = ["tar", "-C", str(tree), "--keep-directory-symlink", "-xf", "-"]
    with (
        subprocess.Popen(packing, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as pack,
        subprocess.Popen(unpacking, stdin=pack.stdout) as unpack,
    ):
        pack.stdin.write("\n".join(sorted(wanted - {"bin", "lib", "lib64", "sbin"})).encode())
        pack.stdin.close()
        if pack.wait() or unpack.wait():
            raise NoImageError("tar failed")
    for name in ("proc", "sys", "dev", "tmp", "run", "root", "etc/ssl/certs"):
        (tree / name).mkdir(parents=True, exist_ok=True)
    (tree / "tmp").chmod(0o1777)
    shutil.copy(f"/{AUTHORITIES}", tree / AUTHORITIES)
    subprocess.run(["ldconfig", "-r", str(tree)], check=True)
