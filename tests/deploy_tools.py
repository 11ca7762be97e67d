"""Programs of others that judge what is in deploy/, and where they come from.

    python tests/deploy_tools.py promtool        Debian's, unpacked below build/ (make test does it; some seconds)
    python tests/deploy_tools.py helm cel        built from source by go (make deploy-tools; some minutes, once)

A test asks `tool(NAME)`, which skips it with the reason where there is none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
TOOLS = ROOT / "build" / "tools"
HELM = "helm.sh/helm/v3/cmd/helm@v3.22.0"
_WHERE = {"promtool": "make promtool", "helm": "make deploy-tools", "cel": "make deploy-tools", "kubectl": "the package kubernetes-client"}


class CannotPrepareError(Exception):
    """The text says why."""


def tool(name: str) -> str:
    """Where a program is; skips the test where it is not."""
    found = shutil.which(name, path=f"{TOOLS}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        pytest.skip(f"no {name} here: {_WHERE[name]} brings it")
    return found


def _prepare(name: str) -> None:
    if shutil.which(name, path=f"{TOOLS}{os.pathsep}{os.environ.get('PATH', '')}"):
        return
    if name == "promtool":
        _unpack("prometheus", "usr/bin/promtool")
    elif shutil.which("go") is None:
        raise CannotPrepareError("there is no go to build it with")
    elif name == "helm":
        _run("go", "install", HELM, environment={"GOBIN": str(TOOLS)})
    else:
        _run("go", "build", "-o", str(TOOLS / name), ".", at=ROOT / "tests" / name)


def _unpack(package: str, file: str) -> None:
    """Take one file out of a package of Debian's, which is not installed."""
    if shutil.which("apt-get") is None:
        raise CannotPrepareError("this is no Debian (no apt-get)")
    with tempfile.TemporaryDirectory() as directory:
        download = ("apt-get", "download", "--quiet", "-o", "APT::Sandbox::User=root", package)
        try:
            _run(*download, at=Path(directory))
        except CannotPrepareError:
            _run("apt-get", "update", "--quiet")
            _run(*download, at=Path(directory))
        (archive,) = Path(directory).glob("*.deb")
        _run("dpkg", "-x", str(archive), "tree", at=Path(directory))
        shutil.move(Path(directory, "tree", file), TOOLS / Path(file).name)


def _run(*command: str, at: Path = ROOT, environment: dict[str, str] | None = None) -> None:
    known = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C", **(environment or {})}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=at, env=known)
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise CannotPrepareError(f"{' '.join(command[:2])} failed: {''.join(last)}")


def main() -> None:
    TOOLS.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:]:
        try:
            _prepare(name)
        except CannotPrepareError as error:
            sys.stderr.write(f"no {name}: {error}; its tests are skipped\n")


if __name__ == "__main__":
    main()
