"""A real containerd of the tests' own, with its own root, state and socket, in a cgroup of theirs.

    with Runtime(groups) as runtime:
        ... Cri(runtime.socket) ...

Its end, and that of the process that started it in whatever way, is the end of everything it has started (keeper.py).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

from real_groups import RealGroups
from real_kubelet import keeper
from real_kubelet.image import NAME, write_image
from real_kubelet.programs import PATH, busybox

_ENVIRONMENT = {**os.environ, "PATH": PATH}
_START = 30.0  # seconds
_CONFIG = """\
version = 2
root = "{home}/root"
state = "{home}/state"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.overlayfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp",
  "io.containerd.internal.v1.tracing"]

[grpc]
address = "{home}/containerd.sock"

[plugins."io.containerd.internal.v1.opt"]
path = "{home}/opt"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{image}"
restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".cni]
conf_dir = "{home}/cni"

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
Root = "{home}/runc"
"""


class Runtime:
    """Runs from `with` on; at its end nothing of it may be left, or AssertionError tells what."""

    def __init__(self, groups: RealGroups) -> None:
        self._top = groups.top
        self.home = Path(tempfile.mkdtemp(prefix="qosm-containers-"))
        self.socket = self.home / "containerd.sock"
        self._keeper: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        (self.home / "config.toml").write_text(_CONFIG.format(home=self.home, image=NAME))
        (keeper.v2_group(self._top) / "runtime").mkdir(parents=True)
        command = [sys.executable, keeper.__file__, str(self.home), self._top]
        # In a session of its own, so that what interrupts the test run leaves it time to clean up.
        self._keeper = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, env=_ENVIRONMENT)
        try:
            self._import_image()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        assert self._keeper is not None
        sockets = keeper.shim_sockets(self.home)
        self._keeper.communicate()
        left = traces(self.home, self._top) + [str(path) for path in sockets if path.exists()]
        assert (self._keeper.returncode, left) == (0, [])

    @property
    def log(self) -> str:
        return (self.home / "runtime.log").read_text(errors="replace")

    def _import_image(self) -> None:
        archive = self.home / "image.tar"
        write_image(archive, busybox())
        deadline = time.monotonic() + _START
        while not self.socket.exists():
            assert time.monotonic() < deadline, f"containerd did not start:\n{self.log}"
            time.sleep(0.02)
        ctr = ["ctr", "--address", str(self.socket), "--namespace", "k8s.io", "images", "import", "--snapshotter", "native", str(archive)]
        done = subprocess.run(ctr, capture_output=True, text=True, check=False, env=_ENVIRONMENT)
        assert done.returncode == 0, f"{done.stderr}\n{self.log}"


def traces(home: Path, top: str) -> list[str]:
    """Return what is there of a runtime: cgroups, files, mounts, processes."""
    processes = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if os.fsencode(home) in file.read_bytes():
                processes.append(f"process {file.parent.name}")
    return [*map(str, keeper.groups(top)), *[str(home)] * home.exists(), *keeper.mounts_below(home), *processes]
