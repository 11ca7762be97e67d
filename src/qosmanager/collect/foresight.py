"""What each service wants by time of day, kept over days, and what that foretells (specification, section 3: forecast).

In: the pods of each cycle. Out: a `Forecast` for each service that is here. Each quarter of an hour is one number: the second largest of
its 1-minute means, so that a peak counts and one odd minute does not. What is learned is kept on a shelf, for the next start.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from qosmanager.assess.time_of_day import QUARTER, Profile, service_of
from qosmanager.collect.conditions import Pace
from qosmanager.model.census import demand
from qosmanager.model.count import counted
from qosmanager.model.forecast import Forecast
from qosmanager.model.qos import is_latency_sensitive
from qosmanager.model.snapshot import Pod
from qosmanager.ports import Shelf

AHEAD = 600.0  # seconds that BE has to make room
EVERY = 10.0  # seconds between two forecasts
MOST = 64  # services
FORGET = 14 * 96  # quarters: two weeks without a pod of the service
_MINUTES = 10  # of a quarter that must be measured
_MINUTE = 60.0
_TOO_FEW_DAYS = "fewer than 2 days are known of this time of day"


class Foresight:
    """`problem`: why what is learned cannot be kept, "" while it can."""

    def __init__(self, shelf: Shelf | None) -> None:
        self._shelf = shelf
        self._profiles: dict[str, Profile] = {}
        self._pace = Pace(EVERY, 1.0)
        self._minute: int | None = None
        self._sums: dict[str, list[float]] = {}  # service -> demand of those of the minute's cycles that measured it all, and how many
        self._cycles = 0
        self._means: dict[str, list[float]] = {}  # service -> 1-minute means of the quarter
        self._forecasts: tuple[Forecast, ...] = ()
        self.problem = ""
        self._load()

    def look(self, now: float, wall: float, pods: Sequence[Pod]) -> tuple[Forecast, ...]:
        """Take in one cycle, `now` in monotonic and `wall` in epoch seconds."""
        minute = int(wall // _MINUTE)
        if minute != self._minute:
            self._end_minute(minute)
        wanted: dict[str, float] = {}
        members: dict[str, list[str]] = {}
        unmeasured: set[str] = set()
        for pod in pods:
            if not is_latency_sensitive(pod.qos):
                continue
            service = service_of(pod.namespace, pod.name, pod.owner)
            members.setdefault(service, []).append(pod.key)
            if (cores := demand(pod, None)) is None:
                unmeasured.add(service)
            else:
                wanted[service] = wanted.get(service, 0.0) + cores
        for service, cores in wanted.items():
            if service not in unmeasured:  # what is not measured is not nothing: the service's cycle does not count
                kept = self._sums.setdefault(service, [0.0, 0.0])
                kept[0] += cores
                kept[1] += 1
        self._cycles += 1
        if self._pace.due(now):
            self._forecasts = tuple(self._foretell(service, tuple(sorted(keys)), wall) for service, keys in sorted(members.items()))
        return self._forecasts

    def _foretell(self, service: str, pods: tuple[str, ...], wall: float) -> Forecast:
        profile = self._profiles.get(service)
        if profile is None:
            return Forecast(service, pods, why_none=_TOO_FEW_DAYS)
        error = None if profile.error is None else round(profile.error, 3)
        soon = [profile.expected(int(moment // QUARTER)) for moment in (wall, wall + AHEAD)]
        known = [cores for cores in soon if cores is not None]
        if not known:
            return Forecast(service, pods, error=error, why_none=_TOO_FEW_DAYS)
        if not profile.is_trusted:
            wrong = "not judged yet" if error is None else f"wrong by {error:.0%} of late"
            return Forecast(service, pods, error=error, why_none=f"what was foretold is {wrong}")
        return Forecast(service, pods, cores=round(max(known), 3), error=error)

    def _end_minute(self, minute: int) -> None:
        for service, (total, cycles) in self._sums.items():
            if 2 * cycles >= self._cycles:
                self._means.setdefault(service, []).append(total / cycles)
        self._sums, self._cycles = {}, 0
        before, self._minute = self._minute, minute
        if before is None or before // 15 == minute // 15:
            return
        if minute < before:
            self._means = {}  # the clock was set back: nobody knows what time these were
        else:
            self._end_quarter(before // 15)

    def _end_quarter(self, quarter: int) -> None:
        means, self._means = self._means, {}
        for service, minutes in means.items():
            if len(minutes) >= _MINUTES:
                known = self._profiles.get(service, Profile())
                self._profiles[service] = known.after(quarter, sorted(minutes)[-2])
        newest = sorted(self._profiles.items(), key=lambda each: (-each[1].seen, each[0]))[:MOST]
        self._profiles = {service: profile for service, profile in newest if quarter - profile.seen <= FORGET}
        self._store()

    def _load(self) -> None:
        if self._shelf is None:
            return
        try:
            kept = self._shelf.load()
            known = {} if kept is None else msgspec.json.decode(kept, type=dict[str, Profile])
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self.problem = f"what was learned for the forecast cannot be read, it begins anew: {error}"
            return
        self._profiles = {service: profile for service, profile in known.items() if profile.is_whole}
        if len(self._profiles) < len(known):
            self.problem = (
                f"what was learned for the forecast is damaged for {len(known) - len(self._profiles)} of {counted(len(known), 'service')}"
            )

    def _store(self) -> None:
        if self._shelf is None:
            return
        try:
            self._shelf.store(msgspec.json.encode(_rounded(self._profiles)))
            self.problem = ""
        except OSError as error:
            self.problem = f"what is learned for the forecast cannot be kept: {error}"


def _rounded(profiles: dict[str, Profile]) -> dict[str, Profile]:
    return {
        service: msgspec.structs.replace(profile, levels=tuple(round(level, 3) for level in profile.levels))
        for service, profile in profiles.items()
    }
