"""What a loopback API server serves, and how clients that look around (kubectl) are told."""

from __future__ import annotations

from typing import NamedTuple

from loopback_api.store import Object


class Kind(NamedTuple):
    """A kind of object."""

    version: str  # apiVersion
    resource: str
    name: str
    is_namespaced: bool

    @property
    def group(self) -> str:
        return self.version.rpartition("/")[0]


_ALL = (
    Kind("v1", "pods", "Pod", is_namespaced=True),
    Kind("v1", "nodes", "Node", is_namespaced=False),
    Kind("v1", "configmaps", "ConfigMap", is_namespaced=True),
    Kind("v1", "events", "Event", is_namespaced=True),
    Kind("events.k8s.io/v1", "events", "Event", is_namespaced=True),
    Kind("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", is_namespaced=True),
    Kind("authorization.k8s.io/v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", is_namespaced=False),
)
KINDS = {(kind.version, kind.resource): kind for kind in _ALL}
_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
_SHORT = {"pods": ["po"], "nodes": ["no"], "configmaps": ["cm"], "events": ["ev"]}


def discovered(path: str) -> Object | None:
    """Return the answer to a question about the server itself; None: this is none."""
    parts = path.strip("/")
    if parts == "version":
        return {"major": "1", "minor": "32", "gitVersion": "v1.32.0", "platform": "linux/amd64"}
    if parts == "api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if parts == "apis":
        versions = sorted({kind.version for kind in _ALL if kind.group})
        groups = [
            {"name": version.partition("/")[0], "versions": [_version(version)], "preferredVersion": _version(version)}
            for version in versions
        ]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    version = parts.removeprefix("apis/").removeprefix("api/")
    kinds = [kind for kind in _ALL if kind.version == version]
    if not kinds or version == parts:
        return None
    resources = [
        {
            "name": kind.resource,
            "singularName": kind.name.lower(),
            "namespaced": kind.is_namespaced,
            "kind": kind.name,
            "verbs": _VERBS,
            "shortNames": _SHORT.get(kind.resource, []),
        }
        for kind in kinds
    ]
    if version == "v1":
        resources.append(
            {"name": "pods/eviction", "namespaced": True, "kind": "Eviction", "group": "policy", "version": "v1", "verbs": ["create"]}
        )
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}


def _version(version: str) -> Object:
    return {"groupVersion": version, "version": version.partition("/")[2]}
