"""The agent as one of a cluster: everything that talks to the API server, put together. Imported only with --kubernetes.

In: the options. Out: `Joined`, whose parts run on threads of their own; the cycle reads what they know and hands over what is to be said.
"""

from __future__ import annotations

import logging
import os
import random
import re
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.structs import replace

from qosmanager.cli.cluster_options import KUBELET, ClusterOptions
from qosmanager.cli.daemon import Sources
from qosmanager.cli.errors import CannotRunError
from qosmanager.cli.first_word import await_first
from qosmanager.cli.node_desk import Desk
from qosmanager.collect.kubepods import NAMESPACE, Kubepods
from qosmanager.config.settings import Settings
from qosmanager.engine.runner import Listener
from qosmanager.kubernetes.access import Access, AccessError, Server, from_kubeconfig, in_cluster
from qosmanager.kubernetes.api import Api
from qosmanager.kubernetes.cluster import FRESH, Cluster, Origin
from qosmanager.kubernetes.config_map import ConfigMapName
from qosmanager.kubernetes.events import Events
from qosmanager.kubernetes.evictions import ApiEvictions
from qosmanager.kubernetes.http_api import HttpApi
from qosmanager.kubernetes.kubelet import KubeletPods
from qosmanager.kubernetes.node_pause import LongerPause
from qosmanager.kubernetes.source import ClusterPods
from qosmanager.kubernetes.telling import Telling
from qosmanager.kubernetes.watch import PodWatch
from qosmanager.linux.cgroup import Hierarchies
from qosmanager.linux.evictions import is_empty
from qosmanager.model.actions import Evict
from qosmanager.model.plain import plain
from qosmanager.model.workload import Workload
from qosmanager.ports import Clock, EvictionProgress, Evictions, Pauses
from qosmanager.views.cluster import ClusterView
from qosmanager.views.log_lines import pairs

_LOG = logging.getLogger("qosmanager")
FIRST_PODS = 3.0  # seconds that the first cycle waits for them
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class Joined:
    """The parts that the cycle uses. Nothing here waits for a network, but `leave`. A dry run only listens: it evicts nobody, and tells the
    cluster nothing."""

    def __init__(self, desk: Desk, api: Api, cluster: Cluster, clock: Clock) -> None:
        self.node_name = desk.node_name
        self._desk = desk
        self._api = api
        self._cluster = cluster
        self._clock = clock
        self._events = Events(api, desk.node_name, clock)
        self._evictions: ApiEvictions | None = None  # None: a dry run
        self._telling: Telling | None = None

    def sources(self, given: Sources) -> Sources:
        """Return what a person writes, with the ConfigMap for its configuration where one is watched, and the node's labels."""
        return replace(given, config=self._desk.config or given.config, labels=lambda: self._desk.memory.labels)

    def pauses(self, local: Pauses) -> Pauses:
        """Join the node's annotation to another way of pausing."""
        return LongerPause(local, self._desk.pause)

    def told(self, behind: Listener, stack: ExitStack) -> Listener:
        """Tell the cluster of each cycle, then the listener behind; until `stack` unwinds."""
        writer = self._desk.writer
        stack.callback(writer.stop)
        writer.start()
        self._telling = Telling(behind, self._events, writer)
        return self._telling

    def refused(self, problems: str) -> None:
        """Tell that a changed configuration was refused."""
        if self._telling is not None:
            self._telling.rejected(problems)

    def leave(self, on_stop: str) -> None:
        """The agent ends, as --on-stop says: take back what it has published, or offer nothing until the next one comes."""
        if self._telling is None:
            return
        writer = self._desk.writer
        writer.stop()
        if on_stop == "restore":
            writer.withdraw()
        else:
            writer.rest()

    @property
    def problems(self) -> tuple[str, ...]:
        """What of the node's annotations and of the ConfigMap is not followed, for people."""
        return self._desk.problems

    def source(self, groups: Kubepods) -> ClusterPods:
        """Join kubelet's groups with what the cluster says."""
        return ClusterPods(groups, self._cluster)

    def pods_age(self) -> float:
        return self._cluster.age()

    def evictions_barred(self) -> str:
        """Why nobody can be evicted now; "": nothing is known against it."""
        return "" if self._evictions is None else self._evictions.barred

    def evictions(self, local: Evictions, hierarchies: Hierarchies, stack: ExitStack) -> Evictions:
        """Return what evicts: pods of the cluster by the API server, what a workload file declares as ever; until `stack` unwinds."""
        self._evictions = ApiEvictions(self._api, self._desk.memory, self._events, partial(is_empty, hierarchies), self._clock)
        for part in (self._events, self._evictions):
            stack.callback(part.stop)
            part.start()
        return _ByOwner(self._evictions, local)

    def use(self, settings: Settings) -> None:
        """Take other settings from now on."""
        if self._evictions is not None:
            self._evictions.use(settings)

    def view(self) -> ClusterView:
        """Return what is shown of the cluster."""
        heard = self._cluster.heard()
        age = round(self._cluster.age(), 1)
        return ClusterView(
            node_name=self.node_name,
            origin=heard.origin,
            age=age,
            pods=len(heard.pods),
            evicted=self._desk.memory.evicted_lately(),
            events_dropped=self._events.dropped,
            problems=tuple(map(plain, self._cluster.problems)),
        )


class _ByOwner:
    """A pod of the cluster is only ever ended by the API server: kubelet would start its containers again."""

    def __init__(self, api: Evictions, local: Evictions) -> None:
        self._api = api
        self._local = local

    def begin(self, action: Evict, workload: Workload, now: float) -> str:
        if workload.uid and workload.key == f"{NAMESPACE}/pod{workload.uid}":
            return "the cluster has not named this pod yet"
        return (self._api if workload.uid else self._local).begin(action, workload, now)

    def unsettled(self) -> frozenset[str]:
        return self._local.unsettled() | self._api.unsettled()

    def poll(self, now: float) -> dict[str, EvictionProgress]:
        return self._local.poll(now) | self._api.poll(now)


def join(options: ClusterOptions, kept: Path | None, clock: Clock, stack: ExitStack) -> Joined:
    """Begin to listen to the cluster, until `stack` unwinds. `kept`: the state directory; None: nothing outlives a dry run. Raises
    CannotRunError for what a user can mend; that a cluster does not answer is none of that, unless its ConfigMap is needed to begin."""
    name = _node_name(options)
    wanted_map = _config_map(options)
    access = reached(options.kubeconfig)
    api = HttpApi(access, clock)
    stack.callback(api.close)
    origins: dict[str, Origin] = {}
    closing = [api]
    watch = PodWatch(api, name, clock, random.random)
    if options.pods_from != "kubelet":
        origins["api"] = watch
    if options.pods_from != "api":
        kubelet = HttpApi(_kubelet(options, access, name), clock)
        closing.append(kubelet)
        wanted = partial(_is_old, watch) if origins else _always
        origins["kubelet"] = KubeletPods(kubelet, clock, random.random, wanted)
    cluster = Cluster(origins, clock)
    desk = Desk(name, api, kept or Path(stack.enter_context(TemporaryDirectory(prefix="qosmanager-"))), clock)
    if options.publish_batch_resources:
        desk.publish()
    stack.callback(cluster.stop)
    stack.callback(desk.stop)
    for each in closing:
        stack.callback(each.close)  # before they are stopped: whoever waits for a network is woken
    # Once, and at once: whoever starts it by hand sees whom it asks.
    _LOG.info(pairs("Joining", node=name, api=api.server.url, pods_from=",".join(origins)))
    cluster.start()
    desk.start()
    if wanted_map is not None:
        desk.take_configuration(wanted_map)
    await_first(f"the pods of {name}", FIRST_PODS, lambda: cluster.is_fresh, lambda: cluster.problems)
    return Joined(desk, api, cluster, clock)


def _config_map(options: ClusterOptions) -> ConfigMapName | None:
    try:
        return None if options.config_map is None else ConfigMapName.parse(options.config_map)
    except ValueError as error:
        raise CannotRunError(f"--config-map: {error}") from None


def reached(kubeconfig: Path | None) -> Access:
    """Find the way to the API server. Raises CannotRunError."""
    try:
        return in_cluster() if kubeconfig is None else from_kubeconfig(kubeconfig)
    except AccessError as error:
        raise CannotRunError(f"--kubernetes: {error}" if kubeconfig is None else f"--kubeconfig {error}") from None


def _node_name(options: ClusterOptions) -> str:
    name = options.node_name or os.environ.get("NODE_NAME", "")
    if not _NODE_NAME.fullmatch(name):
        said = f"{name!r} is not allowed" if name else "not given"
        raise CannotRunError(f"--node-name: {said}; the node's name in the cluster is needed (or NODE_NAME in the environment)")
    return name


def _kubelet(options: ClusterOptions, access: Access, node_name: str) -> Access:
    """Return the way to kubelet: who asks is the same. Its certificate says the node's name, not the address of this machine to itself."""
    url = options.kubelet_url or KUBELET
    try:
        server = Server.parse(url)
    except AccessError as error:
        raise CannotRunError(f"--kubelet-url {error}") from None
    if server.host in _LOOPBACK:
        server = replace(server, name=node_name)
    authorities = options.kubelet_ca or access.authorities
    return replace(access, server=server, authorities=authorities, verified=not options.kubelet_insecure_tls)


def _is_old(watch: PodWatch) -> bool:
    return watch.known.age() > FRESH


def _always() -> bool:
    return True
