"""Strategy for the engine's state: every field, with values that a running engine could hold."""

from hypothesis import strategies as st

from qosmanager.model.qos import Level, Plugin
from qosmanager.model.state import Bucket, Burst, Moment, Objective, Pending, State, Watch

_names = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
pod_keys = st.builds("{}/{}".format, _names, _names)
_times = st.floats(0, 1e12)
_maybe = st.none() | _times
_cores = st.floats(0, 1e6)
_limits = st.floats(0.001, 1e6)
_numbers = st.floats(-1e15, 1e15)
_texts = st.text(st.characters(categories=["L", "N", "P"]), max_size=20)


@st.composite
def _bursts(draw):
    low, high = sorted((draw(_limits), draw(_limits)))
    return Burst(
        pod=draw(pod_keys),
        base_limit=low,
        limit=high,
        uid=draw(_texts),
        started=draw(_maybe),
        calm_since=draw(_maybe),
        observed=draw(st.booleans()),
    )


def _some(strategy):
    return st.lists(strategy, max_size=3).map(tuple)


def states():
    """Return a strategy of whole states."""
    return st.builds(
        State,
        time=_maybe,
        be_limit=st.none() | _cores,
        be_cpus=st.none() | st.sampled_from(["0", "0-3", "0-3,8"]),
        be_observed=st.booleans(),
        suppress_level=st.none() | st.sampled_from(Level),
        suppress_since=_maybe,
        below_since=_maybe,
        memory_short=st.booleans(),
        cooldown_until=st.dictionaries(st.sampled_from([plugin.value for plugin in Plugin]), _maybe),
        burst_cooldown_until=st.dictionaries(pod_keys, _maybe, max_size=3),
        bursts=_some(_bursts()),
        recent=_some(
            st.builds(
                Moment,
                time=_times,
                cpu_score=st.floats(0, 100),
                cpu_percent=st.none() | st.floats(0, 100),
                system_usage=st.none() | _cores,
                demand=st.dictionaries(pod_keys, _cores, max_size=3),
                ls_usage=st.none() | _cores,
            )
        ),
        smoothing=_some(st.builds(Bucket, start=_times, count=st.integers(0, 10**6), cpu=_cores, memory=_cores)),
        system_usage=st.none() | _cores,
        score_above_since=_maybe,
        evict_rounds=st.integers(0, 10**6),
        pending=_some(st.builds(Pending, pod=pod_keys, since=_maybe, uid=_texts, cpu=_cores, memory=st.integers(0, 2**62))),
        victim_ended=_maybe,
        terminating_since=st.dictionaries(pod_keys, _times, max_size=3),
        last_move=st.integers(-1, 1),
        reversals=_some(_times),
        oscillating=st.booleans(),
        floor_since=_maybe,
        objective=st.builds(
            Objective,
            calm=st.dictionaries(pod_keys, st.floats(0, 1), max_size=3),
            wanted=st.none() | _cores,
            margin=st.none() | _cores,
            suffering_since=_maybe,
            fell=_maybe,
            ceiling=st.none() | _cores,
            severity=st.none() | st.floats(0, 1e6),
            relapses=st.floats(0, 5),
            futile=st.integers(0, 10**6),
            borne_until=_maybe,
            borne=st.floats(0, 1e6),
        ),
        watches=_some(
            st.builds(
                Watch,
                plugin=st.sampled_from([plugin.value for plugin in Plugin]),
                kind=_texts,
                target=_texts,
                since=_maybe,
                value=st.none() | _numbers,
                before=st.none() | _numbers,
                pending=st.booleans(),
            )
        ),
    )
