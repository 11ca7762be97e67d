"""What one origin (API server, kubelet) has told of the node's pods, and how old that is.

In: whole lists, single changes, and every sign that nothing was missed. Out: the pods by the uid in their groups' names. One thread writes,
any thread reads. What is no longer named is kept as terminating for a while, for its processes may still run; and an empty list is believed
only when it has been the answer for half a minute.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from qosmanager.kubernetes.pods import KnownPod
from qosmanager.model.snapshot import PODS_STALE_AFTER
from qosmanager.ports import Clock

KEPT = 120.0  # seconds that a pod is remembered after it was last named
DOUBTED = 30.0  # seconds of empty lists until they are believed
NOT_BELIEVED = "no pods at all, where there were some; not believed yet"


class KnownPods:
    """Empty at first, and then older than anything that may be decided on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._confirmed: float | None = None
        self._empty_since: float | None = None
        self._pods: dict[str, KnownPod] = {}  # by the API's uid
        self._ended: dict[str, float] = {}  # uid -> when it was last named
        self._lock = threading.Lock()
        self._view: Mapping[str, KnownPod] = {}
        self._changed = False
        self.revision = 0

    def age(self) -> float:
        """Return the seconds since it was last certain that nothing was missed; before the first time, more than is allowed."""
        now = self._clock.monotonic()
        return PODS_STALE_AFTER + 1.0 + now - self._began if self._confirmed is None else now - self._confirmed

    def by_group(self) -> Mapping[str, KnownPod]:
        """Return the pods by the uid that their groups are named by; the same object until `revision` changes."""
        with self._lock:
            if self._changed:
                # Whose own uid it is comes before who says that its groups are named so: pods are made by many.
                self._view = {pod.cgroup_uid: pod for pod in self._pods.values()} | {
                    pod.uid: pod for pod in self._pods.values() if pod.uid == pod.cgroup_uid
                }
                self._changed = False
            return self._view

    def replace(self, pods: Iterable[KnownPod]) -> bool:
        """Take a whole list; False: it is empty, there were pods a moment ago, and it is not believed yet."""
        now = self._clock.monotonic()
        told = {pod.uid: pod for pod in pods}
        with self._lock:
            if not told and len(self._pods) > len(self._ended):
                self._empty_since = now if self._empty_since is None else self._empty_since
                if now - self._empty_since < DOUBTED:
                    return False
            self._empty_since = None
            for uid in self._pods.keys() - told.keys():
                self._end(uid, now)
            for pod in told.values():
                self._put(pod)
        self.confirm()
        return True

    def put(self, pod: KnownPod) -> None:
        """Take one pod as it is now."""
        with self._lock:
            self._put(pod)
        self.confirm()

    def remove(self, uid: str) -> None:
        """Take note that a pod is no more."""
        with self._lock:
            self._end(uid, self._clock.monotonic())
        self.confirm()

    def confirm(self) -> None:
        """Take note that nothing was missed so far."""
        self._confirmed = now = self._clock.monotonic()
        if self._ended:
            with self._lock:
                for uid in [uid for uid, since in self._ended.items() if now - since >= KEPT]:
                    del self._ended[uid], self._pods[uid]
                    self._note_change()

    def _put(self, pod: KnownPod) -> None:
        self._ended.pop(pod.uid, None)
        if self._pods.get(pod.uid) != pod:
            self._pods[pod.uid] = pod
            self._note_change()

    def _end(self, uid: str, now: float) -> None:
        if uid in self._pods and uid not in self._ended:
            self._ended[uid] = now
            self._pods[uid] = replace(self._pods[uid], terminating=True)
            self._note_change()

    def _note_change(self) -> None:
        self._changed = True
        self.revision += 1
