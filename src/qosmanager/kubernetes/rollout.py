"""How far a DaemonSet is: on how many nodes its pods are to run, and on how many they are ready.

In: an `Api` and the DaemonSet's name. Out: `Rollout`; or ApiUnreachable, or `RolloutUnknown` for an answer that does not tell.
"""

from __future__ import annotations

import http

import msgspec
from msgspec import Struct

from qosmanager.kubernetes.api import Api


class RolloutUnknown(Exception):  # noqa: N818 - a state of knowledge
    """The server answered, but not with this DaemonSet; the text says with what. `final`: asking again does not help."""

    def __init__(self, text: str, *, final: bool) -> None:
        super().__init__(text)
        self.final = final


class Rollout(Struct, frozen=True):
    """Nodes that are to have a pod, and nodes whose pod is ready. `settled` False: the controller has not counted yet."""

    wanted: int
    ready: int
    settled: bool

    @property
    def complete(self) -> bool:
        return self.settled and self.ready >= self.wanted


class _Metadata(Struct):
    generation: int = 0


class _Status(Struct, rename="camel"):
    observed_generation: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0


class _DaemonSet(Struct):
    kind: str
    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)


def rollout(api: Api, namespace: str, name: str) -> Rollout:
    """Ask once. Raises ApiUnreachable and RolloutUnknown."""
    answer = api.request("GET", f"/apis/apps/v1/namespaces/{namespace}/daemonsets/{name}")
    if answer.status in (http.HTTPStatus.FORBIDDEN, http.HTTPStatus.UNAUTHORIZED):
        # A role that was bound a moment ago is not in force everywhere yet.
        raise RolloutUnknown(f"the server answered {answer.status}: get on daemonsets {name} in {namespace} is needed", final=False)
    if answer.status != http.HTTPStatus.OK:
        raise RolloutUnknown(f"the server answered {answer.status}", final=answer.status == http.HTTPStatus.NOT_FOUND)
    try:
        found = msgspec.json.decode(answer.body, type=_DaemonSet)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise RolloutUnknown("the server answered with something else than a DaemonSet", final=False) from None
    status = found.status
    return Rollout(status.desired_number_scheduled, status.number_ready, status.observed_generation >= found.metadata.generation)
