"""The pods of one node by list and watch, for as long as the agent runs, whatever the server does.

In: an `Api`. Out: `KnownPods`, whose age shows how certain that is. A watch lasts 20 s and is then begun anew on the same connection where
it ended: that the server ends it, or says anything in it, is the sign that nothing was missed; so a quiet node's knowledge stays younger
than the 30 s at which evictions stop, and a connection on which nothing comes is given up after 25 s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from qosmanager.documents.problem import printable
from qosmanager.kubernetes.api import Api, ApiUnreachable, WatchRefused
from qosmanager.kubernetes.known_pods import NOT_BELIEVED, KnownPods
from qosmanager.kubernetes.pacing import Backoff
from qosmanager.kubernetes.pod_json import POD, STATUS, WATCH_EVENT, WatchEvent, uid_of, version_of
from qosmanager.kubernetes.pod_list import Untrue, read_page, refused
from qosmanager.kubernetes.pods import KnownPod, known_pod
from qosmanager.ports import Clock

PODS = "/api/v1/pods"
PAGE = 250  # pods
MOST_PAGES = 64
WATCHED = 20  # seconds
SILENCE = 25.0  # seconds
LIST_PATIENCE = 10.0  # seconds
LIVED = 5.0  # seconds after which a watch that ends was one
GONE = 410
EXPIRED = "Expired"


class PodWatch:
    """`once` lists where that is needed, watches, and returns how long to wait; it never raises for what a server or a network does."""

    def __init__(self, api: Api, node: str, clock: Clock, random: Callable[[], float]) -> None:
        self.known = KnownPods(clock)
        self.problem = ""  # why nothing is heard now, for people
        self._api = api
        self._clock = clock
        self._backoff = Backoff(random)
        self._selector = f"spec.nodeName={node}"
        self._version = ""  # "": list first
        self._newest = False  # whether the next list must be the newest there is, or may come from the server's memory
        self._unread: dict[str, str] = {}  # uid -> why that pod's last change is not understood

    @property
    def problems(self) -> tuple[str, ...]:
        """What of the pods is not understood, for people."""
        return tuple(self._unread.values())

    def once(self) -> float:
        """List if need be, then watch until that ends; return the seconds to wait."""
        try:
            if not self._version:
                self._list()
            lived = self._watch()
        except Untrue as error:
            return self._failed(f"{error}", error)
        except WatchRefused as error:
            untrue = refused(error.answer)
            return self._failed(f"{untrue}", untrue)
        except ApiUnreachable as error:
            return self._failed(str(error))
        self.problem = ""
        if lived >= LIVED:
            self._backoff.succeeded()
            self.known.confirm()
            return 0.0
        return self._backoff.failed()

    def _failed(self, problem: str, error: Untrue | None = None) -> float:
        self.problem = problem
        if error is None:
            return self._backoff.failed()
        if error.expired:
            self._version, self._newest = "", True
        return self._backoff.failed(error.retry_after)

    def _list(self) -> None:
        query = {"fieldSelector": self._selector, "limit": str(PAGE)}
        # Version 0 comes from the server's memory. From its disk, all pods of the cluster would be read for each agent that starts.
        first = query if self._newest else query | {"resourceVersion": "0"}
        pods: list[KnownPod] = []
        unread: dict[str, str] = {}
        page = read_page(self._api.request("GET", PODS, query=first, timeout=LIST_PATIENCE))
        for _ in range(MOST_PAGES):
            pods += page.pods
            unread |= page.problems
            if not page.next:
                break
            page = read_page(self._api.request("GET", PODS, query=query | {"continue": page.next}, timeout=LIST_PATIENCE))
        else:
            raise Untrue(f"a list of more than {MOST_PAGES} pages")
        if not page.version:
            raise Untrue("a list without a version")
        if not self.known.replace(pods):
            raise Untrue(NOT_BELIEVED)
        self._version, self._newest, self._unread = page.version, False, unread

    def _watch(self) -> float:
        """Follow the changes until the watch ends; return the seconds for which it lived."""
        query = {
            "watch": "true",
            "fieldSelector": self._selector,
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCHED),
        }
        with self._api.watch(PODS, query, SILENCE) as lines:
            began = self._clock.monotonic()
            self.problem = ""
            self._follow(lines)
            return self._clock.monotonic() - began

    def _follow(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            try:
                event = WATCH_EVENT.decode(line)
                if event.type == "ERROR":
                    raise _error(event)
                version = version_of(event.object)
            except (msgspec.DecodeError, RecursionError):
                self._version = ""  # what it told is lost; a list tells it again
                raise Untrue("a watch that tells something else than events") from None
            if event.type == "BOOKMARK":
                self.known.confirm()
            else:
                self._take(event)
            self._version = version or self._version

    def _take(self, event: WatchEvent) -> None:
        """Take one change. One that is not understood is told, and costs the others nothing."""
        if event.type == "DELETED":
            uid = uid_of(event.object)
            self._unread.pop(uid, None)
            self.known.remove(uid)
            return
        try:
            pod = known_pod(POD.decode(event.object))
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            uid = uid_of(event.object)
            self._unread[uid] = f"pod {printable(uid)} is not understood: {printable(str(error))}"
            return
        self._unread.pop(pod.uid, None)
        self.known.put(pod)


def _error(event: WatchEvent) -> Untrue:
    status = STATUS.decode(event.object)
    text = printable(status.message or status.reason or "no reason given")
    return Untrue(f"the watch ended with {status.code or 'an error'} ({text})", expired=status.code == GONE or status.reason == EXPIRED)
