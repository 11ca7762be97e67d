"""Where the programs of a real API server are, and why none can be run here (`obstacle`). prepare.py puts them in place."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

HOME = Path(__file__).resolve().parents[2] / "build" / "cluster"
REASON = HOME / "why-not"
SOURCE = Path(__file__).resolve().parent / "kubernetes"


def obstacle() -> str | None:
    """Why no API server can be run here."""
    if REASON.exists():
        return REASON.read_text().strip()
    missing = [name for name in ("etcd", "kube-apiserver") if not (HOME / name).exists()]
    missing += [name for name in ("kubectl", "setpriv") if shutil.which(name) is None]
    return f"no API server: {', '.join(missing)} missing: run `make soak-cluster`" if missing else None


def version() -> str:
    """Return which Kubernetes it is: "1.34.4"."""
    found = re.search(r"k8s\.io/kubernetes v(\S+)", (SOURCE / "go.mod").read_text())
    assert found is not None
    return found[1]
