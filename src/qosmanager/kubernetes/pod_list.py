"""Lists of pods from an API server or from kubelet, read with distrust.

In: an answer. Out: its pods and where to go on; or `Untrue`, whose text says what is wrong with it: a status that is none of success, HTML,
JSON of something else.
"""

from __future__ import annotations

import http

import msgspec
from msgspec import Struct

from qosmanager.documents.problem import printable
from qosmanager.kubernetes.answers import LONGEST_WORDS, retry_after
from qosmanager.kubernetes.api import Answer
from qosmanager.kubernetes.pod_json import POD, POD_LIST, said, uid_of
from qosmanager.kubernetes.pods import KnownPod, known_pod

_OF_NO_USE = (http.HTTPStatus.GONE, http.HTTPStatus.BAD_REQUEST, http.HTTPStatus.GATEWAY_TIMEOUT)  # too old, none, not yet there
_NEEDED: dict[int, str] = {
    http.HTTPStatus.UNAUTHORIZED: "; the token or client certificate is not accepted",
    http.HTTPStatus.FORBIDDEN: "; the permission to list and watch pods is needed (kubelet: get on nodes/proxy, or nodes/pods)",
}


class Untrue(Exception):  # noqa: N818 - what is said of an answer
    """An answer that tells nothing of the pods. `expired`: the version asked for is of no use; `retry_after`: seconds that the server asks
    for."""

    def __init__(self, text: str, *, expired: bool = False, retry_after: float = 0.0) -> None:
        super().__init__(text)
        self.expired = expired
        self.retry_after = retry_after


class Page(Struct, frozen=True):
    """Pods; the version of the whole list, and the token of the next page ("": that was the last). `problems`: why pods are not understood,
    by uid."""

    pods: tuple[KnownPod, ...]
    version: str
    next: str
    problems: dict[str, str]


def read_page(answer: Answer) -> Page:
    """Read one page. Raises Untrue."""
    if answer.status != http.HTTPStatus.OK:
        raise refused(answer)
    try:
        page = POD_LIST.decode(answer.body)
    except (msgspec.DecodeError, RecursionError):
        raise Untrue(f"{_kind(answer)} instead of a list of pods") from None
    if page.kind not in ("PodList", "List"):
        raise Untrue(f"a {printable(page.kind)} instead of a list of pods")
    pods: list[KnownPod] = []
    problems: dict[str, str] = {}
    for raw in page.items or ():
        try:
            pods.append(known_pod(POD.decode(raw)))
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            uid = uid_of(raw)
            problems[uid] = f"pod {printable(uid)} is not understood: {printable(str(error))}"
    metadata = page.metadata
    version, following = (metadata.resource_version or "", metadata.next or "") if metadata else ("", "")
    return Page(tuple(pods), version, following, problems)


def refused(answer: Answer) -> Untrue:
    """Say what an answer that is no success means."""
    text = f"answered {answer.status}"
    message = printable(said(answer.body), LONGEST_WORDS)
    if message:
        text += f" ({message})"
    elif answer.body.strip():
        text += f" with {_kind(answer)}"
    return Untrue(
        text + _NEEDED.get(answer.status, ""),
        expired=answer.status in _OF_NO_USE,
        retry_after=retry_after(answer) or 0.0,
    )


def _kind(answer: Answer) -> str:
    given = answer.headers.get("content-type", "").partition(";")[0]
    return printable(given) if given and given != "application/json" else "something"
