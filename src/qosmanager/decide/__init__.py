"""Judgement -> plan. In: state, snapshot, census, assessment, settings. Out: the next state and the plan (section 5). Pure."""

from qosmanager.decide.decide import decide

__all__ = ["decide"]
