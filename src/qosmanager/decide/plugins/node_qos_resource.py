"""NodeQOSResource: what the node has (specification, section 5.1); the weight it stands for is in standing.py."""

from __future__ import annotations

from msgspec.structs import replace

from qosmanager.decide.facts import Draft, Facts
from qosmanager.model.qos import QoS


def node_qos_resource(facts: Facts, draft: Draft) -> Draft:
    """Count exclusive CPUs and LS requests."""
    lse_cores = sum(len(pod.exclusive_cpus) or (pod.cpu.request or 0.0) for pod in facts.census.ls if pod.qos is QoS.LSE)
    return replace(draft, resources=replace(draft.resources, exclusive_cpus=float(lse_cores), ls_request=facts.census.ls_request))
