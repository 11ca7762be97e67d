"""Events of the cluster (events.k8s.io/v1): what `kubectl get events` shows of this agent (specification, section 7).

In: happenings, from any thread, without waiting. Out: events on the pod or the node; what happens again within half an hour becomes a
series on the first one's event. The queue is bounded: what does not fit is counted, and so is what the API server refuses.
"""

from __future__ import annotations

import threading
from collections import deque
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from qosmanager.kubernetes.answers import CONFLICT, NOT_FOUND, TOO_MANY, Complaints, Right, is_success, retry_after
from qosmanager.kubernetes.api import JSON, MERGE_PATCH, Answer, Api, ApiUnreachable
from qosmanager.kubernetes.worker import Worker
from qosmanager.ports import Clock

REPORTER = "qosmanager.io/agent"
NODE_NAMESPACE = "default"  # where events of what has no namespace lie
_PATH = "/apis/events.k8s.io/v1/namespaces/{}/events"
_MOST = 100  # happenings that wait
_MOST_SERIES = 200  # events that are remembered
_SERIES_OVER = 1800.0  # seconds without another one
_BETWEEN_PATCHES = 10.0  # seconds between two updates of one series
_BACK_OFF = (1.0, 2.0, 5.0, 10.0, 30.0)  # seconds
_LONGEST_NOTE, _LONGEST_NAME, _LONGEST_INSTANCE = 1024, 200, 128  # bytes, characters, characters: what the API server takes, or less


class About(Struct, frozen=True):
    """An object that an event is about."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""

    def reference(self) -> dict[str, str]:
        """Return it as the API writes it."""
        named = {"apiVersion": "v1", "kind": self.kind, "name": self.name}
        return named | ({"namespace": self.namespace} if self.namespace else {}) | ({"uid": self.uid} if self.uid else {})


class Happening(Struct, frozen=True, kw_only=True):
    """Something to tell. Two with the same reason, action and `topic` ("": the object) are the same thing happening again."""

    about: About
    reason: str
    action: str
    note: str
    topic: str = ""
    related: About | None = None
    warning: bool = True

    @property
    def key(self) -> tuple[str, ...]:
        return (self.about.kind, self.about.namespace, self.topic or self.about.uid, self.reason, self.action)


class _Series(Struct):
    """An event that was made, and what has happened since it was last told."""

    path: str
    last: float
    count: int = 1
    last_wall: float = 0.0
    told: int = 1
    told_at: float = 0.0


class Events:
    """`say` may be called from any thread. `dropped`: what was not told, since the start."""

    def __init__(self, api: Api, node_name: str, clock: Clock) -> None:
        self.dropped = 0
        self.node = About("Node", node_name, uid=node_name)  # kubelet's events name it so, and kubectl describe looks for them
        self._api = api
        self._clock = clock
        self._instance = node_name[:_LONGEST_INSTANCE]
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Happening, float, int]] = deque()
        self._said = 0
        self._series: dict[tuple[str, ...], _Series] = {}
        self._failures = 0
        self._not_before = 0.0
        self._complaints = Complaints("EventNotTold")
        self._worker = Worker("events", self.work, clock)

    def start(self) -> None:
        self._worker.start()

    def stop(self) -> None:
        """Tell no more than what is being told."""
        self._worker.stop()

    def say(self, happening: Happening) -> None:
        """Have it told; never waits."""
        with self._lock:
            if len(self._waiting) >= _MOST:
                self.dropped += 1
                return
            self._said += 1
            self._waiting.append((happening, self._clock.wall(), self._said))
        self._worker.wake()

    def work(self, now: float) -> float:
        """Tell what waits, as far as the API server lets; return the seconds until there is more to do."""
        if now < self._not_before:
            return self._not_before - now
        while self._waiting:
            if not self._tell(self._waiting[0], now):
                return self._not_before - now
            self._waiting.popleft()
        return self._tell_series(now)

    def _tell(self, waiting: tuple[Happening, float, int], now: float) -> bool:
        """Return whether it is done with, one way or another."""
        happening, wall, number = waiting
        series = self._series.get(happening.key)
        if series is not None and now - series.last < _SERIES_OVER:
            series.last, series.last_wall, series.count = now, wall, series.count + 1
            return True
        namespace = happening.about.namespace or NODE_NAMESPACE
        # The same name each time it is tried: where only the answer was lost, the event is there already.
        name = f"{happening.about.name[:_LONGEST_NAME].rstrip('-.')}.{int(wall * 1e9) + number:x}"
        event = self._event(happening, {"name": name, "namespace": namespace}, wall)
        path = _PATH.format(quote(namespace, safe=""))
        answer = self._ask("POST", path, event, JSON, now)
        if answer is None:
            return False
        if not is_success(answer) and answer.status != CONFLICT:
            self._drop(answer, Right("create", "events.events.k8s.io", namespace))
            return True
        if len(self._series) >= _MOST_SERIES:
            del self._series[min(self._series, key=lambda key: self._series[key].last)]
        self._series[happening.key] = _Series(f"{path}/{name}", now, told_at=now)
        return True

    def _tell_series(self, now: float) -> float:
        """Bring up to date the events of what has happened again."""
        delay = _BACK_OFF[-1]
        for key, series in list(self._series.items()):
            if series.count == series.told:
                continue
            due = series.told_at + _BETWEEN_PATCHES
            if now < due:
                delay = min(delay, due - now)
                continue
            patch = {"series": {"count": series.count, "lastObservedTime": _moment(series.last_wall)}}
            answer = self._ask("PATCH", series.path, patch, MERGE_PATCH, now)
            if answer is None:
                return self._not_before - now
            if is_success(answer):
                series.told, series.told_at = series.count, now
                continue
            del self._series[key]  # the next one begins anew: the event has expired, or is not ours to change
            if answer.status != NOT_FOUND:
                self._drop(answer, Right("patch", "events.events.k8s.io"))
        return delay

    def _event(self, happening: Happening, metadata: dict[str, str], wall: float) -> dict[str, Any]:
        note = happening.note.encode()[:_LONGEST_NOTE].decode(errors="ignore")
        event: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": metadata,
            "eventTime": _moment(wall),
            "reportingController": REPORTER,
            "reportingInstance": self._instance,
            "action": happening.action,
            "reason": happening.reason,
            "regarding": happening.about.reference(),
            "note": note,
            "type": "Warning" if happening.warning else "Normal",
        }
        return event | ({"related": happening.related.reference()} if happening.related else {})

    def _ask(self, method: str, path: str, body: dict[str, Any], content_type: str, now: float) -> Answer | None:
        """Return the answer; None: come again at `_not_before`."""
        try:
            answer = self._api.request(method, path, body=msgspec.json.encode(body), content_type=content_type)
        except ApiUnreachable:
            self._come_again(None, now)
            return None
        if answer.status == TOO_MANY or answer.status >= 500 or (answer.status < 300 and not is_success(answer)):
            self._come_again(retry_after(answer), now)
            return None
        self._failures = 0
        return answer

    def _come_again(self, wanted: float | None, now: float) -> None:
        wait = _BACK_OFF[min(self._failures, len(_BACK_OFF) - 1)]
        self._failures += 1
        self._not_before = now + (wait if wanted is None else max(wait, wanted))

    def _drop(self, answer: Answer, right: Right) -> None:
        with self._lock:
            self.dropped += 1
        self._complaints.once(answer, right)


def _moment(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
