"""Puts a real Kubernetes into build/cluster (make soak-cluster does it): kube-apiserver, kubelet and etcd.

The first two are built from source by go, once (some ten minutes of a core, a gigabyte of go's cache), etcd comes out of Debian's package.
Where one of them cannot be had, it says why and leaves the reason for the tests, which then skip with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from debian import NoPackageError, or_say_why, require_debian, unpacked
from real_cluster.programs import BUILT, HOME, REASON, SOURCE, version


class CannotBuildError(NoPackageError):
    """The text says why."""


def _etcd() -> None:
    require_debian()
    with unpacked("etcd-server") as tree:
        shutil.move(tree / "usr/bin/etcd", HOME / "etcd")


def _build(name: str) -> None:
    if shutil.which("go") is None:
        raise CannotBuildError("there is no go to build Kubernetes with")
    major, minor, _ = version().split(".")
    told = {"gitVersion": f"v{version()}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    flags = " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{name}={value}" for name, value in told.items())])
    command = ["go", "build", "-trimpath", "-ldflags", flags, "-o", str(HOME), f"k8s.io/kubernetes/cmd/{name}"]
    sys.stderr.write(f"building {name} {version()} (once, some minutes)\n")
    done = subprocess.run(command, cwd=SOURCE, env={**os.environ, "CGO_ENABLED": "0"}, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise CannotBuildError(f"go build failed: {''.join(done.stderr.strip().splitlines()[-1:])}")


def prepare() -> None:
    if not (HOME / "etcd").exists():
        _etcd()
    for name in BUILT:
        if not (HOME / name).exists():
            _build(name)


if __name__ == "__main__":
    or_say_why(prepare, REASON, "no API server", "its tests")
