"""SystemQOSResource: what the system keeps for itself (specification, section 5.2)."""

from __future__ import annotations

from msgspec.structs import replace

from qosmanager.decide.facts import Draft, Facts
from qosmanager.model.qos import Mode, Plugin


def system_qos_resource(facts: Facts, draft: Draft) -> Draft:
    """Raise the reservation to the measured system usage: its 5 s mean, or the last one known while some pod is not measured."""
    resources = draft.resources
    measured = draft.state.system_usage
    reserved = resources.system_reserved
    if measured is not None and facts.settings.mode(Plugin.SYSTEM_QOS_RESOURCE) is Mode.ENFORCE:
        reserved = max(reserved, measured)
    available = facts.cpus - reserved
    return replace(
        draft,
        resources=replace(
            resources,
            system_reserved=reserved,
            system_usage=measured,
            node_available=available,
            be_allowance=max(0.0, available - resources.ls_request),
        ),
    )
