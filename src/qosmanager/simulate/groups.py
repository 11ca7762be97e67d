"""The groups of the model and their weights, as plain systemd slices or as kubelet lays them out (docs/simulate.md)."""

from __future__ import annotations

from collections.abc import Sequence

from qosmanager.model.qos import QoS
from qosmanager.simulate.curve import Curve
from qosmanager.simulate.load import Loaded
from qosmanager.simulate.pods import SMALLEST_WEIGHT, Batch, SimulatedPod
from qosmanager.simulate.scenario import CpuDemand, Layout, Machine, WorkloadSpec
from qosmanager.simulate.service import ServicePod
from qosmanager.simulate.sharing import Branch, Sharer

SHARES = 1024.0  # cpu.shares of a group that nobody gave others, and of one core of request
_LATE = 0.25  # of the requests wait for a time slice when every CPU is another group's, times that group's share of the weights
_NEGLIGIBLE = 0.01  # a share of the weights that keeps nobody waiting
_RESERVED = (QoS.LSR, QoS.LSE)

PLACES = {
    Layout.PLAIN: {QoS.LS: "services.slice", QoS.BE: "batch.slice", QoS.SYSTEM: "system.slice"},
    Layout.KUBERNETES: {QoS.LS: "kubepods/burstable", QoS.BE: "kubepods/besteffort", QoS.SYSTEM: "system.slice"},
}


class Groups:
    """Where the pods lie. `batch` is the group of all BE, `system` what runs beside all pods."""

    def __init__(self, machine: Machine, seed: int) -> None:
        self._machine = machine
        self._kubernetes = machine.layout is Layout.KUBERNETES
        self.cpus = machine.cpus
        self.batch = Batch(SMALLEST_WEIGHT if self._kubernetes else SHARES)
        spec = WorkloadSpec(name="system", qos=QoS.SYSTEM, cpu=CpuDemand(constant=machine.system_cpu))
        self.system = SimulatedPod(spec, "system", "", SHARES, Curve(spec.cpu, (), 0.0, f"{seed}/system"))
        self._services = Branch(SHARES, self.cpus)
        self._daemons = Branch(SHARES, self.cpus)
        self._pods = Branch(SHARES * self.cpus, self.cpus)  # kubepods
        self._root = Branch(SHARES, self.cpus)
        self._rivalry: dict[str, float] = {}
        self.is_rival = False  # whether BE keeps any request waiting

    @property
    def batch_share(self) -> float:
        """BE's share of the CPU where it and the services beside it want all of it; of several groups of services, beside the lightest."""
        if self.batch.idle:
            return 0.0
        beside = [self._services.weight] if self._services.children or not self._kubernetes else []
        beside += [child.weight for child in self._pods.children if child not in (self._services, self.batch)]
        return self.batch.weight / (self.batch.weight + min(beside, default=SHARES))

    @property
    def batch_place(self) -> str:
        return PLACES[self._machine.layout][QoS.BE]

    def make(self, loaded: Loaded, seed: int) -> dict[str, SimulatedPod]:
        """Return all pods that a scenario ever has, by key."""
        pods: dict[str, SimulatedPod] = {}
        groups: set[str] = set()
        given_cpus = 0
        for spec in loaded.scenario.workloads:
            points = loaded.series.get(spec.cpu.csv or "", ())
            for name in spec.pods:
                curve = Curve(spec.cpu, points, self._machine.start, f"{seed}/{spec.namespace}/{name}")
                kind = SimulatedPod if spec.service is None else ServicePod
                group = f"{self._place(spec.qos)}/{name}"
                while group in groups:  # one name in two namespaces
                    group += "~"
                groups.add(group)
                pod = kind(spec, name, group, self._weight(spec), curve)
                pod.width = float(spec.cpus or self.cpus)
                pod.own_cpus = tuple(range(given_cpus, given_cpus + spec.cpus))
                given_cpus += spec.cpus
                pods[pod.key] = pod
        return pods

    def arrange(self, here: Sequence[SimulatedPod]) -> None:
        """Put the pods that are here now into their groups."""
        self.batch.adopt(pod for pod in here if pod.spec.qos is QoS.BE)
        services = [pod for pod in here if pod.spec.qos in (QoS.LS, *_RESERVED)]
        self._daemons.children = [self.system, *(pod for pod in here if pod.spec.qos is QoS.SYSTEM)]
        if self._kubernetes:
            direct: list[Sharer] = [pod for pod in services if pod.spec.qos in _RESERVED]
            self._services.children = [pod for pod in services if pod.spec.qos is QoS.LS]
            self._services.weight = max(SMALLEST_WEIGHT, sum(child.weight for child in self._services.children))
            self._pods.children = [*direct, self._services, self.batch]
            self._root.children = [self._pods, self._daemons]
        else:
            self._services.children = list(services)
            self._root.children = [self._services, self.batch, self._daemons]
        self.weigh()

    def weigh(self) -> None:
        """Look at the weights anew: they say who keeps whose requests waiting."""
        batch = self.batch
        self._rivalry = {}
        for pod in (*self._services.children, *self._pods.children):
            if isinstance(pod, ServicePod):
                side = pod.weight if self._kubernetes and pod.spec.qos in _RESERVED else self._services.weight
                share = 0.0 if batch.idle else batch.weight / (batch.weight + side)
                self._rivalry[pod.key] = _LATE * share if share > _NEGLIGIBLE else 0.0
        self.is_rival = any(self._rivalry.values())

    def late(self, pod: ServicePod) -> float:
        """Return the share of a service's requests that wait for a time slice while BE runs on every CPU."""
        return self._rivalry[pod.key]

    def share_out(self) -> None:
        """Divide the CPUs of one tick among all that said what they want."""
        self._root.gather()
        self._root.hand_out(min(self.cpus, self._root.want))

    def _place(self, qos: QoS) -> str:
        places = PLACES[self._machine.layout]
        if qos in _RESERVED:
            return "kubepods" if self._kubernetes else places[QoS.LS]
        return places[qos]

    def _weight(self, spec: WorkloadSpec) -> float:
        if spec.weight is not None:
            return float(spec.weight)
        return max(SMALLEST_WEIGHT, (spec.requests.cpu or 0.0) * SHARES) if self._kubernetes else SHARES
