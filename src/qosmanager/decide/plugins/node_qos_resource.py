"""NodeQOSResource: what the node has, and what of it is BE's (specification, sections 5.1 and 13); its weight is in standing.py."""

from __future__ import annotations

from msgspec.structs import replace

from qosmanager.decide.facts import Draft, Facts
from qosmanager.model.qos import QoS


def node_qos_resource(facts: Facts, draft: Draft) -> Draft:
    """Count exclusive CPUs, LS requests, and the memory that is left for BE."""
    lse_cores = sum(len(pod.exclusive_cpus) or (pod.cpu.request or 0.0) for pod in facts.census.ls if pod.qos is QoS.LSE)
    total, reserved = draft.resources.memory_total, draft.resources.memory_reserved
    claimed = reserved + sum(pod.memory.request or 0 for pod in facts.census.ls)
    counted = replace(
        draft.resources,
        exclusive_cpus=float(lse_cores),
        ls_request=facts.census.ls_request,
        be_memory=None if total is None else max(0, total - claimed),
    )
    return replace(draft, resources=counted)
