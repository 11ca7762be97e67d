"""Runs a container runtime for as long as its standard input stays open, then removes every trace of it:

    python keeper.py HOME TOP, the end of standard input being the end of whoever started it, kill -9 included.

The runtime and all that it starts live in the cgroup TOP, in whichever hierarchies; what it stores, mounts and listens on is below HOME.
A process of its own and the standard library alone, so that it outlives a test run that is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
_PR_SET_CHILD_SUBREAPER = 36
_SECONDS = 20.0  # for killed processes to be gone and what they held with them


def v2_group(top: str) -> Path:
    """Return the group of cgroup v2, alone or beside v1: its cgroup.kill ends all that is in it, whatever forks meanwhile."""
    return (ROOT / "unified" if (ROOT / "unified" / "cgroup.procs").exists() else ROOT) / top


def main() -> None:
    home, top = Path(sys.argv[1]), sys.argv[2]
    # Orphans of the runtime come to this process, which has the kernel reap them.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with (home / "runtime.log").open("wb") as log:
        inside = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(v2_group(top) / "runtime" / "cgroup.procs")]
        command = [*inside, "containerd", "--config", str(home / "config.toml")]
        runtime = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        sys.stdin.buffer.read()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        runtime.kill()  # it may not have got into the group yet
        sweep(home, top)


def sweep(home: Path, top: str) -> None:
    """End everything in the group, then remove mounts, sockets, cgroups and files. Raises OSError for what cannot be removed."""
    with contextlib.suppress(FileNotFoundError):
        (v2_group(top) / "cgroup.kill").write_text("1")
    for mount in reversed(mounts_below(home)):
        ctypes.CDLL(None).umount2(os.fsencode(mount), 2)  # MNT_DETACH
    for socket in shim_sockets(home):
        socket.unlink(missing_ok=True)
    remove_groups(top)
    _insist(lambda: shutil.rmtree(home))


def remove_groups(top: str) -> None:
    """Remove a group with those below it from every hierarchy. OSError: some of its processes stay."""
    for group in sorted(groups(top), key=lambda path: len(path.parts), reverse=True):
        _insist(group.rmdir)


def _insist(remove: Callable[[], None]) -> None:
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            remove()
        except FileNotFoundError:
            return
        except OSError:
            # A process that was killed leaves its groups, and lets go of its files, a moment later.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def groups(top: str) -> Iterator[Path]:
    """Yield the directories of the group and of those below it, in every hierarchy."""
    for hierarchy in (ROOT, *(path for path in ROOT.iterdir() if path.is_dir())):
        yield from (Path(at) for at, _, _ in os.walk(hierarchy / top))


def mounts_below(home: Path) -> list[str]:
    """Return what is mounted below a directory, in the order of mounting."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [point for point in points if point.startswith(f"{home}/")]


def shim_sockets(home: Path) -> list[Path]:
    """Return the sockets of containerd's shims, which are below /run whatever its own state directory."""
    files = home.glob("state/io.containerd.runtime.v2.task/*/*/address")
    return [Path(file.read_text().strip().removeprefix("unix://")) for file in files]


if __name__ == "__main__":
    main()
