"""Pods as the cluster tells of them, for the tests of whoever goes by that."""

from __future__ import annotations

from typing import Any

from qosmanager.kubernetes.claims import Claims
from qosmanager.kubernetes.pods import KnownPod
from qosmanager.model.qos import QoS

NO_CLAIMS = Claims(cpu_request=0.0, memory_request=0, cpu_limit=None, memory_limit=None)


def known(uid: str, **given: Any) -> KnownPod:
    """A labelled BE pod of a ReplicaSet that claims nothing; its name is its uid unless one is given."""
    fields: dict[str, Any] = {
        "name": uid,
        "namespace": "batch",
        "uid": uid,
        "cgroup_uid": uid,
        "qos": QoS.BE,
        "labelled": True,
        "priority": 5000,
        "created": 1000.0,
        "critical": False,
        "terminating": False,
        "owner": "ReplicaSet",
        "grace": 30.0,
        "claims": NO_CLAIMS,
    }
    return KnownPod(**fields | given)
