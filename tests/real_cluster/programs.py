"""Where the programs of a real Kubernetes are, and why none can be run here (`obstacle`, `no_kubelet`). prepare.py puts them in place."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from real_kubelet import programs

HOME = Path(__file__).resolve().parents[2] / "build" / "cluster"
REASON = HOME / "why-not"
SOURCE = Path(__file__).resolve().parent / "kubernetes"
BUILT = ("kube-apiserver", "kubelet")
NODE_ADDRESS = os.environ.get("QOSM_NODE_ADDRESS", "")  # apart.sh says it


def obstacle() -> str | None:
    """Why no API server can be run here."""
    if REASON.exists():
        return REASON.read_text().strip()
    missing = [name for name in ("etcd", "kube-apiserver") if not (HOME / name).exists()]
    missing += [name for name in ("kubectl", "setpriv") if shutil.which(name) is None]
    return f"no API server: {', '.join(missing)} missing: run `make soak-cluster`" if missing else None


def no_kubelet() -> str | None:
    """Why no kubelet can be run here."""
    if (reason := obstacle() or programs.obstacle()) is not None:
        return reason
    if not (HOME / "kubelet").exists():
        return "no kubelet: run `make soak-cluster`"
    return (
        None
        if NODE_ADDRESS
        else "no kubelet: it wants a network and mounts of its own (tests/real_cluster/apart.sh): run `make soak-cluster`"
    )


def version() -> str:
    """Return which Kubernetes it is: "1.34.4"."""
    found = re.search(r"k8s\.io/kubernetes v(\S+)", (SOURCE / "go.mod").read_text())
    assert found is not None
    return found[1]
