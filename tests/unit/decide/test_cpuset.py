"""CPUSuppress under policy cpuset (specification, section 5.4)."""

import pytest
from msgspec.structs import replace

from builders import NOW, decided, ls, remembered, rules, snapshot
from qosmanager.config.settings import CpuSuppressSettings, NodeQosResourceSettings, Policy, Settings
from qosmanager.decide.cpu_list import choose_cpus
from qosmanager.model.actions import RestoreBeCpuLimit, RestoreBeCpuset, SetBeCpuLimit, SetBeCpuset
from qosmanager.model.qos import Mode, QoS
from qosmanager.model.snapshot import CpuId
from qosmanager.model.state import State

CPUSET = Settings(cpu_suppress=CpuSuppressSettings(policy=Policy.CPUSET))
# Two sockets of two cores of two threads: siblings are n and n + 4.
TWO_SOCKETS = tuple(CpuId(cpu, core=cpu % 2, socket=cpu // 2 % 2, numa=cpu // 2 % 2) for cpu in range(8))


def reading(request, **more):
    return snapshot(ls(request=request, usage=0.0), cpus=8.0, cpu_usage=0.0, **more)


def actions(snapshot_, state=None, settings=CPUSET):
    return [
        (type(action), getattr(action, "cpus", getattr(action, "cores", None))) for action in decided(snapshot_, state, settings).actions
    ]


def held(**more):
    return State(time=NOW - 1, **more)


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, (0,)), (2, (0, 4)), (3, (0, 2, 4)), (4, (0, 2, 4, 6)), (6, (0, 1, 2, 4, 5, 6)), (8, tuple(range(8))), (9, tuple(range(8)))],
)
def test_cpus_are_spread_over_sockets_in_whole_cores_lowest_first(count, expected):
    assert choose_cpus(TWO_SOCKETS, count, frozenset()) == expected


def test_whole_pairs_come_before_halves():
    # CPU 4 is taken: its sibling 0 is half a core, so socket 0 gives 1 and 5 first.
    assert choose_cpus(TWO_SOCKETS, 2, frozenset({4})) == (1, 5)
    assert choose_cpus(TWO_SOCKETS, 5, frozenset({4})) == (0, 1, 2, 5, 6)


def test_a_socket_with_less_cores_gives_what_it_has():
    # Three cores beside one.
    uneven = tuple(CpuId(cpu, core=cpu, socket=cpu // 3) for cpu in range(4))
    assert choose_cpus(uneven, 3, frozenset()) == (0, 1, 3)
    assert choose_cpus(uneven, 4, frozenset()) == (0, 1, 2, 3)


def test_the_limit_becomes_whole_cpus_rounded_up():
    assert actions(reading(4.7)) == [(SetBeCpuset, "0-3")]
    assert remembered(reading(4.7), settings=CPUSET).be_limit == pytest.approx(3.3)


def test_rounding_up_forgives_the_last_digits():
    assert actions(reading(5.0 - 2e-10)) == [(SetBeCpuset, "0-2")]


def test_below_one_core_the_quota_holds_as_well():
    assert actions(reading(7.4)) == [(SetBeCpuset, "0"), (SetBeCpuLimit, pytest.approx(0.6))]


def test_above_one_core_the_quota_is_taken_off_again():
    state = held(be_limit=0.6, be_cpus="0")
    assert actions(reading(4.0), state) == [(SetBeCpuset, "0-1"), (RestoreBeCpuLimit, None)]


def test_the_same_cpus_are_no_action():
    assert actions(reading(4.7), held(be_limit=3.3, be_cpus="0-3")) == []
    assert actions(reading(4.5), held(be_limit=4.0, be_cpus="0-3")) == []


def test_from_quota_to_cpus_and_back_batch_is_held_throughout():
    assert actions(reading(4.0), held(be_limit=4.0)) == [(SetBeCpuset, "0-3"), (RestoreBeCpuLimit, None)]
    back = Settings()
    assert actions(reading(4.0), held(be_limit=4.0, be_cpus="0-3"), back) == [(SetBeCpuLimit, 4.0), (RestoreBeCpuset, None)]


def test_from_quota_to_cpus_and_back_is_only_reported_while_observing():
    for policy, state in (
        (Policy.CPUSET, held(be_limit=4.0, be_observed=True)),
        (Policy.CFS_QUOTA, held(be_limit=4.0, be_cpus="0-3", be_observed=True)),
    ):
        plan = decided(reading(4.0), state, Settings(cpu_suppress=CpuSuppressSettings(policy=policy, mode=Mode.OBSERVE)))
        assert [action.mode for action in plan.actions] == [Mode.OBSERVE, Mode.OBSERVE]


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.OBSERVE])
def test_no_longer_enforced_the_cpus_are_given_back(mode):
    settings = Settings(cpu_suppress=CpuSuppressSettings(policy=Policy.CPUSET, mode=mode))
    plan = decided(reading(4.0), held(be_limit=4.0, be_cpus="0-3"), settings)
    enforced = [type(action) for action in plan.actions if action.mode is Mode.ENFORCE]
    assert enforced == [RestoreBeCpuset]
    plan = decided(reading(4.0), held(be_limit=0.5, be_cpus="0"), settings)
    assert [type(action) for action in plan.actions if action.mode is Mode.ENFORCE] == [RestoreBeCpuLimit, RestoreBeCpuset]


@pytest.mark.parametrize("qos", [QoS.LSE, QoS.LSR, QoS.SYSTEM])
def test_exclusive_cpus_are_never_batchs(qos):
    owner = ls("owner", qos, usage=0.0, exclusive_cpus=(0, 1))
    plan = decided(snapshot(owner, ls(request=6.0, usage=0.0), cpus=8.0, cpu_usage=0.0), settings=CPUSET)
    assert [action.cpus for action in plan.actions] == ["2-3"]


def test_fewer_cpus_left_than_the_limit_are_all_that_batch_gets():
    owner = ls("owner", QoS.LSE, usage=0.0, request=1.0, exclusive_cpus=tuple(range(6)))
    plan = decided(snapshot(owner, cpus=8.0, cpu_usage=0.0), settings=CPUSET)
    assert [action.cpus for action in plan.actions] == ["6-7"]


def test_with_every_cpu_exclusive_the_quota_holds_batch():
    owner = ls("owner", QoS.LSE, usage=0.0, request=3.0, exclusive_cpus=tuple(range(8)))
    assert actions(snapshot(owner, cpus=8.0, cpu_usage=0.0)) == [(SetBeCpuLimit, 5.0)]


def test_only_cpus_that_batchs_groups_may_have_are_chosen():
    taken = replace(reading(5.0), be_cpus=(2, 3, 6))
    assert actions(taken) == [(SetBeCpuset, "2-3,6")]
    assert actions(replace(taken, be_cpus=(9,))) == [(SetBeCpuLimit, 3.0)], "none of the node's"


def refused(ago, **more):
    return held(cpuset_refused=NOW - ago, **more)


def test_where_cpus_could_not_be_set_the_quota_holds_batch():
    plan = decided(reading(4.0), refused(1.0), CPUSET)
    assert [(type(action), action.cores) for action in plan.actions] == [(SetBeCpuLimit, 4.0)]
    assert "CPUs could not be set 1 s ago" in plan.actions[0].reason
    assert "cpuset-refused" in rules(plan)
    assert actions(reading(4.0), refused(59.0, be_limit=4.0)) == []
    assert actions(reading(5.0), refused(1.0, be_limit=4.0, be_cpus="0-3")) == [(SetBeCpuLimit, 3.0), (RestoreBeCpuset, None)]


def test_after_a_minute_cpus_are_tried_again_but_no_fall_waits_for_them():
    assert actions(reading(4.0), refused(60.0, be_limit=4.0)) == [(SetBeCpuset, "0-3"), (RestoreBeCpuLimit, None)]
    assert actions(reading(5.0), refused(60.0, be_limit=4.0)) == [(SetBeCpuLimit, 3.0)]


def test_the_topology_given_is_the_one_used():
    topology = tuple(CpuId(cpu, core=cpu // 2) for cpu in (2, 3, 10, 11))
    plan = decided(snapshot(ls(request=1.0, usage=0.0), cpus=4.0, cpu_usage=0.0, topology=topology), settings=CPUSET)
    assert [action.cpus for action in plan.actions] == ["2-3,10"]


@pytest.mark.parametrize(
    ("node", "suppress", "expected"),
    [
        (Mode.ENFORCE, Mode.ENFORCE, (0, 1)),
        (Mode.OFF, Mode.ENFORCE, (0, 1)),
        (Mode.ENFORCE, Mode.OFF, (0, 1)),
        (Mode.OBSERVE, Mode.OBSERVE, ()),
    ],
)
def test_under_a_quota_too_batch_is_kept_off_exclusive_cpus(node, suppress, expected):
    settings = Settings(node_qos_resource=NodeQosResourceSettings(mode=node), cpu_suppress=CpuSuppressSettings(mode=suppress))
    owner = ls("owner", QoS.LSE, usage=0.0, exclusive_cpus=(1, 0))
    assert decided(snapshot(owner, cpu_usage=0.0), settings=settings).standing.exclusive_cpus == expected
