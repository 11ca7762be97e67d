"""What every plugin sees, and the draft that it adds to (specification, section 5)."""

from __future__ import annotations

import math
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from qosmanager.config.settings import Settings
from qosmanager.model.actions import Action, PluginFailure, Refusal, Resources, Standing
from qosmanager.model.assessment import Assessment
from qosmanager.model.census import Census, demand
from qosmanager.model.qos import Level, Plugin, QoS
from qosmanager.model.snapshot import EVICTIONS, PODS_STALE_AFTER, Pod, Snapshot
from qosmanager.model.state import State

_DEMAND_OVER = 3.0  # seconds over which the largest demand of a pod holds
_WHOLE = 0.9  # of a period: a cycle sooner after another may tell of a moment only


class Facts(Struct, frozen=True, kw_only=True, dict=True):
    """One cycle's inputs. `before` is the state at its start, `dt` the time since the last cycle in seconds. What follows from them alone
    and is asked for more than once is worked out once."""

    snapshot: Snapshot
    census: Census
    assessment: Assessment
    settings: Settings
    before: State
    dt: float

    @property
    def now(self) -> float | None:
        return self.snapshot.time

    @property
    def cpus(self) -> float:
        return self.snapshot.node.cpus

    @property
    def node_usage(self) -> float:
        """The node's CPU usage in cores. Only read where decide() has made sure that it is measured."""
        usage = self.snapshot.node.cpu_usage
        assert usage is not None
        return usage

    @cached_property
    def exclusive_cpus(self) -> frozenset[int]:
        """The CPUs that LSE pods, or kubelet's static policy, have for themselves; BE never runs there (section 5.4)."""
        return frozenset(cpu for pod in self.snapshot.pods if pod.qos is not QoS.BE for cpu in pod.exclusive_cpus)

    @property
    def pods_stale(self) -> bool:
        """Whether what is known of the pods is too old to evict on."""
        age = self.snapshot.pods_age
        return age is not None and age > PODS_STALE_AFTER

    @property
    def no_evictions(self) -> str | None:
        """Why nobody can be evicted now, whoever is chosen: the way to do it is not there, or what is known of the pods is too old."""
        if self.pods_stale:
            return f"what is known of the pods is {self.snapshot.pods_age:.0f} s old, more than {PODS_STALE_AFTER:g}"
        return self.snapshot.missing.get(EVICTIONS)

    def elapsed(self, since: float | None) -> float:
        """Return the seconds since a moment; infinite where it or the present is not known (section 8), or it lies ahead."""
        if since is None or self.now is None or since > self.now:
            return math.inf
        return self.now - since

    def remaining(self, until: float | None) -> float:
        """Return the seconds that a cooldown still lasts; 0 when it is over."""
        return 0.0 if until is None or self.now is None else max(0.0, until - self.now)

    def is_over(self, until: float | None) -> bool:
        """Tell whether a cooldown is over; at equality it is."""
        return until is None or self.now is None or self.now >= until

    def has_held(self, since: float | None, seconds: float) -> bool:
        """Tell whether something has held for some seconds (inclusive)."""
        return round(self.elapsed(since) - seconds, 9) >= 0

    def largest_demands(self, state: State) -> dict[str, float]:
        """Return each LS pod's largest demand of the last 3 s, the present one included, in cores."""
        largest: dict[str, float] = {}
        for moment in state.recent:
            if self.now is None or self.now - moment.time < _DEMAND_OVER:
                for key, cores in moment.demand.items():
                    if cores >= largest.get(key, 0.0):
                        largest[key] = cores
        return largest

    @cached_property
    def ls_wanted(self) -> tuple[tuple[str, float], ...]:
        """Each LS pod's largest demand, in cores, by its key. One whose usage is not measured and was not in the last seconds wants its
        request."""
        largest = self.largest_demands(self.before)
        return tuple((pod.key, largest.get(pod.key, pod.cpu.request or 0.0)) for pod in self.census.ls)

    @cached_property
    def ls_held(self) -> dict[str, float]:
        """As `ls_wanted`, of what was wanted for longer than a moment: in a cycle soon after another a pod's demand counts as far as it was
        there in the one before already. A tenth of a second of a service's requests says little of the next one."""
        held: dict[str, float] = {}
        moments = self.before.recent
        for before, moment in zip((None, *moments), moments, strict=False):
            if self.now is not None and self.now - moment.time >= _DEMAND_OVER:
                continue
            is_whole = before is None or moment.time - before.time >= _WHOLE * self.settings.sync_period
            for key, cores in moment.demand.items():
                sure = cores if before is None or is_whole else min(cores, before.demand.get(key, cores))
                held[key] = max(sure, held.get(key, 0.0))
        return {pod.key: held.get(pod.key, pod.cpu.request or 0.0) for pod in self.census.ls}


class Draft(Struct, frozen=True, kw_only=True):
    """The plan in the making and the state that goes with it. `granted` holds the raised limits in force, in cores by pod."""

    state: State
    level: Level
    resources: Resources
    actions: tuple[Action, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    failures: tuple[PluginFailure, ...] = ()
    standing: Standing = Standing()
    granted: dict[str, float] = {}

    def act(self, *actions: Action) -> Draft:
        """Return the draft with actions added."""
        return replace(self, actions=self.actions + actions)

    def refuse(self, plugin: Plugin, rule: str, reason: str, pod: str | None = None) -> Draft:
        """Return the draft with a refusal added: what was not done, by which rule, in numbers."""
        return replace(self, refusals=(*self.refusals, Refusal(plugin, pod, rule, reason)))

    def remember(self, **changes: object) -> Draft:
        """Return the draft with fields of the state replaced."""
        return replace(self, state=replace(self.state, **changes))


def ls_demand(facts: Facts, draft: Draft) -> dict[str, float]:
    """Return the present demand of each measured LS pod in cores (section 3)."""
    newest = facts.before.recent[-1] if facts.before.recent else None
    if newest is not None and newest.time == facts.now and not draft.granted and not facts.before.bursts:
        return newest.demand  # remembered as it was judged; nothing was granted before or since
    demands = ((pod.key, demand(pod, draft.granted.get(pod.key))) for pod in facts.census.ls)
    return {key: cores for key, cores in demands if cores is not None}


def is_terminating(pod: Pod, state: State) -> bool:
    """Tell whether a pod is on its way out: it says so itself, or it is a victim that has not gone yet."""
    return pod.terminating or any(victim.pod == pod.key and victim.uid == pod.uid for victim in state.pending)


def cpu_held(pod: Pod) -> float:
    """Return what a victim's end frees in cores: the larger of its usage and its 5-minute mean (section 5.5)."""
    return max(pod.cpu.usage or 0.0, pod.cpu.usage_mean or 0.0)


def may_be_evicted(facts: Facts, state: State, pod: Pod) -> str | None:
    """Return None for a possible victim, else the reason why this BE pod is none (sections 1 and 5.5)."""
    if is_terminating(pod, state):
        return "it is terminating already"
    if pod.identity in state.unfit_since:
        return f"it could not be evicted {facts.elapsed(state.unfit_since[pod.identity]):.0f} s ago"
    return never_evicted(pod, facts.settings)


def never_evicted(pod: Pod, settings: Settings) -> str | None:
    """Return why this BE pod is no victim whatever happens, None for one that may be (section 1)."""
    if pod.critical:
        return "it is critical"
    if pod.owner in ("DaemonSet", "Node"):
        return f"its owner is a {pod.owner}, which would start it again here"
    if not pod.labelled and not settings.evict_unlabelled:
        return "it has no QoS label of its own and evictUnlabelled is false"
    return None
