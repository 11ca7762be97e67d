"""A small stand-in for kubelet: it runs the pods that a loopback API server holds for its node as real containers.

It makes the cgroups of the cgroupfs driver (kubepods/burstable/pod<uid>, kubepods/besteffort/pod<uid>, Guaranteed ones at the top), has
the runtime start what the pod's specification says, reports status, and ends a pod that has a deletionTimestamp: SIGTERM, its grace,
SIGKILL; then the pod is gone from the server. Each pod lives on a thread of its own; `_life` tells its life from beginning to end.
"""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Self

from loopback_api.server import LoopbackApi
from loopback_api.store import Object, Refusal, timestamp
from real_groups import RealGroups
from real_kubelet import keeper
from real_kubelet.cri import Cri
from real_kubelet.resources import claims, of_container, of_pod, qos_class

TIERS = {"Guaranteed": "kubepods", "Burstable": "kubepods/burstable", "BestEffort": "kubepods/besteffort"}
_LOOK = 0.1  # seconds


class Kubelet:
    """Runs from `with` on. What goes wrong on its threads is raised at its end."""

    def __init__(self, api: LoopbackApi, cri: Cri, groups: RealGroups, node: str) -> None:
        api.ends.by_itself = False  # a pod is gone when it says so, not when its grace is over
        self._api, self._cri, self._groups, self._node = api, cri, groups, node
        self._stopping = threading.Event()
        self._lives = ThreadPoolExecutor(32, "kubelet")
        self._watching = self._lives.submit(lambda: None)

    def __enter__(self) -> Self:
        for tier in ("", "/burstable", "/besteffort"):
            self._groups.add(f"kubepods{tier}")
        # kubelet's choice: what is best effort comes after everything else.
        self._groups.put(self._groups.path("kubepods/besteffort"), "cpu.shares", "2")
        self._watching = self._lives.submit(self._watch)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._lives.shutdown()
        self._watching.result()

    def group(self, pod: Object) -> str:
        """Return a pod's cgroup, from the root of each hierarchy."""
        return self._groups.path(_group(pod))

    def check(self) -> None:
        """Raise what has gone wrong so far, if anything."""
        if self._watching.done():
            self._watching.result()

    def _watch(self) -> None:
        lives = {}
        while not self._stopping.is_set():
            for life in lives.values():
                if life.done():
                    life.result()
            for pod in self._api.store.list("pods")[0]:
                uid = pod["metadata"]["uid"]
                if pod["spec"].get("nodeName") == self._node and uid not in lives:
                    lives[uid] = self._lives.submit(self._life, pod)
            self._stopping.wait(_LOOK)
        for life in lives.values():
            life.result()

    def _life(self, pod: Object) -> None:
        meta, group = pod["metadata"], _group(pod)
        self._groups.add(group)
        for file, value in of_pod(pod).items():
            self._groups.put(self._groups.path(group), file, str(value))
        sandbox = self._cri.run_sandbox(meta["namespace"], meta["name"], meta["uid"], self._groups.path(group))
        containers = {
            each["name"]: self._cri.run_container(sandbox, each, of_container(pod, claims(each))) for each in pod["spec"]["containers"]
        }
        self._report(pod, "Running", containers)
        grace = self._end_of(pod)
        if grace is None:
            return  # the runtime's end is theirs
        with ThreadPoolExecutor(len(containers)) as each:
            list(each.map(lambda identity: self._cri.stop_container(identity, grace), containers.values()))
        with contextlib.suppress(Refusal):  # deleted without grace: the server has forgotten it already
            self._report(pod, "Failed", containers)
        self._cri.remove_sandbox(sandbox)
        keeper.remove_groups(self._groups.path(group))
        with contextlib.suppress(Refusal):
            self._api.ends.finish(meta["namespace"], meta["name"])

    def _end_of(self, pod: Object) -> int | None:
        """Wait until the pod is to end; return its grace in seconds, None: this kubelet ends first."""
        meta, store = pod["metadata"], self._api.store
        while not self._stopping.is_set():
            with store.changed:
                try:
                    now = store.get("pods", meta["namespace"], meta["name"])["metadata"]
                except Refusal:
                    return 0
                if "deletionTimestamp" in now:
                    return now["deletionGracePeriodSeconds"]
                store.changed.wait(_LOOK)
        return None

    def _report(self, pod: Object, phase: str, containers: dict[str, str]) -> None:
        meta, store = pod["metadata"], self._api.store
        statuses = [self._status(name, identity) for name, identity in containers.items()]
        ready = {"type": "Ready", "status": "True" if phase == "Running" else "False"}
        with store.changed:
            now = store.get("pods", meta["namespace"], meta["name"])
            known = {"phase": phase, "qosClass": qos_class(pod), "conditions": [ready], "containerStatuses": statuses}
            now["status"] = now.get("status", {}) | {"startTime": timestamp()} | known
            store.replace("pods", now)

    def _status(self, name: str, identity: str) -> Object:
        told = self._cri.status(identity)
        state: Object = {"running": {"startedAt": _time(told.started_at)}}
        if told.finished_at:
            ended = {"exitCode": told.exit_code, "reason": told.reason, "finishedAt": _time(told.finished_at)}
            state = {"terminated": state["running"] | ended}
        return {"name": name, "containerID": f"containerd://{identity}", "ready": not told.finished_at, "state": state}


def _group(pod: Object) -> str:
    return f"{TIERS[qos_class(pod)]}/pod{pod['metadata']['uid']}"


def _time(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).isoformat()
