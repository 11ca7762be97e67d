"""A node of a cluster as far as tests need one: an API server on loopback, a container runtime, the stand-in for kubelet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from loopback_api.objects import NODE, node
from loopback_api.server import LoopbackApi
from loopback_api.store import Object
from real_daemon import wait
from real_groups import RealGroups
from real_kubelet.cri import Cri
from real_kubelet.kubelet import Kubelet
from real_kubelet.runtime import Runtime


class RealNode(NamedTuple):
    """Its parts, and what tests ask of them. Pods go by name."""

    api: LoopbackApi
    runtime: Runtime
    cri: Cri
    kubelet: Kubelet
    groups: RealGroups

    def run(self, *pods: Object) -> None:
        """Put pods on the node and wait until their containers run."""
        for pod in pods:
            self.api.store.create("pods", pod)
        for pod in pods:
            name = pod["metadata"]["name"]
            wait(lambda name=name: self._runs(name), 60, f"{name} to run")

    def pod(self, name: str) -> Object:
        return next(each for each in self._pods() if each["metadata"]["name"] == name)

    def holds(self, name: str) -> bool:
        """Whether the server still knows a pod."""
        return any(each["metadata"]["name"] == name for each in self._pods())

    def group(self, name: str) -> str:
        """Return a pod's cgroup."""
        return self.kubelet.group(self.pod(name))

    def container(self, name: str) -> str:
        """Return the id of a pod's only container."""
        (status,) = self.pod(name)["status"]["containerStatuses"]
        return status["containerID"].removeprefix("containerd://")

    def exit_code(self, name: str) -> int:
        """Return how the only container of a pod that is gone has ended."""
        last = [change.object for change in self.api.store.since(0, "pods") if change.object["metadata"]["name"] == name][-1]
        return last["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]

    def _runs(self, name: str) -> bool:
        self.kubelet.check()
        return self.pod(name)["status"]["phase"] == "Running"

    def _pods(self) -> list[Object]:
        return self.api.store.list("pods")[0]


@contextmanager
def real_node(groups: RealGroups) -> Iterator[RealNode]:
    """Give a node whose cgroup is that of `groups`."""
    with LoopbackApi() as api, Runtime(groups) as runtime, Cri(runtime.socket) as cri, Kubelet(api, cri, groups, NODE) as kubelet:
        api.store.create("nodes", node(NODE))
        yield RealNode(api, runtime, cri, kubelet, groups)
