"""Properties of strategy slo, over random nodes and what it may have learned of them."""

import math

import msgspec
from hypothesis import HealthCheck, given
from hypothesis import settings as given_settings
from hypothesis import strategies as st
from msgspec.structs import replace

from qosmanager.config.settings import CpuSuppressSettings, Settings, Strategy
from qosmanager.engine.step import step
from qosmanager.model.qos import QoS, is_latency_sensitive
from qosmanager.model.snapshot import Pod, PodCpu, PodLatency
from qosmanager.model.state import State
from worlds import NOW, snapshots, states

SLO = Settings(cpu_suppress=CpuSuppressSettings(strategy=Strategy.SLO))
many = given_settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def waiting(p99):
    """An LS pod that waits for CPU nearly all of the time, more than anybody's calm."""
    return Pod(name="hurt", qos=QoS.LS, cpu=PodCpu(usage=0.5, wait=0.45), latency=PodLatency(p99=p99, slo=0.1))


def limit(state, snapshot, p99):
    after, _, plan = step(state, replace(snapshot, pods=(*snapshot.pods, waiting(p99))), SLO)
    assert plan.failures == ()
    return math.inf if after.be_limit is None else after.be_limit


@many
@given(snapshots(), st.data(), st.floats(0.001, 2), st.floats(0.001, 2))
def test_more_suffering_never_means_a_higher_limit(snapshot, data, one, other):
    before = data.draw(states(snapshot))
    # Whether falling is of any use is judged by the severity itself: not while one is being tried, or was of none.
    before = replace(before, be_observed=False, objective=replace(before.objective, severity=None, borne_until=None))
    less, more = sorted((one, other))
    assert limit(before, snapshot, more) <= limit(before, snapshot, less) + 1e-9


@many
@given(snapshots(), st.data())
def test_what_is_remembered_is_of_the_pods_that_are_here_and_bounded(snapshot, data):
    before = data.draw(states(snapshot))
    after, _, _ = step(before, snapshot, SLO)
    known = after.objective
    assert set(known.calm) <= {pod.key for pod in snapshot.pods if is_latency_sensitive(pod.qos)}
    assert all(0 <= calm <= 0.25 for calm in known.calm.values())
    assert 0 <= known.relapses <= 5
    assert known.margin is None or 0 <= known.margin <= 0.4 * snapshot.node.cpus + 1e-9
    assert known.ceiling is None or known.ceiling > 0


@given_settings(many, max_examples=20)
@given(snapshots(), st.lists(st.floats(0.01, 0.5), min_size=40, max_size=40))
def test_a_run_stays_in_its_bounds_and_its_state_small(snapshot, latencies):
    state = State()
    for number, p99 in enumerate(latencies):
        reading = replace(snapshot, time=NOW + number, pods=(*snapshot.pods, waiting(p99)))
        state, _, plan = step(state, reading, SLO)
        assert plan.failures == ()
        assert state.be_limit is None or 0.1 <= state.be_limit <= max(0.1, snapshot.node.cpus)
    assert len(msgspec.json.encode(state.objective)) < 1000
    assert msgspec.json.decode(msgspec.json.encode(state), type=State) == state
