"""Pods whose containers are real: what they run in place of a service or a batch job."""

from __future__ import annotations

from typing import Any

from loopback_api.objects import pod
from loopback_api.store import Object
from real_kubelet.image import NAME

# The first process of a container gets no signal that it does not handle; this one handles SIGTERM, or not.
OBEYS_TERM = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
IGNORES_TERM = "while :; do sleep 0.1; done"


def container_pod(name: str, script: str, namespace: str = "batch", **given: Any) -> Object:
    """A pod that is yet to run, with one container that runs a shell script; further keywords as `pod` takes them."""
    made = pod(name, namespace, phase="Pending", owner=f"{name}-owner", **given)
    made["spec"]["containers"][0] |= {"image": NAME, "command": ["sh", "-c", script]}
    return made
