"""Writes the plain manifests from the chart: what `kubectl apply -k` takes is what `helm install` would send.

    python deploy/render.py            write what has changed
    python deploy/render.py --check    write nothing; exit code 1 when a file differs from the chart

In: the chart with its default values, rendered by helm (on PATH, $HELM, or build/tools/helm from `make deploy-tools`). Out: the generated
files below kustomize/. Each begins with a digest of the chart, so that a chart that was changed without this is noticed without helm too.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).resolve().parent
CHART = DEPLOY / "chart" / "qosmanager"
KUSTOMIZE = DEPLOY / "kustomize"
NAME, NAMESPACE, VERSION = "qosmanager", "qosmanager-system", "1.32.0"
MONITORING = ("--set", "listen.address=node", "--set", "podMonitor.enabled=true", "--set", "prometheusRule.enabled=true")


class NoHelmError(Exception):
    """There is no helm; the text says how to get one."""


def helm() -> str:
    """Where helm is. Raises NoHelmError."""
    built = DEPLOY.parent / "build" / "tools" / "helm"
    found = os.environ.get("HELM") or shutil.which("helm") or (str(built) if built.exists() else "")
    if not found:
        raise NoHelmError("no helm: not on PATH, not in $HELM, not built by `make deploy-tools`")
    return found


def rendered(*options: str) -> list[dict[str, Any]]:
    """Return the chart's objects under some options of `helm template`, hooks too."""
    command = [helm(), "template", NAME, str(CHART), "--namespace", NAMESPACE, "--kube-version", VERSION, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def files() -> dict[Path, str]:
    """Return each generated file as it has to be."""
    everything = [_plain(each) for each in rendered()]
    monitoring = [_plain(each) for each in rendered(*MONITORING)]
    hooked = [each for each in everything if "restore" in each["metadata"]["name"]]
    return {
        KUSTOMIZE / "base" / "qosmanager.yaml": _text(each for each in everything if each not in hooked),
        KUSTOMIZE / "restore" / "restore.yaml": _text(each for each in hooked if each["kind"] == "DaemonSet"),
        KUSTOMIZE / "monitoring" / "monitoring.yaml": _text(each for each in monitoring if each["apiVersion"].startswith("monitoring.")),
    }


def digest() -> str:
    """Return what changes with any file of the chart."""
    parts = hashlib.sha256()
    for path in sorted(each for each in CHART.rglob("*") if each.is_file()):
        parts.update(f"{path.relative_to(CHART)}\0".encode() + path.read_bytes())
    return parts.hexdigest()


def _plain(thing: dict[str, Any]) -> dict[str, Any]:
    """Leave out what only helm reads."""
    for each in (thing, thing.get("spec", {}).get("template", {}) if isinstance(thing.get("spec"), dict) else {}):
        metadata = each.get("metadata", {})
        metadata.get("labels", {}).pop("app.kubernetes.io/managed-by", None)
        metadata["annotations"] = {key: value for key, value in metadata.get("annotations", {}).items() if not key.startswith("helm.sh/")}
        if not metadata["annotations"]:
            del metadata["annotations"]
    return thing


def _text(things: Iterable[dict[str, Any]]) -> str:
    body = yaml.safe_dump_all(things, sort_keys=False, width=140, allow_unicode=True)
    return f"# Made from the chart by deploy/render.py; do not edit. Chart: {digest()}\n{body}"


def main() -> int:
    try:
        wanted = files()
    except NoHelmError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except subprocess.CalledProcessError as error:
        sys.stderr.write(error.stderr)
        return 1
    old = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in old:
        sys.stdout.write(f"{path.relative_to(DEPLOY.parent)}\n")
        if "--check" not in sys.argv[1:]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
    return 1 if old and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
