"""What is read of a pod's JSON, typed; everything else is skipped while it is parsed, however long it is.

Any field may be left out or null: a bookmark is a pod without containers, and a proxy's answer is none at all (msgspec.DecodeError).
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

Quantity = str | int | float  # an API server writes text; people's proxies and kubelets of old wrote numbers


class Resources(Struct, rename="camel"):
    """Quantities by the name of the resource."""

    requests: dict[str, Quantity] | None = None
    limits: dict[str, Quantity] | None = None


class ContainerSpec(Struct, rename="camel"):
    """A container as wanted; `restart_policy` "Always" makes an init container a sidecar."""

    name: str | None = None
    resources: Resources | None = None
    restart_policy: str | None = None


class ContainerStatus(Struct, rename="camel"):
    """A container as it is; `container_id` is `<runtime>://<id>`."""

    name: str | None = None
    container_id: str | None = msgspec.field(default=None, name="containerID")
    resources: Resources | None = None


class OwnerReference(Struct):
    """Who made the pod, or would not let go of it."""

    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None


class Metadata(Struct, rename="camel"):
    """Who it is, and what people wrote on it."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class Spec(Struct, rename="camel"):
    """What is wanted."""

    containers: list[ContainerSpec] | None = None
    init_containers: list[ContainerSpec] | None = None
    node_name: str | None = None
    overhead: dict[str, Quantity] | None = None
    resources: Resources | None = None  # of the pod as a whole, where it declares any
    priority: int | None = None
    priority_class_name: str | None = None
    termination_grace_period_seconds: float | None = None


class Status(Struct, rename="camel"):
    """What is."""

    phase: str | None = None
    qos_class: str | None = None
    pod_ip: str | None = msgspec.field(default=None, name="podIP")
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class PodJson(Struct):
    """A pod."""

    metadata: Metadata | None = None
    spec: Spec | None = None
    status: Status | None = None


class ListMetadata(Struct, rename="camel"):
    """The version that the list is of, and the token of its next page (null or "": that was the last)."""

    resource_version: str | None = None
    next: str | None = msgspec.field(default=None, name="continue")


class PodList(Struct):
    """One page. Pods stay raw, so that one that is not understood costs the others nothing. `kind` tells a list from any other JSON."""

    kind: str
    items: list[msgspec.Raw] | None = None
    metadata: ListMetadata | None = None


class WatchEvent(Struct):
    """`type`: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR; `object` is a pod, or the status that says what is wrong."""

    type: str
    object: msgspec.Raw


class StatusJson(Struct):
    """What an API server says instead of what was asked."""

    code: int | None = None
    reason: str | None = None
    message: str | None = None


class _ObjectMetadata(Struct, rename="camel"):
    resource_version: str | None = None
    uid: str | None = None


class _AnyObject(Struct):
    metadata: _ObjectMetadata | None = None


POD = msgspec.json.Decoder(PodJson)
POD_LIST = msgspec.json.Decoder(PodList)
WATCH_EVENT = msgspec.json.Decoder(WatchEvent)
STATUS = msgspec.json.Decoder(StatusJson)
_ANY = msgspec.json.Decoder(_AnyObject)


def version_of(raw: msgspec.Raw) -> str:
    """Return an object's resource version, whatever kind it is; "": it has none."""
    found = _ANY.decode(raw)
    return (found.metadata.resource_version if found.metadata else None) or ""


def uid_of(raw: msgspec.Raw) -> str:
    """Return an object's uid, also where the rest of it is not understood; "": it has none."""
    try:
        found = _ANY.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return ""
    return (found.metadata.uid if found.metadata else None) or ""


def said(body: bytes) -> str:
    """Return a status' message for people, or nothing for what is no status."""
    try:
        status = STATUS.decode(body)
    except msgspec.DecodeError:
        return ""
    return status.message or status.reason or ""
