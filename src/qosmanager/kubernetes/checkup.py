"""One look at the API server for the doctor: does it answer, what time is it there, what may this agent do.

In: an `Api`. Out: facts; never an exception for what a server or a network does. Nothing is changed: permissions are asked for by
SelfSubjectAccessReview, which is kept nowhere.
"""

from __future__ import annotations

import http
from email.utils import parsedate_to_datetime

import msgspec
from msgspec import Struct

from qosmanager.doctor.cluster import Asked, ClusterFacts
from qosmanager.documents.problem import printable
from qosmanager.kubernetes.answers import Right, refusal
from qosmanager.kubernetes.api import Answer, Api, ApiUnreachable
from qosmanager.ports import Clock

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_WANTED = (
    ("get", "", "pods", "evictions look at the pod first"),
    ("list", "", "pods", "the pods of the node"),
    ("watch", "", "pods", "the pods of the node"),
    ("create", "", "pods/eviction", "evictions; without it nobody is evicted"),
    ("create", "events.k8s.io", "events", "events on pods and on the node"),
    ("patch", "events.k8s.io", "events", "events that happen again as a series"),
    ("get", "", "nodes", "the pause annotation and the node's labels"),
    ("watch", "", "nodes", "the pause annotation and the node's labels"),
    ("patch", "", "nodes", "the annotation qosmanager.io/status"),
    ("get", "", "nodes/pods", "pods from kubelet while the API server is not reached (before Kubernetes 1.33: nodes/proxy)"),
    ("patch", "", "nodes/status", "--publish-batch-resources, only needed with it"),
)


class _Version(Struct, rename="camel"):
    git_version: str = ""


class _Allowed(Struct):
    allowed: bool = False


class _Review(Struct):
    status: _Allowed


def look(api: Api, server: str, clock: Clock) -> ClusterFacts:
    """Ask for the version, the time and the permissions."""
    try:
        answer = api.request("GET", "/version")
        if answer.status in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN):
            return ClusterFacts(server=server, problem=refusal(answer, Right("get", "/version")))
        version = _version(answer)
        if not version:
            return ClusterFacts(server=server, problem=f"answered {answer.status}, but not as an API server does")
        rights = tuple(_asked(api, *wanted) for wanted in _WANTED)
    except ApiUnreachable as error:
        return ClusterFacts(server=server, problem=str(error))
    return ClusterFacts(server=server, version=version, skew=_skew(answer, clock.wall()), rights=rights)


def _version(answer: Answer) -> str:
    try:
        return printable(msgspec.json.decode(answer.body, type=_Version).git_version)
    except (msgspec.DecodeError, RecursionError):
        return ""


def _asked(api: Api, verb: str, group: str, resource: str, purpose: str) -> Asked:
    kind, _, sub = resource.partition("/")
    attributes = {"verb": verb, "group": group, "resource": kind, "subresource": sub}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}}
    answer = api.request("POST", _REVIEWS, body=msgspec.json.encode(review))
    allowed: bool | None = None
    if answer.status in (http.HTTPStatus.OK, http.HTTPStatus.CREATED):
        try:
            allowed = msgspec.json.decode(answer.body, type=_Review).status.allowed
        except (msgspec.DecodeError, RecursionError):
            allowed = None
    return Asked(right=f"{verb} {resource}{f'.{group}' if group else ''}", purpose=purpose, allowed=allowed)


def _skew(answer: Answer, wall: float) -> float | None:
    """Return the seconds by which the server's clock is ahead; it tells whole ones."""
    try:
        return parsedate_to_datetime(answer.headers.get("date", "")).timestamp() - wall
    except (ValueError, TypeError):
        return None
