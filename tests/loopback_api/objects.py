"""Objects to put into a loopback API server, as a cluster has them."""

from __future__ import annotations

from typing import Any

from loopback_api.store import Object

NODE = "worker-1"


def pod(name: str, namespace: str = "batch", *, node: str = NODE, **given: Any) -> Object:
    """A running pod of a ReplicaSet. Further keywords: labels, annotations, uid, owner, owner_uid, phase, grace, priority."""
    metadata: Object = {"name": name, "namespace": namespace, "labels": dict(given.get("labels", {})), "annotations": {}}
    metadata["annotations"] = dict(given.get("annotations", {}))
    if "uid" in given:
        metadata["uid"] = given["uid"]
    owner = given.get("owner", "rec-7d4")
    if owner:
        kind = given.get("owner_kind", "ReplicaSet")
        uid = given.get("owner_uid", f"owner-of-{owner}")
        metadata["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": uid, "controller": True}]
    spec: Object = {
        "nodeName": node,
        "terminationGracePeriodSeconds": given.get("grace", 30),
        "containers": [{"name": "main", "image": "main:1", "resources": given.get("resources", {})}],
    }
    if "priority" in given:
        spec["priority"] = given["priority"]
    ready = {"type": "Ready", "status": "True"}
    state = {"phase": given.get("phase", "Running"), "qosClass": given.get("qos_class", "BestEffort"), "conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": state}


def node(name: str = NODE, labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None) -> Object:
    """A node with 4 CPUs and 8 GiB."""
    amount = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name} | (labels or {}), "annotations": annotations or {}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {},
        "status": {"capacity": amount, "allocatable": dict(amount)},
    }


def budget(name: str, labels: dict[str, str], allowed: int, namespace: str = "batch", *, settled: bool = True) -> Object:
    """A PodDisruptionBudget that allows this many disruptions; not settled: its controller has yet to look at it."""
    metadata = {"name": name, "namespace": namespace, "generation": 2}
    observed = {
        "observedGeneration": 2 if settled else 1,
        "disruptionsAllowed": allowed,
        "desiredHealthy": 1,
        "currentHealthy": 1 + allowed,
    }
    spec = {"selector": {"matchLabels": labels}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec, "status": observed}


def config_map(name: str, text: str, namespace: str = "kube-system", key: str = "koordlet-config.yaml") -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": {key: text}}
