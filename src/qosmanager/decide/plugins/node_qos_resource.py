"""NodeQOSResource: what the node has, and what of it is BE's (specification, sections 5.1 and 13).

What it keeps in the kernel is in standing.py; what of that moves with the pressure, BE's memory and I/O, in relief.py and io_relief.py.
"""

from __future__ import annotations

from msgspec.structs import replace

from qosmanager.config.settings import Switch
from qosmanager.decide.facts import Draft, Facts
from qosmanager.decide.io_relief import io_relief
from qosmanager.decide.relief import memory_hold
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
    return _relieved(facts, replace(draft, resources=counted))


def _relieved(facts: Facts, draft: Draft) -> Draft:
    """Hold BE's memory and I/O at what they are to be from now on."""
    isolation, before = facts.settings.isolation, facts.before
    if Switch.AUTO not in (isolation.memory, isolation.io) and (before.be_memory, before.be_io) == (None, None):
        return draft
    memory = memory_hold(facts)
    draft = io_relief(facts, draft.remember(be_memory=memory))
    io = draft.state.be_io
    high, limit = None if memory is None else memory.high, None if io is None else io.limit
    return replace(draft, standing=replace(draft.standing, be_memory_high=high, be_io_limit=limit))
