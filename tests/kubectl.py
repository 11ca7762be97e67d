"""kubectl as an outside judge."""

from __future__ import annotations

import shutil
import subprocess

import pytest


def kubectl(server, directory, *words):
    """Ask a loopback API server by kubectl; return what it prints."""
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on this machine; Debian's package is kubernetes-client")
    command = ["kubectl", "--kubeconfig", str(server.write_kubeconfig(directory / "kubeconfig")), f"--cache-dir={directory}/cache", *words]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env={"PATH": "/usr/bin:/bin", "HOME": str(directory)}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
