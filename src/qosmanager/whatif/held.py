"""What holds BE, as a number of cores."""

from __future__ import annotations

from qosmanager.model.cpu_list import parse_cpus
from qosmanager.model.state import State


def held_at(state: State) -> float | None:
    """Return the cores that BE may use under what is in force in a state, a quota or CPUs (section 5.4); None: nothing holds it."""
    if state.be_observed:
        return None
    limit = state.be_limit
    # Below one core the quota holds as well.
    return limit if limit is None or limit < 1 or state.be_cpus is None else float(len(parse_cpus(state.be_cpus)))
