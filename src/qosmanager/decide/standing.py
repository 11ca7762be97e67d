"""The standing properties: what holds whatever this cycle decides (specification, sections 5.1, 5.4 and 5.6).

They follow from the settings and from who runs here alone, so a stale sample, a pause or a plugin that fails takes none of them away.
"""

from __future__ import annotations

from qosmanager.decide.facts import Facts
from qosmanager.model.actions import Standing
from qosmanager.model.qos import Mode, Plugin


def standing(facts: Facts) -> Standing:
    """Return the smallest weight for BE (NodeQOSResource), the CPUs that are not BE's (it, or CPUSuppress), and who is killed first
    (MemoryEvict): each while its plugin enforces."""
    settings = facts.settings
    enforcing = {plugin for plugin in Plugin if settings.mode(plugin) is Mode.ENFORCE}
    fenced = enforcing & {Plugin.NODE_QOS_RESOURCE, Plugin.CPU_SUPPRESS}
    return Standing(
        be_weight=Plugin.NODE_QOS_RESOURCE in enforcing,
        exclusive_cpus=tuple(sorted(facts.exclusive_cpus)) if fenced else (),
        oom_score_adj=settings.memory_evict.oom_score_adjust if Plugin.MEMORY_EVICT in enforcing else None,
    )
