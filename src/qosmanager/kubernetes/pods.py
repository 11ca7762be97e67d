"""A pod of the API as the engine knows it: class, priority, claims, objectives, consent (specification, section 1).

In: a pod's JSON. Out: `KnownPod`, whatever is wrong with what people wrote on it: that is left out and told in `problems`.

What people may write on a pod:

- label `koordinator.sh/qosClass`: LSE, LSR, LS, BE or SYSTEM
- label `koordinator.sh/eviction-enabled`: the owner's consent, as it is to Koordinator. "true" lets even a BestEffort pod without a class
  be evicted; any other value withholds it
- annotation `qosmanager.io/critical`: "true" or "false"
- annotation `qosmanager.io/slo-p99`: a duration, "100ms"
- annotation `qosmanager.io/latency`: "9113/metrics http_request_duration_seconds", a port and a path at the pod's own address, and the
  histogram there; no other address can be named, for whoever may create a pod writes this
"""

from __future__ import annotations

import re

import msgspec
from msgspec import Struct

from qosmanager.documents.problem import printable
from qosmanager.documents.quantities import Rule, number, time
from qosmanager.kubernetes.claims import Claims, claims
from qosmanager.kubernetes.pod_json import Metadata, PodJson, Spec, Status
from qosmanager.model.cpu_list import parse_cpus
from qosmanager.model.qos import QoS
from qosmanager.model.workload import LatencySource

QOS_LABEL = "koordinator.sh/qosClass"
CONSENT_LABEL = "koordinator.sh/eviction-enabled"
CPUS_ANNOTATION = "scheduling.koordinator.sh/resource-status"  # {"cpuset": "0-3"}: what koord-scheduler gave to an LSE or LSR pod
CRITICAL = "qosmanager.io/critical"
SLO = "qosmanager.io/slo-p99"
LATENCY = "qosmanager.io/latency"
MIRROR = "kubernetes.io/config.mirror"
CONFIG_HASH = "kubernetes.io/config.hash"  # of a mirror pod: the uid that kubelet names the static pod's groups by
CONFIG_SOURCE = "kubernetes.io/config.source"  # kubelet's own list: "api", or the "file" or "http" that a static pod comes from

GRACE = 30.0  # seconds, where a pod says nothing
SYSTEM_NAMESPACE = "kube-system"
SYSTEM_CLASSES = frozenset({"system-node-critical", "system-cluster-critical"})
KUBERNETES_CLASSES = {"Guaranteed": QoS.LSR, "Burstable": QoS.LS, "BestEffort": QoS.BE}
PRIORITY_BANDS = {"koord-prod": 9000, "koord-mid": 7000, "koord-batch": 5000, "koord-free": 3000}  # the lowest of each
_EXCLUSIVE = (QoS.LSE, QoS.LSR)
_ENDED = frozenset({"Succeeded", "Failed"})
_LATENCY = re.compile(r"([0-9]{1,5})(/[!-~]*)? +([a-zA-Z_:][a-zA-Z0-9_:]*)")
_DURATION = Rule(unit="duration", above=0.0, high=3600.0)


class KnownPod(Struct, frozen=True, kw_only=True):
    """A pod as the API tells of it. Units as in `Workload`.

    `qos` None: the API does not say, its group's place does. `cgroup_uid`: the uid in the names of its groups. `containers`: names by the
    runtime's id. `problems`: what of its labels and annotations is not understood, for people.
    """

    name: str
    namespace: str
    uid: str
    cgroup_uid: str
    qos: QoS | None
    labelled: bool
    priority: int
    created: float | None
    critical: bool
    terminating: bool
    owner: str | None
    grace: float
    claims: Claims | None
    slo_p99: float | None = None
    latency: LatencySource | None = None
    exclusive_cpus: tuple[int, ...] = ()
    containers: dict[str, str] = {}
    problems: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


class UnnamedPodError(ValueError):
    """An object that is no pod: it has no name, namespace or uid."""


class _ResourceStatus(Struct):
    cpuset: str = ""


def known_pod(pod: PodJson) -> KnownPod:
    """Translate a pod. Raises UnnamedPodError."""
    metadata, spec, status = pod.metadata or Metadata(), pod.spec or Spec(), pod.status or Status()
    if not metadata.name or not metadata.namespace or not metadata.uid:
        raise UnnamedPodError("an object without name, namespace and uid is no pod")
    said = _Said(f"{metadata.namespace}/{metadata.name}", metadata)
    label, consent = said.qos(), said.consent()
    qos = label or _qos(metadata.namespace, spec, status)
    return KnownPod(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        cgroup_uid=said.cgroup_uid() or metadata.uid,
        qos=qos,
        labelled=label is not None or consent is True,
        priority=spec.priority if spec.priority is not None else PRIORITY_BANDS.get(spec.priority_class_name or "", 0),
        created=_time(metadata.creation_timestamp),
        critical=said.critical() or consent is False,
        terminating=bool(metadata.deletion_timestamp) or status.phase in _ENDED,
        owner=_owner(metadata, said.annotations),
        grace=GRACE if spec.termination_grace_period_seconds is None else max(0.0, spec.termination_grace_period_seconds),
        claims=said.claims(pod),
        slo_p99=said.slo(),
        latency=said.latency(status.pod_ip),
        exclusive_cpus=said.cpus() if qos in _EXCLUSIVE else (),
        containers=_containers(status),
        problems=tuple(said.problems),
    )


def _qos(namespace: str, spec: Spec, status: Status) -> QoS | None:
    """Return the class of a pod without a label."""
    if namespace == SYSTEM_NAMESPACE or spec.priority_class_name in SYSTEM_CLASSES:
        return QoS.SYSTEM
    return KUBERNETES_CLASSES.get(status.qos_class or "")


class _Said:
    """What people wrote on a pod, and in `problems` what of it is not understood."""

    def __init__(self, key: str, metadata: Metadata) -> None:
        self._key = key
        self._labels = metadata.labels or {}
        self.annotations = metadata.annotations or {}
        self.problems: list[str] = []

    def cgroup_uid(self) -> str:
        """Return the uid that a mirror pod's groups are named by; on any other pod it would only give another pod's groups to this one."""
        return self.annotations.get(CONFIG_HASH, "") if MIRROR in self.annotations else ""

    def qos(self) -> QoS | None:
        text = self._labels.get(QOS_LABEL)
        if text is None:
            return None
        try:
            return QoS(text)
        except ValueError:
            self._refuse(QOS_LABEL, text, "LSE, LSR, LS, BE or SYSTEM is")
            return None

    def consent(self) -> bool | None:
        """Whether it may be evicted; None: nothing is said."""
        text = self._labels.get(CONSENT_LABEL)
        return None if text is None else text == "true"

    def critical(self) -> bool:
        text = self.annotations.get(CRITICAL, "false")
        if text not in ("true", "false"):
            self._refuse(CRITICAL, text, "true or false is; it counts as true")
        return text != "false"

    def slo(self) -> float | None:
        text = self.annotations.get(SLO)
        if text is None:
            return None
        try:
            seconds = number(text, _DURATION)
            if _DURATION.allows(seconds):
                return seconds
        except ValueError:
            pass
        self._refuse(SLO, text, f"{_DURATION.allowed()} is")
        return None

    def latency(self, address: str | None) -> LatencySource | None:
        """Return where the latency is to be asked for; None also while the pod has no address yet."""
        text = self.annotations.get(LATENCY)
        if text is None:
            return None
        match = _LATENCY.fullmatch(text)
        if match is None or not 0 < int(match[1]) < 1 << 16:
            self._refuse(LATENCY, text, "PORT/PATH HISTOGRAM is, such as 9113/metrics http_request_duration_seconds")
            return None
        if not address:
            return None
        host = f"[{address}]" if ":" in address else address
        return LatencySource(f"http://{host}:{match[1]}{match[2] or '/metrics'}", match[3])

    def claims(self, pod: PodJson) -> Claims | None:
        try:
            return claims(pod)
        except ValueError as error:
            self.problems.append(f"{self._key}: {printable(str(error))}; its requests and limits are not known")
            return None

    def cpus(self) -> tuple[int, ...]:
        text = self.annotations.get(CPUS_ANNOTATION)
        if not text:
            return ()
        try:
            return tuple(sorted(parse_cpus(msgspec.json.decode(text, type=_ResourceStatus).cpuset)))
        except (ValueError, msgspec.DecodeError):
            self._refuse(CPUS_ANNOTATION, text, '{"cpuset": "0-3"} is')
            return ()

    def _refuse(self, where: str, text: str, allowed: str) -> None:
        self.problems.append(f"{self._key}: {where} {printable(text)!r} is not allowed; {allowed}")


def _owner(metadata: Metadata, annotations: dict[str, str]) -> str | None:
    """Return the controller's kind; "Node": kubelet itself, from a file of its own."""
    if MIRROR in annotations or annotations.get(CONFIG_SOURCE, "api") != "api":
        return "Node"
    for reference in metadata.owner_references or ():
        if reference.controller:
            return reference.kind
    return None


def _containers(status: Status) -> dict[str, str]:
    every = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    return {each.container_id.rpartition("://")[2]: each.name for each in every if each.container_id and each.name}


def _time(text: str | None) -> float | None:
    try:
        return time(text) if text else None
    except ValueError:
        return None
