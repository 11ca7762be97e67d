"""The state that a successor goes on with (specification, section 9)."""

import msgspec
import pytest

from qosmanager.cli import daemon
from qosmanager.config.settings import Settings
from qosmanager.execute.resource_executor import Adopted
from qosmanager.model.actions import Receipt, Result
from qosmanager.model.qos import Level
from qosmanager.model.state import Burst, Objective, Pending, State, Watch

LEFT = State(
    time=100.0,
    be_limit=1.6,
    suppress_level=Level.EMERGENCY,
    suppress_since=90.0,
    cooldown_until={"CPUEvict": 150.0},
    bursts=(Burst(pod="shop/api", base_limit=2.0, limit=3.0),),
    pending=(Pending(pod="batch/etl", since=99.0),),
    terminating_since={"batch/etl": 99.0},
    watches=(Watch(plugin="MemoryEvict", kind="evict", target="batch/etl", since=99.0),),
)


def taken_over(adopted: Adopted, now: float, settings: Settings, *, evicted: bool = False) -> State:
    return daemon.taken_over(adopted, now, settings, evicted=evicted)


def left(be_limit: float | None = 1.6, be_cpus: str | None = None, **changes) -> Adopted:
    state = msgspec.structs.replace(LEFT, **changes)
    return Adopted(state=msgspec.json.encode(state), be_limit=be_limit, be_cpus=be_cpus)


def test_what_rules_go_by_stays_and_what_ended_with_the_predecessor_does_not():
    # Nobody sends SIGKILL to its victims any more: one that is still here must not count as on its way out for ever.
    assert taken_over(left(), 100.0, Settings()) == State(
        time=100.0,
        be_limit=1.6,
        suppress_level=Level.EMERGENCY,
        suppress_since=90.0,
        cooldown_until={"CPUEvict": 150.0},
        burst_cooldown_until={"shop/api": 130.0},
    )


def test_after_a_kill_too_a_burst_that_was_cut_off_cools_down():
    ended = Receipt(target="cpu:/api/cpu.cfs_quota_us", result=Result.APPLIED, pod="shop/api")
    other = Receipt(target="cpu:/be/cpu.cfs_quota_us", result=Result.GONE)
    assert taken_over(Adopted(receipts=(other, ended)), 100.0, Settings()) == State(burst_cooldown_until={"shop/api": 130.0})


def test_a_burst_that_was_only_observed_needs_none():
    burst = msgspec.structs.replace(LEFT.bursts[0], observed=True)
    assert taken_over(left(bursts=(burst,)), 100.0, Settings()).burst_cooldown_until == {}


@pytest.mark.parametrize(("in_state", "limit"), [("0-1", 1.6), ("0-2", 2.0), (None, 2.0)])
def test_cpus_in_force_are_a_limit_from_which_batch_rises_slowly(in_state, limit):
    adopted = Adopted(state=msgspec.json.encode(State(be_limit=1.6, be_cpus=in_state)), be_cpus="0-1")
    assert (taken_over(adopted, 100.0, Settings()).be_limit, taken_over(adopted, 100.0, Settings()).be_cpus) == (limit, "0-1")


def test_after_a_kill_the_cpus_in_force_alone_tell_the_limit():
    state = taken_over(Adopted(be_cpus="0-3,8"), 100.0, Settings())
    assert (state.be_limit, state.be_cpus) == (5.0, "0-3,8")
    assert taken_over(Adopted(be_cpus="many"), 100.0, Settings()).be_limit is None


@pytest.mark.parametrize("adopted", [Adopted(), Adopted(be_limit=0.1), Adopted(be_cpus="0")])
def test_where_somebody_was_evicted_and_no_state_is_left_that_may_be_a_moment_ago(adopted):
    # With CPUSuppress off there is no limit that would tell of the predecessor.
    assert taken_over(adopted, 100.0, Settings(), evicted=True).cooldown_until == {"CPUEvict": 160.0}
    assert taken_over(adopted, 100.0, Settings(), evicted=False).cooldown_until == {}


def test_a_state_that_is_left_tells_when_somebody_was_evicted():
    assert taken_over(left(), 120.0, Settings(), evicted=True).cooldown_until == {"CPUEvict": 150.0}


def test_what_was_only_observed_does_not_count_as_tried():
    lessons = Objective(calm={"shop/api": 0.1}, wanted=4.0, margin=1.0, fell=90.0, ceiling=2.0, severity=1.0, futile=3, borne_until=900.0)
    state = taken_over(left(None, be_observed=True, floor_since=10.0, objective=lessons), 100.0, Settings())
    assert (state.be_limit, state.be_observed, state.suppress_level, state.suppress_since) == (None, False, None, None)
    assert (state.floor_since, state.objective) == (None, Objective(calm={"shop/api": 0.1}, wanted=4.0, margin=1.0))


@pytest.mark.parametrize("state", [b"", b"{", b'{"be_limit":"much"}', b"[]"])
def test_a_state_that_cannot_be_read_is_left_out(state, caplog):
    state = taken_over(Adopted(state=state, be_limit=2.5), 100.0, Settings(), evicted=True)
    assert state == State(be_limit=2.5, cooldown_until={"CPUEvict": 160.0})
    assert "cannot be read" in caplog.text
