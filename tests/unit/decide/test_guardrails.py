"""The second lock: an action that breaks a rule never leaves decide (specification, section 5, invariant)."""

import pytest

from builders import NOW, be, ls, snapshot
from qosmanager.config.settings import CpuSuppressSettings, Policy, Settings
from qosmanager.decide.facts import Draft, Facts
from qosmanager.decide.guardrails import guard
from qosmanager.engine.step import judge
from qosmanager.model.actions import (
    Evict,
    Resources,
    RestoreBeCpuLimit,
    RestoreCpuLimit,
    SetBeCpuLimit,
    SetBeCpuset,
    SetCpuLimit,
)
from qosmanager.model.qos import Level, Mode, Plugin, QoS
from qosmanager.model.state import State

READING = snapshot(
    ls(limit=2.0, usage=1.0), ls("free", usage=1.0), be(usage=1.0), be("key", critical=True), ls("dns", QoS.SYSTEM), cpu_usage=3.0
)
BEFORE = State(time=NOW - 1, be_limit=4.0)
BROKEN = Evict(plugin=Plugin.CPU_EVICT, reason="1", pod="shop/api")


FULL = Resources(
    cpus=16.0, node_available=16.0, system_reserved=0.0, system_usage=None, ls_request=0.0, exclusive_cpus=0.0, be_allowance=16.0
)


def guarded(*actions):
    settings = Settings()
    found = judge(BEFORE, READING, settings)
    facts = Facts(snapshot=READING, census=found.census, assessment=found.assessment, settings=settings, before=BEFORE, dt=1.0)
    return guard(facts, Draft(state=State(time=NOW, be_limit=9.0), level=Level.LOW, resources=FULL, actions=actions))


def evict(pod):
    return Evict(plugin=Plugin.CPU_EVICT, reason="1", pod=pod)


def burst(pod, cores):
    return SetCpuLimit(plugin=Plugin.CPU_BURST, reason="1", pod=pod, cores=cores, base=2.0)


def restore(pod, cores):
    return RestoreCpuLimit(plugin=Plugin.CPU_BURST, reason="1", pod=pod, cores=cores)


def hold(cores):
    return SetBeCpuLimit(plugin=Plugin.CPU_SUPPRESS, reason="1", cores=cores)


def cpus(text):
    return SetBeCpuset(plugin=Plugin.CPU_SUPPRESS, reason="1", cpus=text)


@pytest.mark.parametrize(
    "action", [evict("batch/etl"), burst("shop/api", 2.0), burst("shop/api", 3.0), restore("shop/api", 2.0), hold(0.1), cpus("0")]
)
def test_what_keeps_the_rules_passes(action):
    draft = guarded(action)
    assert (draft.actions, draft.failures, draft.state.be_limit) == ((action,), (), 9.0)


@pytest.mark.parametrize(
    "action",
    [
        evict("shop/api"),
        evict("shop/dns"),
        evict("batch/key"),
        evict("batch/unknown"),
        burst("shop/api", 1.9),
        burst("shop/api", float("inf")),
        burst("shop/free", 3.0),
        burst("batch/etl", 3.0),
        restore("shop/api", 1.9),
        hold(0.0),
        hold(float("inf")),
        hold(float("nan")),
        cpus(""),
    ],
)
def test_what_breaks_one_is_a_failure_of_its_plugin(action):
    draft = guarded(action)
    assert draft.actions == ()
    assert [failure.plugin for failure in draft.failures] == [action.plugin]
    assert draft.state == BEFORE or draft.state.be_limit == 4.0


def test_beside_a_broken_one_only_what_tightens_is_kept():
    lift = RestoreBeCpuLimit(plugin=Plugin.CPU_SUPPRESS, reason="1")
    draft = guarded(restore("shop/api", 2.0), burst("shop/api", 3.0), hold(4.0), hold(4.1), lift, evict("batch/etl"), BROKEN)
    assert draft.actions == (restore("shop/api", 2.0), hold(4.0))


def fitted(limit, *actions, settings=None, granted=None, **state):
    """Guard a limit beside LS pods that use 2 of 16 cores; return the actions, and the limit that is remembered."""
    settings = settings or Settings()
    found = judge(BEFORE, READING, settings)
    facts = Facts(snapshot=READING, census=found.census, assessment=found.assessment, settings=settings, before=BEFORE, dt=1.0)
    after = State(time=NOW, be_limit=limit, **state)
    draft = guard(facts, Draft(state=after, level=Level.LOW, resources=FULL, actions=actions, granted=granted or {}))
    return draft.actions, draft.state.be_limit


def test_a_limit_beside_which_ls_fits_is_left_alone():
    assert fitted(14.0, hold(14.0)) == ((hold(14.0),), 14.0)
    # The dead band of falls: 14.1 is 0.7 percent too high.
    assert fitted(14.1, hold(14.1)) == ((hold(14.1),), 14.1)


@pytest.mark.parametrize("limit", [14.2, 16.0, None])
def test_a_limit_that_does_not_fit_is_lowered_to_what_does(limit):
    other = burst("shop/api", 2.5)
    actions, remembered = fitted(limit, other, *([hold(limit)] if limit else []))
    assert remembered == 14.0
    assert [(type(action), action.cores) for action in actions] == [(SetCpuLimit, 2.5), (SetBeCpuLimit, 14.0)]
    assert "LS uses or was granted 2 of 16 cores" in actions[1].reason


def test_what_was_granted_counts_and_min_cores_stay():
    # shop/api may use 9 cores, shop/free uses 1: 6 are left, and with 20 granted none is.
    assert fitted(9.0, granted={"shop/api": 9.0})[1] == 6.0
    assert fitted(9.0, granted={"shop/api": 20.0})[1] == 0.1
    assert fitted(0.1, granted={"shop/api": 20.0}) == ((), 0.1)


def test_under_policy_cpuset_it_is_lowered_in_cpus():
    settings = Settings(cpu_suppress=CpuSuppressSettings(policy=Policy.CPUSET))
    actions, _ = fitted(16.0, cpus("0-15"), settings=settings, be_cpus="0-15")
    assert [action.cpus for action in actions if isinstance(action, SetBeCpuset)] == ["0-13"]


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.OBSERVE])
def test_a_limit_that_is_not_enforced_is_nobodys_harm(mode):
    assert fitted(16.0, settings=Settings(cpu_suppress=CpuSuppressSettings(mode=mode))) == ((), 16.0)
