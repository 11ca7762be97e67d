"""Parts of the agent that ask a loopback API server, put together for tests."""

from __future__ import annotations

from contextlib import contextmanager

from qosmanager.kubernetes.access import Access, Inline, Server
from qosmanager.kubernetes.events import Events
from qosmanager.kubernetes.evictions import ApiEvictions
from qosmanager.kubernetes.http_api import HttpApi
from qosmanager.kubernetes.memory import AgentMemory
from qosmanager.linux.clock import LinuxClock
from qosmanager.model.actions import Evict
from qosmanager.model.qos import Plugin, QoS
from qosmanager.model.workload import Workload


class Paper:
    """A notebook that outlives its agent."""

    def __init__(self, text=None):
        self.text = text

    def load(self):
        return self.text

    def save(self, text):
        self.text = text


class Evicting:
    """Evictions with a clock that is moved by hand; `busy` holds the cgroups in which processes are left."""

    def __init__(self, api, paper, clock, node="worker-1"):
        self.clock = clock
        self.busy = set()
        self.memory = AgentMemory(paper, clock)
        self.events = Events(api, node, clock)
        self.evictions = ApiEvictions(api, self.memory, self.events, lambda cgroup: cgroup not in self.busy, clock)

    def begin(self, action, pod_workload):
        return self.evictions.begin(action, pod_workload, self.clock.now)

    def pass_time(self, seconds=0.0):
        """Let time go by in steps of half a second, with all that is due; return what has ended."""
        ended = dict(self.evictions.poll(self.clock.now))
        for _ in range(int(seconds / 0.5) + 1):
            self.evictions.work(self.clock.now)
            ended |= self.evictions.poll(self.clock.now)
            self.clock.now += 0.5
        return ended

    def tell(self):
        self.events.work(self.clock.now)


@contextmanager
def asking(server):
    """What asks a loopback server, over TLS."""
    access = Access(server=Server.parse(server.url), authorities=Inline(server.ca_pem), token=Inline(server.token.encode()))
    api = HttpApi(access, LinuxClock())
    try:
        yield api
    finally:
        api.close()


def workload(name="rec-0", *, uid, grace=30.0, namespace="batch"):
    return Workload(name=name, namespace=namespace, uid=uid, qos=QoS.BE, cgroup=f"kubepods/besteffort/pod{uid}", grace=grace)


def evict(name="rec-0", *, plugin=Plugin.CPU_EVICT, namespace="batch", **given):
    given = {"reason": "score 95.0", "cpu": 1.5, "memory": 64 << 20} | given
    return Evict(plugin=plugin, pod=f"{namespace}/{name}", **given)
