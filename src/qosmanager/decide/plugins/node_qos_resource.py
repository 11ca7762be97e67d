"""NodeQOSResource: what the node has, and the standing protection of weights (specification, section 5.1)."""

from __future__ import annotations

from msgspec.structs import replace

from qosmanager.decide.facts import Draft, Facts
from qosmanager.model.qos import Mode, Plugin, QoS


def node_qos_resource(facts: Facts, draft: Draft) -> Draft:
    """Count CPUs, exclusive CPUs and LS requests; keep BE at the smallest weight and off the exclusive CPUs."""
    exclusive = sorted({cpu for pod in facts.census.ls for cpu in pod.exclusive_cpus})
    lse_cores = sum(len(pod.exclusive_cpus) or (pod.cpu.request or 0.0) for pod in facts.census.ls if pod.qos is QoS.LSE)
    standing = draft.standing
    if facts.settings.mode(Plugin.NODE_QOS_RESOURCE) is Mode.ENFORCE:
        standing = replace(standing, be_weight=True, exclusive_cpus=tuple(exclusive))
    resources = replace(draft.resources, exclusive_cpus=float(lse_cores), ls_request=facts.census.ls_request)
    return replace(draft, standing=standing, resources=resources)
