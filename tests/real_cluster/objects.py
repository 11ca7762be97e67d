"""Objects of a cluster, as kubectl takes them."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def namespace(name: str, **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def account(name: str, space: str) -> Object:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": space}}


def placed_pod(name: str, space: str, node: str, **spec: Any) -> Object:
    """A pod that is on a node already. Keywords `labels` and `annotations`, and what its specification is to have besides."""
    metadata = {"name": name, "namespace": space} | {part: spec.pop(part, {}) for part in ("labels", "annotations")}
    container = {"name": "main", "image": "none.invalid/none"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": node, "containers": [container]} | spec}


def budget(name: str, space: str, app: str) -> Object:
    """A disruption budget for the pods with label app; nobody has looked at it yet."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": space}, "spec": spec}


def eviction(name: str, space: str, **options: Any) -> Object:
    metadata = {"name": name, "namespace": space}
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options}
