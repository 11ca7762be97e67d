"""One object by name, followed for as long as the agent runs: the own node, a ConfigMap.

In: an `Api`. Out: each state of the object, in order, to whoever was named; None where there is no such object. What was last told stays
told while nothing is heard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from urllib.parse import quote

import msgspec

from qosmanager.kubernetes.answers import GONE, Right, is_absent, is_success, refusal, retry_after
from qosmanager.kubernetes.api import Answer, Api, ApiUnreachable, WatchRefused
from qosmanager.kubernetes.pacing import Backoff
from qosmanager.kubernetes.pod_json import STATUS, WATCH_EVENT, version_of
from qosmanager.ports import Clock

_WATCHED = 60  # seconds after which a watch is begun anew
_SILENCE = 70.0  # seconds
_ABSENT = 5.0  # seconds between two looks at whether the object has come to be
_LIVED = 5.0  # seconds after which a watch that ends was one

Taker = Callable[[bytes | None], None]


class ObjectWatch:
    """`once` reads the object where that is needed, watches it, and returns how long to wait; it never raises for what a server does."""

    def __init__(self, api: Api, right: Right, name: str, take: Taker, pace: tuple[Clock, Callable[[], float]]) -> None:
        """`right`: its resource and namespace; `pace`: the clock, and numbers from 0 to 1 that spread what many nodes try."""
        where = f"namespaces/{quote(right.namespace, safe='')}/" if right.namespace else ""
        self._collection = f"/api/v1/{where}{right.resource}"
        self._path = f"{self._collection}/{quote(name, safe='')}"
        self._api = api
        self._right = right
        self._name = name
        self._take = take
        self._clock, random = pace
        self._backoff = Backoff(random)
        self._version = ""  # "": read first
        self.problem = ""  # why nothing is heard now, for people

    def once(self) -> float:
        """Read if need be, then watch until that ends; return the seconds to wait."""
        began = self._clock.monotonic()
        right = self._right
        try:
            if not self._version and not self._read():
                return _ABSENT
            right = Right("watch", right.resource, right.namespace)
            self._watch()
        except ApiUnreachable as error:
            self.problem = f"not reached: {error}"
            return self._backoff.failed()
        except WatchRefused as error:
            return self._refused(error.answer, right)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            self._version = ""
            self.problem = f"{self._path}: something else than events"
            return self._backoff.failed()
        if self._clock.monotonic() - began < _LIVED:
            return self._backoff.failed()
        self._backoff.succeeded()
        return 0.0

    def _read(self) -> bool:
        """Return whether there is such an object."""
        answer = self._api.request("GET", self._path)
        if is_absent(answer):
            self.problem = f"{self._right.resource} {self._name} does not exist"
            self._take(None)
            return False
        if not is_success(answer):
            raise WatchRefused(answer)
        self._version = version_of(msgspec.Raw(answer.body))
        self._take(answer.body)
        self.problem = ""
        return True

    def _watch(self) -> None:
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={self._name}",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCHED),
        }
        with self._api.watch(self._collection, query, _SILENCE) as lines:
            self.problem = ""
            self._follow(lines)

    def _follow(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            event = WATCH_EVENT.decode(line)
            if event.type == "ERROR":
                status = STATUS.decode(event.object)
                self._version = ""
                raise WatchRefused(Answer(status.code or 500, {}, bytes(event.object)))
            self._version = version_of(event.object) or self._version
            if event.type == "DELETED":
                self._version = ""
                self._take(None)
                return
            if event.type != "BOOKMARK":
                self._take(bytes(event.object))

    def _refused(self, answer: Answer, right: Right) -> float:
        if answer.status in (GONE, 400, 504):
            self._version = ""
        self.problem = refusal(answer, right)
        return self._backoff.failed(retry_after(answer) or 0.0)
