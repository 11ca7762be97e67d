"""What became of earlier actions, seen in this cycle's snapshot (specification, section 10)."""

from __future__ import annotations

from msgspec.structs import replace

from qosmanager.model.actions import Outcome, Verdict
from qosmanager.model.census import Census, is_above
from qosmanager.model.qos import Plugin
from qosmanager.model.snapshot import Pod, Snapshot
from qosmanager.model.state import State, Watch
from qosmanager.verify.settle import stress

_SEEN_WITHIN = 3.0  # seconds in which a limit or a burst must show
_FREED_WITHIN = 60.0  # seconds in which an eviction must show; a victim on its way has its own grace period, and the hands tell its end
_LIMIT_HOLDS = 1.1


def observe(state: State, snapshot: Snapshot) -> tuple[State, tuple[Outcome, ...]]:
    """Return the state without what is settled (victims that are gone, watches that have their verdict), and the verdicts."""
    state = _forget_ended_victims(state, snapshot)
    if not state.watches:
        return state, ()
    census = Census.of(snapshot)
    pods = {pod.key: pod for pod in snapshot.pods}
    on_its_way = {victim.pod for victim in state.pending}  # all of them are here
    outcomes: list[Outcome] = []
    kept: list[Watch] = []
    for watch in state.watches:
        verdict, detail = _judge(watch, snapshot, census, pods, on_its_way)
        if verdict is not Verdict.PENDING or not watch.pending:
            outcomes.append(_outcome(watch, verdict, detail))
        if verdict is Verdict.PENDING:
            kept.append(replace(watch, pending=True))
    return replace(state, watches=tuple(kept)), tuple(outcomes)


def _forget_ended_victims(state: State, snapshot: Snapshot) -> State:
    if not state.pending:
        return state
    here = {(pod.key, pod.uid) for pod in snapshot.pods}
    left = tuple(victim for victim in state.pending if (victim.pod, victim.uid) in here)
    if len(left) == len(state.pending):
        return state
    return replace(state, pending=left, victim_ended=snapshot.time)


def _judge(watch: Watch, snapshot: Snapshot, census: Census, pods: dict[str, Pod], on_its_way: set[str]) -> tuple[Verdict, str]:
    age = 0.0 if snapshot.time is None or watch.since is None else snapshot.time - watch.since
    pod = pods.get(watch.target)
    if pod is not None and pod.uid != watch.uid:
        pod = None  # another pod under the same name
    match watch.kind:
        case "set_be_cpu_limit" | "set_be_cpuset":
            return _judge_be_limit(watch, census, age)
        case "set_cpu_limit":
            return _judge_burst(watch, pod, age)
        case "evict" if pod is not None:
            is_over = age >= _FREED_WITHIN and pod.key not in on_its_way
            return (Verdict.INEFFECTIVE if is_over else Verdict.PENDING), f"still here after {age:.0f} s"
        case "evict":
            return _judge_freed(watch, snapshot, age)
        case "restore_cpu_limit" if pod is None:
            return Verdict.GONE, "the pod has ended"
        case _:
            return Verdict.EFFECTIVE, "the value was read back"


def _judge_be_limit(watch: Watch, census: Census, age: float) -> tuple[Verdict, str]:
    limit = watch.value or 0.0
    if any(pod.cpu.usage is None for pod in census.be):
        detail = f"the limit of {limit:.4g} cores was read back; the CPU usage of some BE pod is not measured"
        return (Verdict.EFFECTIVE if age >= _SEEN_WITHIN else Verdict.PENDING), detail
    detail = f"BE uses {census.be_usage:.4g} of {limit:.4g} cores"
    if not is_above(census.be_usage, _LIMIT_HOLDS * limit):
        return Verdict.EFFECTIVE, detail
    return (Verdict.INEFFECTIVE if age >= _SEEN_WITHIN else Verdict.PENDING), detail


def _judge_burst(watch: Watch, pod: Pod | None, age: float) -> tuple[Verdict, str]:
    if pod is None:
        return Verdict.GONE, "the pod has ended"
    now = stress(pod)
    if watch.before is None or now is None:
        # Nothing shows whether it helped: all that is known is that the limit stuck.
        detail = "the limit was read back; neither throttling nor wait is measured"
        return (Verdict.EFFECTIVE if age >= _SEEN_WITHIN else Verdict.PENDING), detail
    detail = f"throttled or waiting {watch.before:.1%} before, {now:.1%} now"
    if now < watch.before or now == 0:
        return Verdict.EFFECTIVE, detail
    return (Verdict.INEFFECTIVE if age >= _SEEN_WITHIN else Verdict.PENDING), detail


def _judge_freed(watch: Watch, snapshot: Snapshot, age: float) -> tuple[Verdict, str]:
    available = snapshot.node.memory_available
    if watch.before is None or available is None:
        return Verdict.EFFECTIVE, "gone"
    detail = f"gone; available memory {(available - watch.before) / (1 << 20):+.0f} MiB"
    if available > watch.before or watch.plugin != Plugin.MEMORY_EVICT.value:
        return Verdict.EFFECTIVE, detail
    return (Verdict.INEFFECTIVE if age >= _FREED_WITHIN else Verdict.PENDING), detail


def _outcome(watch: Watch, verdict: Verdict, detail: str) -> Outcome:
    return Outcome(plugin=Plugin(watch.plugin), kind=watch.kind, target=watch.target, verdict=verdict, since=watch.since, detail=detail)
