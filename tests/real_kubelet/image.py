"""A container image made of nothing but a static busybox; no registry is asked."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import subprocess
import tarfile
from pathlib import Path

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # as images name them
NAME = "qosmanager.test/busybox:local"


def write_image(path: Path, busybox: Path) -> None:
    """Write an image archive (OCI layout) that `ctr images import` takes; it does nothing but wait, as a pause image does."""
    names = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    layer = _tar({"bin/busybox": busybox.read_bytes()}, {f"bin/{name}": "busybox" for name in names if name != "busybox"})
    blobs = {}

    def blob(kind: str, data: bytes) -> dict[str, object]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    rootfs = blob("layer.v1.tar", layer)
    config = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Entrypoint": ["/bin/sh", "-c", "trap 'exit 0' TERM; sleep 1000000 & wait"], "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [rootfs["digest"]]},
    }
    manifest = {"schemaVersion": 2, "config": blob("config.v1+json", _json(config)), "layers": [rootfs]}
    top = blob("manifest.v1+json", _json(manifest)) | {"annotations": {"io.containerd.image.name": NAME}}
    index = {"schemaVersion": 2, "manifests": [top]}
    path.write_bytes(_tar(blobs | {"index.json": _json(index), "oci-layout": _json({"imageLayoutVersion": "1.0.0"})}, {}))


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _tar(files: dict[str, bytes], links: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o755
            tar.addfile(entry, io.BytesIO(data))
        for name, target in links.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return out.getvalue()
