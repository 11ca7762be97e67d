"""The standing properties: what holds whatever this cycle decides (specification, sections 5.1, 5.4 and 5.6).

They follow from the settings and from who runs here alone, so a stale sample, a pause or a plugin that fails takes none of them away.
"""

from __future__ import annotations

from qosmanager.config.settings import CpuIsolation, Switch
from qosmanager.decide.facts import Facts
from qosmanager.model.actions import Standing
from qosmanager.model.qos import Mode, Plugin


def standing(facts: Facts) -> Standing:
    """Return the smallest weight for BE, or idle, and what else `isolation` asks for (NodeQOSResource), the CPUs that are not BE's (it, or
    CPUSuppress), and who is killed first (MemoryEvict): each while its plugin enforces. BE's memory and I/O are held as they were."""
    settings = facts.settings
    isolation, memory, io = settings.isolation, facts.before.be_memory, facts.before.be_io
    weighs = settings.mode(Plugin.NODE_QOS_RESOURCE) is Mode.ENFORCE
    fences = weighs or settings.mode(Plugin.CPU_SUPPRESS) is Mode.ENFORCE
    names_victims = settings.mode(Plugin.MEMORY_EVICT) is Mode.ENFORCE
    return Standing(
        be_weight=weighs and isolation.cpu in (CpuIsolation.AUTO, CpuIsolation.WEIGHT),
        be_idle=weighs and isolation.cpu is CpuIsolation.IDLE,
        services=weighs and isolation.services is Switch.AUTO,
        memory_low=(keeps_memory := weighs and isolation.memory is Switch.AUTO),
        be_memory_high=memory.high if memory is not None and keeps_memory else None,
        be_io_weight=(limits_io := weighs and isolation.io is Switch.AUTO),
        be_io_limit=io.limit if io is not None and limits_io else None,
        exclusive_cpus=tuple(sorted(facts.exclusive_cpus)) if fences else (),
        oom_score_adj=settings.memory_evict.oom_score_adjust if names_victims else None,
    )
