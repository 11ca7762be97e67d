"""What services stalled and BE pods used over the last minutes, and who is suspected (specification, section 3: attribution).

In: the pods of each cycle. Out: an `Attribution` for each service that suffers, made anew every 10 s, and nothing while none does. History
is bounded: 30 numbers for each pod and kind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from qosmanager.assess.attribution import attribute
from qosmanager.assess.latency import above_slo
from qosmanager.collect.conditions import Pace
from qosmanager.model.attribution import Attribution
from qosmanager.model.qos import QoS, is_latency_sensitive
from qosmanager.model.snapshot import Pod

EVERY = 10.0  # seconds
MOMENTS = 30
SUFFERS = {"cpu": 0.1, "io": 0.1, "memory": 0.05}  # shares of the last 10 s in which some task waited (of memory: all did)
_MOST = 3  # services at a time, those that stall most

Kinds = dict[str, float | None]


class Suspicion:
    """`attributions`: those of the last 10 s."""

    def __init__(self) -> None:
        self._pace = Pace(EVERY, 1.0)
        self._sums: dict[str, list[float]] = {}  # pod's identity -> waited, used, cycles since the last moment
        self._stalls: dict[str, deque[Kinds]] = {}
        self._uses: dict[str, deque[Kinds]] = {}
        self.attributions: tuple[Attribution, ...] = ()

    def look(self, now: float, pods: Sequence[Pod]) -> tuple[Attribution, ...]:
        """Take in one cycle at `now` (monotonic)."""
        sums = self._sums
        for pod in pods:
            usage = pod.cpu.usage
            if usage is not None:
                kept = sums.setdefault(pod.identity, [0.0, 0.0, 0.0])
                kept[0] += pod.cpu.wait or 0.0
                kept[1] += usage
                kept[2] += 1
        if self._pace.due(now):
            self._keep(pods)
            self.attributions = self._judge(pods)
            sums.clear()
        return self.attributions

    def _keep(self, pods: Sequence[Pod]) -> None:
        stalls: dict[str, Kinds] = {}
        uses: dict[str, Kinds] = {}
        for pod in pods:
            waited, used, cycles = self._sums.get(pod.identity, (0.0, 0.0, 0.0))
            if is_latency_sensitive(pod.qos):
                share = None if pod.cpu.wait is None or not cycles else (min(1.0, waited / used) if used else 0.0)
                stalls[pod.identity] = {
                    "cpu": share,
                    "io": _share(pod.observed.io_psi_some),
                    "memory": _share(pod.observed.memory_psi_full),
                }
            elif pod.qos is QoS.BE:
                uses[pod.identity] = {"cpu": used / cycles if cycles else None, "io": _moved(pod), "memory": pod.memory.rss}
        self._stalls = _extended(self._stalls, stalls)
        self._uses = _extended(self._uses, uses)

    def _judge(self, pods: Sequence[Pod]) -> tuple[Attribution, ...]:
        above = {pod.key for pod in pods if is_latency_sensitive(pod.qos) and above_slo(pod)}
        keys = {pod.identity: pod.key for pod in pods}
        stalls = {keys[identity]: moments for identity, moments in self._stalls.items()}
        worst = {key: max((moments[-1][kind] or 0.0) / least for kind, least in SUFFERS.items()) for key, moments in stalls.items()}
        suffering = sorted((key for key, over in worst.items() if over >= 1 or key in above), key=lambda key: (-worst[key], key))[:_MOST]
        if not suffering:
            return ()
        uses = {key: _by_kind(moments) for key, moments in sorted((keys[identity], moments) for identity, moments in self._uses.items())}
        return tuple(attribute(key, _by_kind(stalls[key]), uses) for key in suffering)


def _extended(known: dict[str, deque[Kinds]], now: dict[str, Kinds]) -> dict[str, deque[Kinds]]:
    """Return the histories with one more moment; who is gone is forgotten, who is new was not measured before."""
    extended: dict[str, deque[Kinds]] = {}
    for key, kinds in now.items():
        moments = extended[key] = known.get(key) or deque(maxlen=MOMENTS)
        moments.append(kinds)
    return extended


def _by_kind(moments: deque[Kinds]) -> dict[str, list[float | None]]:
    """Return the last moments of each kind, as many for all."""
    unknown = [None] * (MOMENTS - len(moments))
    return {kind: [*unknown, *(kinds[kind] for kinds in moments)] for kind in SUFFERS}


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def _moved(pod: Pod) -> float | None:
    read, written = pod.observed.io_read, pod.observed.io_write
    return None if read is None and written is None else (read or 0.0) + (written or 0.0)
