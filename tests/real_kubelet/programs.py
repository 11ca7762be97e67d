"""Where the programs are that run real containers, and why none can be run here (`obstacle`). prepare.py puts them in place."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import real_groups
from real_kubelet.keeper import v2_group

HOME = Path(__file__).resolve().parents[2] / "build" / "containers"
TREE = HOME / "packages"
REASON = HOME / "why-not"
PATH = os.pathsep.join([*(str(TREE / part) for part in ("usr/bin", "usr/sbin", "bin")), os.environ.get("PATH", os.defpath)])
_NEEDED = ("containerd", "containerd-shim-runc-v2", "ctr", "runc")


def busybox() -> Path | None:
    """Return the static busybox; Debian has moved it once."""
    return next((path for path in (TREE / "bin/busybox", TREE / "usr/bin/busybox") if path.exists()), None)


def obstacle() -> str | None:
    """Why no containers can be run here."""
    if (reason := real_groups.obstacle()) is not None:
        return reason
    missing = [name for name in _NEEDED if shutil.which(name, path=PATH) is None] + ["busybox"] * (busybox() is None)
    if missing:
        return REASON.read_text().strip() if REASON.exists() else f"no containers: {', '.join(missing)} missing: run `make containers`"
    trial = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--mount-proc", "true"], capture_output=True, text=True, check=False)
    if trial.returncode != 0:
        return f"no containers: {trial.stderr.strip()}"
    if not (real_groups.ROOT / "cpu" / "cgroup.procs").exists():
        return f"no containers: kubelet's stand-in writes files of cgroup v1, and {real_groups.ROOT}/cpu is none"
    return None if _can_kill() else "no containers: no cgroup v2 hierarchy with cgroup.kill (Linux 5.14), alone or beside v1"


def _can_kill() -> bool:
    probe = v2_group(f"qosm-test-kill-{os.getpid()}")
    try:
        probe.mkdir()
    except OSError:
        return False
    try:
        return (probe / "cgroup.kill").exists()
    finally:
        probe.rmdir()
