"""Another configuration decided on the same readings, without acting (docs/record.md).

In: each finished cycle. Out: a `ShadowView`. Its state is its own and takes for done whatever it decides; what the readings show is the
effect of the configuration in force, so it is an open loop: a first answer, no simulation.
"""

from __future__ import annotations

from collections import Counter, deque

from msgspec import Struct

from qosmanager.config.settings import Settings
from qosmanager.engine.step import conclude, judge
from qosmanager.model.actions import KINDS, Action, Evict, Plan, Receipt, Result, SetBeCpuLimit, SetBeCpuset, SetCpuLimit
from qosmanager.model.record import CycleRecord
from qosmanager.model.state import State
from qosmanager.verify import observe, settle
from qosmanager.views.effects import subject
from qosmanager.views.figures import iso, rounded
from qosmanager.views.shadow import ShadowView, Victim

_SAME_LIMIT = 0.01  # the dead band of section 5.4
_KEPT_VICTIMS = 20


class Shadow:
    """One other configuration. `look` once for each cycle."""

    def __init__(self, config: str, settings: Settings, state: State) -> None:
        """`config` names it for people; `state` is the one that the agent begins with."""
        self._config = config
        self.settings = settings
        self._state = state
        self._cycles = self._differing = self._limits = self._bursts = 0
        self._evictions: Counter[str] = Counter()
        self._evicted: deque[Victim] = deque(maxlen=_KEPT_VICTIMS)
        self.view = self._view("", ())

    def look(self, record: CycleRecord) -> None:
        """Decide a cycle's readings too. Raises what deciding raises."""
        snapshot = record.snapshot
        seen, _ = observe(self._state, snapshot)
        planned, _, plan = conclude(judge(seen, snapshot, self.settings), self.settings)
        self._state, _ = settle(seen, planned, plan, _done(plan), snapshot)
        self._cycles += 1
        for action in plan.actions:
            self._count(action, record)
        differences = tuple(_differences(record, plan, self._state))
        self._differing += bool(differences)
        self.view = self._view(plan.level.value, differences)

    def _count(self, action: Action, record: CycleRecord) -> None:
        match action:
            case Evict():
                self._evictions[action.plugin.value] += 1
                victim = Victim(time=iso(record.wall), pod=action.pod, plugin=action.plugin.value, reason=action.reason)
                self._evicted.append(victim)
            case SetBeCpuLimit() | SetBeCpuset():
                self._limits += 1
            case SetCpuLimit():
                self._bursts += 1
            case _:
                pass

    def _view(self, level: str, differences: tuple[str, ...]) -> ShadowView:
        return ShadowView(
            config=self._config,
            cycles=self._cycles,
            differing=self._differing,
            level=level,
            be_limit=rounded(self._state.be_limit),
            differences=differences,
            evictions=dict(self._evictions),
            evicted=tuple(self._evicted),
            limits=self._limits,
            bursts=self._bursts,
        )


class _Key(Struct, frozen=True, order=True):
    kind: str
    about: str


def _done(plan: Plan) -> tuple[Receipt, ...]:
    """Return the receipts of a plan of which everything went well."""
    return tuple(Receipt(target=subject(action), result=Result.APPLIED, action=number) for number, action in enumerate(plan.actions))


def _differences(record: CycleRecord, plan: Plan, state: State) -> list[str]:
    found = []
    level = record.plan.level
    if plan.level is not level:
        found.append(f"level {plan.level.value} instead of {level.value}")
    limit, other = record.state.be_limit, state.be_limit
    if _differ(limit, other) or record.state.be_cpus != state.be_cpus:
        found.append(f"BE {_held(other, state.be_cpus)} instead of {_held(limit, record.state.be_cpus)}")
    here, there = _actions(record.plan), _actions(plan)
    found += [f"would {key.kind} {key.about}: {there[key].reason}" for key in sorted(there.keys() - here.keys())]
    found += [f"would not {key.kind} {key.about}" for key in sorted(here.keys() - there.keys())]
    return found


def _actions(plan: Plan) -> dict[_Key, Action]:
    """Return what is done to single pods; the BE limit is compared as it is in force, for the way there may differ."""
    return {_Key(KINDS[type(action)], action.pod): action for action in plan.actions if isinstance(action, Evict | SetCpuLimit)}


def _differ(limit: float | None, other: float | None) -> bool:
    if limit is None or other is None:
        return limit is not other
    return abs(limit - other) > _SAME_LIMIT * max(limit, other)


def _held(limit: float | None, cpus: str | None) -> str:
    held = "without a limit" if limit is None else f"at {limit:.4g} cores"
    return held if cpus is None else f"{held} on CPUs {cpus}"
