"""Evictions by the API server: policy/v1, so that disruption budgets hold and controllers know (specification, section 9).

In: a victim. Out: progress by polling. The cycle never waits: a thread asks, and looks until the pod is gone and its cgroup empty; only
then it counts as freed. A pod of Kubernetes is never ended in any other way: kubelet would start its containers again. So while the API
server is not reached nobody is evicted, and `barred` says so.

Before each eviction the pod itself is read: whether it still is the one that was chosen, who owns it, whether it is on its way out already.
Withheld are evictions over `evictionBudget`, of an owner whose pod was evicted within 10 minutes, and of the successors of a pod that was
evicted as leaking, unless they leak too or a person has cleared the owner.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from enum import Enum
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from qosmanager.config.settings import Settings
from qosmanager.kubernetes.answers import (
    CONFLICT,
    FORBIDDEN,
    NOT_FOUND,
    TOO_MANY,
    Complaints,
    Right,
    is_absent,
    is_budget,
    is_denied,
    is_success,
    refusal,
    retry_after,
    said,
)
from qosmanager.kubernetes.api import Answer, Api, ApiUnreachable
from qosmanager.kubernetes.events import Events
from qosmanager.kubernetes.memory import AgentMemory, Leak
from qosmanager.kubernetes.pod_json import POD, Metadata
from qosmanager.kubernetes.victims import Owner, evicted, owner_of, withheld
from qosmanager.kubernetes.worker import Worker
from qosmanager.model.actions import Evict
from qosmanager.model.workload import Workload
from qosmanager.ports import Clock, EvictionProgress
from qosmanager.views.log_lines import pairs

_LOG = logging.getLogger("qosmanager")
_ASKED_FOR = 10.0  # seconds in which the API server must have said something
_BACK_OFF = (0.5, 1.0, 2.0, 4.0)  # seconds
_BUDGET_RESTS = 10.0  # seconds after which a disruption budget is asked again, where the server names none
_DENIED_FOR = 60.0  # seconds for which a missing permission is believed
_GONE_WITHIN = 120.0  # seconds beyond its grace period
_LOOK = 1.0  # seconds between two looks at whether a pod has gone, or goes
_PROBE = 5.0  # seconds between two tries while the API server is not reached
_REFUSED_FOR_GOOD = 400  # statuses from here to 499: nothing has been done


class _Stage(Enum):
    ASK = "ask"
    WAIT = "wait"


class _Victim(Struct):
    """An eviction under way. `due`: when to look at it next; `until`: when it has failed; both monotonic seconds."""

    action: Evict
    workload: Workload
    due: float
    until: float
    stage: _Stage = _Stage.ASK
    failures: int = 0
    is_gone: bool = False  # the API server knows it no more
    asked: Owner | None = None  # whose it was when it was asked for, while nothing tells what came of that
    given_up: str = ""  # why it is not asked for any more: only the last look is left, at whether it happened all the same

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{quote(self.workload.namespace, safe='')}/pods/{quote(self.workload.name, safe='')}"


class ApiEvictions:
    """The `Evictions` port, by the API server."""

    def __init__(self, api: Api, memory: AgentMemory, events: Events, is_empty: Callable[[str], bool], clock: Clock) -> None:
        """`is_empty`: whether a cgroup and those below it hold no process; it may raise OSError."""
        self._api = api
        self._memory = memory
        self._events = events
        self._is_empty = is_empty
        self._clock = clock
        self._most = Settings().eviction_budget
        self._lock = threading.Lock()
        self._victims: dict[str, _Victim] = {}
        self._ended: dict[str, EvictionProgress] = {}
        self._not_before: dict[str, float] = {}  # by the pod's uid
        self._denied: dict[str, tuple[float, str]] = {}  # by namespace: until when, why
        self._unreachable = ""
        self._complaints = Complaints("EvictionRefused")
        self._worker = Worker("evictions", self.work, clock)

    def start(self) -> None:
        self._worker.start()

    def stop(self) -> None:
        """Ask for no more evictions; what was asked for goes on without the agent."""
        self._worker.stop()

    def use(self, settings: Settings) -> None:
        """Take another `evictionBudget`."""
        self._most = settings.eviction_budget

    @property
    def barred(self) -> str:
        """Why nobody can be evicted now: the API server is not reached, the budget is used up; "": nothing is known against it."""
        return f"the API server is not reached: {self._unreachable}" if self._unreachable else self._memory.exhausted(self._most)

    def begin(self, action: Evict, workload: Workload, now: float) -> str:
        """Have a pod evicted; return why that cannot be, or "" when it is under way."""
        if not workload.uid:
            return "the API server has not named this pod yet"
        if self.barred:
            return self.barred
        until, why = self._denied.get(workload.namespace, (0.0, ""))
        if now < until:
            return why
        with self._lock:
            self._not_before = {uid: moment for uid, moment in self._not_before.items() if now < moment}
            if workload.uid in self._not_before:
                return f"its eviction was refused; it is to be asked for again in {self._not_before[workload.uid] - now:.0f} s"
            self._victims[action.pod] = _Victim(action, workload, due=now, until=now + _ASKED_FOR)
            self._ended.pop(action.pod, None)  # that was another pod of this name
        self._worker.wake()
        return ""

    def unsettled(self) -> frozenset[str]:
        """Keys of pods of which the API server has not said yet whether they go; those that go do so without this agent."""
        with self._lock:
            return frozenset(key for key, victim in self._victims.items() if victim.stage is _Stage.ASK)

    def poll(self, now: float) -> dict[str, EvictionProgress]:
        """Return what has ended since the last call."""
        del now
        with self._lock:
            ended, self._ended = self._ended, {}
        return ended

    def work(self, now: float) -> float:
        """Do what is due; return the seconds until something is."""
        with self._lock:
            due = [each for each in self._victims.values() if each.due <= now]
        if not due and self._unreachable:
            self._probe()
        for victim in sorted(due, key=lambda each: each.stage is _Stage.WAIT):  # who is still to be asked for comes first
            self._drive(victim)
        now = self._clock.monotonic()
        with self._lock:
            next_due = min((each.due for each in self._victims.values()), default=now + 60.0)
        return min(next_due - now, _PROBE if self._unreachable else 60.0)

    def _drive(self, victim: _Victim) -> None:
        try:
            if victim.stage is _Stage.ASK:
                self._ask(victim)
            else:
                self._look(victim)
        except ApiUnreachable as error:
            self._unreachable = str(error)
            self._again(victim, f"the API server is not reached: {error}", None)
        except Exception:
            self._fail(victim, "a fault of the agent itself; its log tells more")
            raise

    def _ask(self, victim: _Victim) -> None:
        right = Right("get", "pods", victim.workload.namespace)
        answer = self._request("GET", victim.path)
        pod = _metadata(answer)
        victim.is_gone = self._is_other(answer, victim)
        if victim.is_gone or (pod is not None and pod.deletion_timestamp):
            # On its way out, whoever asked for that. This agent did where only the answer was lost.
            if victim.asked is not None:
                self._happened(victim, victim.asked)
            else:
                self._wait(victim)
            return
        if pod is None:
            self._refused(victim, answer, right)
            return
        if victim.asked is not None:
            self._take_back(victim)
        if victim.given_up:
            self._fail(victim, victim.given_up)
            return
        owner = owner_of(pod)
        if why_not := self._withheld(victim.action, victim.workload, owner):
            self._events.say(withheld(victim.action, victim.workload, owner, why_not))
            self._fail(victim, f"withheld: {why_not}")
            return
        self._memory.spend(victim.workload.uid, owner.uid)
        victim.asked = owner
        self._evict(victim, owner)

    def _withheld(self, action: Evict, workload: Workload, owner: Owner) -> str:
        leak = self._memory.leak_of(owner.uid) if owner.uid else None
        if leak is not None and not action.leaking:
            return f"pod {leak.pod} of the same owner leaked and was evicted; a person has to clear that, or this one to leak too"
        return self._memory.exhausted(self._most, workload.uid) or self._memory.rests(workload.uid, owner.uid)

    def _evict(self, victim: _Victim, owner: Owner) -> None:
        workload, action = victim.workload, victim.action
        answer = self._request("POST", f"{victim.path}/eviction", _eviction(action, workload))
        if is_success(answer):
            self._happened(victim, owner)
        elif is_budget(answer):
            self._take_back(victim)
            wait = retry_after(answer) or _BUDGET_RESTS
            self._let_rest(victim, wait)
            self._fail(victim, f"a disruption budget forbids it ({said(answer)}); asked again in {wait:.0f} s")
        elif answer.status in (NOT_FOUND, CONFLICT):
            # Gone, another pod has its name, or somebody changed it at this moment: the next look at it tells.
            self._take_back(victim)
            self._again(victim, said(answer), None)
        else:
            if _REFUSED_FOR_GOOD <= answer.status < 500:
                self._take_back(victim)
            self._refused(victim, answer, Right("create", "pods/eviction", workload.namespace))

    def _let_rest(self, victim: _Victim, seconds: float) -> None:
        """Not this pod for a while; others may be asked for."""
        with self._lock:
            self._not_before[victim.workload.uid] = self._clock.monotonic() + seconds

    def _take_back(self, victim: _Victim) -> None:
        """It was refused, or the pod is there as before: nobody was evicted."""
        victim.asked = None
        self._memory.give_back(victim.workload.uid)

    def _happened(self, victim: _Victim, owner: Owner) -> None:
        action, workload = victim.action, victim.workload
        _LOG.warning(pairs("Evicted", pod=action.pod, plugin=action.plugin.value, uid=workload.uid, by="policy/v1", reason=action.reason))
        if action.leaking and owner.uid:
            at, growth = self._clock.wall(), action.growth or 0.0
            self._memory.remember_leak(Leak(owner=owner.uid, name=owner.text, pod=action.pod, at=at, growth=growth))
        for happening in evicted(action, workload, self._events.node):
            self._events.say(happening)
        self._wait(victim)

    def _look(self, victim: _Victim) -> None:
        """Whether an evicted pod has gone."""
        if not victim.is_gone:
            victim.is_gone = self._is_other(self._request("GET", victim.path), victim)
        if victim.is_gone and self._holds_nothing(victim.workload.cgroup):
            self._end(victim, EvictionProgress(done=True))
        elif self._clock.monotonic() >= victim.until:
            what = "the API server knows it no more, but its processes are there" if victim.is_gone else "the API server still has it"
            self._fail(victim, f"{what}, {_GONE_WITHIN:.0f} s after its grace period")
        else:
            victim.due = self._clock.monotonic() + _LOOK

    def _is_other(self, answer: Answer, victim: _Victim) -> bool:
        """Whether the API server says that this very pod is not there any more."""
        found = _metadata(answer)
        return is_absent(answer) or (found is not None and found.uid != victim.workload.uid)

    def _holds_nothing(self, cgroup: str) -> bool:
        try:
            return self._is_empty(cgroup)
        except OSError:
            return False

    def _wait(self, victim: _Victim) -> None:
        now = self._clock.monotonic()
        victim.stage, victim.failures, victim.asked = _Stage.WAIT, 0, None
        victim.due, victim.until = now, now + victim.workload.grace + _GONE_WITHIN

    def _refused(self, victim: _Victim, answer: Answer, right: Right) -> None:
        why = refusal(answer, right)
        if is_denied(answer):
            self._denied[victim.workload.namespace] = (self._clock.monotonic() + _DENIED_FOR, why)
        elif answer.status == FORBIDDEN:
            self._let_rest(victim, _DENIED_FOR)
        if _REFUSED_FOR_GOOD <= answer.status < 500 and answer.status != TOO_MANY:
            self._complaints.once(answer, right)
            self._fail(victim, why)
        else:
            self._again(victim, why, retry_after(answer))

    def _again(self, victim: _Victim, why: str, wanted: float | None) -> None:
        """Come back to it after a while, unless its time is over; then once more where it may have happened, for only that is counted."""
        now = self._clock.monotonic()
        wait = max(_BACK_OFF[min(victim.failures, len(_BACK_OFF) - 1)], wanted or 0.0)
        victim.failures += 1
        victim.due = now + wait
        if victim.due < victim.until:
            return
        if victim.asked is None or victim.given_up:
            self._fail(victim, why)
        else:
            victim.given_up, victim.due = why, now + _LOOK

    def _fail(self, victim: _Victim, why: str) -> None:
        self._end(victim, EvictionProgress(done=False, error=why))

    def _end(self, victim: _Victim, progress: EvictionProgress) -> None:
        with self._lock:
            if self._victims.get(victim.action.pod) is victim:
                del self._victims[victim.action.pod]
                self._ended[victim.action.pod] = progress

    def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Answer:
        answer = self._api.request(method, path, body=None if body is None else msgspec.json.encode(body))
        self._unreachable = ""
        return answer

    def _probe(self) -> None:
        try:
            self._request("GET", "/version")
        except ApiUnreachable as error:
            self._unreachable = str(error)


def _metadata(answer: Answer) -> Metadata | None:
    """Return who the pod is that was answered; None: none was."""
    try:
        metadata = POD.decode(answer.body).metadata if is_success(answer) else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return metadata if metadata is not None and metadata.uid else None


def _eviction(action: Evict, workload: Workload) -> dict[str, Any]:
    """Return what is posted. Without a grace period of its own the pod's is in force."""
    options: dict[str, Any] = {"preconditions": {"uid": workload.uid}}
    if action.grace is not None and action.grace < workload.grace:
        # 0 would take the pod out of the API before its processes have ended.
        options["gracePeriodSeconds"] = max(1, int(action.grace))
    metadata = {"name": workload.name, "namespace": workload.namespace}
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options}
