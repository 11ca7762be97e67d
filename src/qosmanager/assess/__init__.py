"""Readings -> judgement. In: state, snapshot, settings. Out: the state with this moment remembered, and the assessment (section 4)."""

from qosmanager.assess.assess import assess

__all__ = ["assess"]
