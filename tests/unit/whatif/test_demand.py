import math

import pytest
from msgspec.structs import replace

from builders import GIB, be, ls, snapshot
from qosmanager.config.settings import Settings
from qosmanager.model.actions import Evict, Plan, Receipt, Result
from qosmanager.model.qos import Plugin, QoS
from qosmanager.model.record import CycleRecord
from qosmanager.model.state import State
from qosmanager.simulate.node import SimulatedNode
from qosmanager.simulate.scenario import Does
from qosmanager.whatif.demand import Observer
from qosmanager.whatif.rebuild import Bound, rebuild
from records import ASSESSMENT

WALL = 1_800_000_000.0  # 08:00 UTC


def cycle(second, *pods, evicted=(), **node):
    actions = tuple(Evict(plugin=Plugin.CPU_EVICT, reason="", pod=key) for key in evicted)
    receipts = tuple(Receipt(target=key, result=Result.APPLIED, action=place) for place, key in enumerate(evicted))
    return CycleRecord(
        number=second + 1,
        wall=WALL + second,
        snapshot=snapshot(*pods, **{"cpus": 8.0, "cpu_usage": 4.0, **node}),
        assessment=ASSESSMENT,
        plan=Plan(actions=actions),
        state=State(),
        receipts=receipts,
    )


def watched(cycles, limits=None, step=5.0):
    observer = Observer(step)
    for place, record in enumerate(cycles):
        observer.add(record.wall - WALL, record, Settings(), None if limits is None else limits[place])
    return observer.observed(kubernetes=False)


def test_a_service_wanted_what_it_used_and_more_only_while_it_was_slow():
    calm = [cycle(second, ls(usage=1.0, wait=0.5, p99=0.046)) for second in range(5)]
    slow = [cycle(second, ls(usage=2.0, wait=0.5, p99=0.2)) for second in range(5, 11)]
    (api,) = watched(calm + slow).pods
    assert list(api.low) == [1.0, 2.0, 2.0]
    assert list(api.high) == [1.0, 2.5, 2.5]
    assert api.calm_p99() == pytest.approx(0.046)


def test_a_service_without_latency_may_have_wanted_what_it_waited_for():
    (api,) = watched([cycle(second, ls(usage=1.0, wait=0.5)) for second in range(6)]).pods
    assert (list(api.low), list(api.high)) == ([1.0, 1.0], [1.5, 1.5])


def test_batch_that_was_held_may_have_wanted_what_it_took_when_free():
    free = [cycle(second, be(usage=3.0)) for second in range(5)]
    held = [cycle(second, be(usage=1.0)) for second in range(5, 11)]
    (etl,) = watched(free + held, [None] * 5 + [1.0] * 6).pods
    assert list(etl.low) == [3.0, 1.0, 1.0]
    assert list(etl.high) == [3.0, 3.0, 3.0]


def test_batch_that_was_never_free_may_have_wanted_its_share_of_the_node():
    pods = watched([cycle(second, be("a", usage=0.5), be("b", usage=0.5)) for second in range(6)], [1.0] * 6).pods
    # 8 CPUs over two pods.
    assert [list(pod.high) for pod in pods] == [[4.0, 4.0], [4.0, 4.0]]


def test_batch_below_its_limit_wanted_no_more_than_it_used():
    (etl,) = watched([cycle(second, be(usage=0.5)) for second in range(6)], [1.0] * 6).pods
    assert list(etl.high) == [0.5, 0.5]


def test_what_the_node_used_beside_its_pods_is_the_systems():
    gib = 1 << 30
    node = {"cpu_usage": 4.0, "memory_total": 16 * gib, "memory_available": 10 * gib}
    seen = watched([cycle(second, ls(usage=1.0, rss=2 * gib), be(usage=2.0, rss=gib), **node) for second in range(6)])
    assert (seen.system_cpu, seen.system_memory, seen.cpus, seen.seconds) == (1.0, 3 * gib, 8.0, 5.0)


def test_no_cycle_is_refused():
    with pytest.raises(ValueError, match="no cycle"):
        watched([])


def test_where_waiting_is_not_measured_throttling_stands_for_it():
    (api,) = watched([cycle(second, ls(usage=2.0, throttled=0.25)) for second in range(6)]).pods
    assert (list(api.low), list(api.high)) == ([2.0, 2.0], [2.5, 2.5])
    (api,) = watched([cycle(second, ls(usage=2.0, throttled=0.25, wait=0.1)) for second in range(6)]).pods
    assert list(api.high) == pytest.approx([2.1, 2.1])


def test_a_service_in_the_way_of_which_its_own_limit_is_is_not_calm():
    seen = [cycle(second, ls(usage=1.0, wait=0.5, p99=0.2, throttled=0.5)) for second in range(15)]
    (api,) = watched(seen).pods
    assert (api.calm_p99(), api.own_p99()) == (None, pytest.approx(0.2))
    assert list(api.high) == [1.5, 1.5, 1.5]
    (api,) = watched([*seen, cycle(15, ls(usage=1.0, wait=0.5, p99=0.04, throttled=0.0))]).pods
    assert api.own_p99() == pytest.approx(0.04)
    assert list(api.high) == [1.5, 1.5, 1.5, 1.0]


def test_the_share_of_batch_is_among_those_that_were_there_at_one_time():
    jobs = [cycle(second, be(f"job-{second // 10}", usage=0.5)) for second in range(40)]
    pods = watched(jobs, [0.5] * 40).pods
    assert [list(pod.high) for pod in pods] == [[8.0, 8.0]] * 4


def test_a_step_is_at_its_own_time_whenever_a_pod_came():
    cycles = [cycle(second, *([ls(usage=1.0 if second < 20 else 3.0)] if second >= 14 else [])) for second in range(30)]
    seen = watched(cycles)
    (spec,) = rebuild(seen, Bound.LOW).scenario.workloads
    assert (spec.starts, rebuild(seen, Bound.LOW).series[spec.cpu.csv]) == (14.0, ((0.0, 1.0), (20.0, 3.0)))


def test_a_step_in_which_nothing_was_measured_is_as_the_one_before():
    cycles = [cycle(second, ls(usage=None if 5 <= second < 10 else 1.0 + second // 10)) for second in range(15)]
    (api,) = watched(cycles).pods
    assert list(api.low) == list(api.high) == [1.0, 1.0, 2.0]


def test_pods_come_and_go_in_the_scenario_as_they_did():
    cycles = [cycle(second, ls(usage=1.0), *([be(usage=1.0)] if second >= 10 else [])) for second in range(20)]
    cycles += [cycle(second, ls(usage=1.0)) for second in range(20, 60)]
    scenario = rebuild(watched(cycles), Bound.LOW).scenario
    api, etl = scenario.workloads
    assert (api.starts, etl.starts, etl.qos) == (0.0, 10.0, QoS.BE)
    assert [(event.at, event.do, event.workload) for event in scenario.events] == [(19.0, Does.STOP, "etl")]
    assert (scenario.duration, scenario.node.start) == (59.0, WALL % 86400)


def test_an_evicted_pod_would_have_stayed():
    cycles = [cycle(second, ls(usage=1.0), be(usage=1.0)) for second in range(20)]
    cycles.append(cycle(20, ls(usage=1.0), be(usage=1.0), evicted=("batch/etl",)))
    cycles += [cycle(second, ls(usage=1.0)) for second in range(21, 60)]
    assert rebuild(watched(cycles), Bound.LOW).scenario.events == ()
    # But no other would have come in its place.
    cycles += [cycle(second, ls(usage=1.0), replace(be(usage=1.0), uid="2")) for second in range(60, 80)]
    scenario = rebuild(watched(cycles), Bound.LOW).scenario
    assert [(spec.name, spec.starts) for spec in scenario.workloads] == [("api", 0.0), ("etl", 0.0), ("etl-2", 60.0)]
    assert [(event.at, event.workload) for event in scenario.events] == [(20.0, "etl")]


@pytest.mark.parametrize(
    ("owner", "first", "second", "ends"),
    [
        ("Deployment", "etl-7d9f8b6c5d-x2k4z", "etl-7d9f8b6c5d-q9wlm", True),
        ("Deployment", "etl-7d9f8b6c5d-x2k4z", "crunch-7d9f8b6c5d-q9wlm", False),
        ("Job", "etl-x2k4z", "etl-q9wlm", True),
        (None, "etl-x2k4z", "etl-q9wlm", False),  # nobody says that one replaces the other
    ],
)
def test_one_that_came_in_an_evicted_pods_place_under_another_name_goes_on_with_its_demand(owner, first, second, ends):
    victim, heir = be(first, usage=1.0, owner=owner), be(second, usage=1.0, owner=owner)
    cycles = [cycle(second, ls(usage=1.0), victim) for second in range(20)]
    cycles.append(cycle(20, ls(usage=1.0), victim, evicted=(victim.key,)))
    cycles += [cycle(second, ls(usage=1.0), heir) for second in range(22, 60)]
    events = rebuild(watched(cycles), Bound.LOW).scenario.events
    assert [(event.at, event.workload) for event in events] == ([(20.0, first)] if ends else [])


def test_one_that_came_in_place_of_two_replaces_one():
    pods = [be(f"etl-7d9f8b6c5d-{end}", usage=1.0, owner="Deployment") for end in ("bbbbb", "ccccc", "ddddd")]
    cycles = [cycle(second, *pods[:2]) for second in range(20)]
    cycles.append(cycle(20, *pods[:2], evicted=(pods[0].key, pods[1].key)))
    cycles += [cycle(second, pods[2]) for second in range(22, 60)]
    assert [event.workload for event in rebuild(watched(cycles), Bound.LOW).scenario.events] == ["etl-7d9f8b6c5d-bbbbb"]


def test_what_a_pod_does_while_it_ends_is_nothing_it_would_have_gone_on_with():
    cycles = [cycle(second, be(usage=2.0)) for second in range(3)]
    cycles += [cycle(second, be(usage=0.0, terminating=True)) for second in range(3, 6)]
    (etl,) = watched(cycles).pods
    assert (list(etl.low), etl.last) == ([2.0], 5.0)


def test_an_eviction_that_was_refused_is_none():
    refused = cycle(20, be(usage=1.0), evicted=("batch/etl",))
    refused = replace(refused, receipts=(replace(refused.receipts[0], result=Result.REFUSED),))
    (etl,) = watched([cycle(19, be(usage=1.0)), refused]).pods
    assert not etl.evicted


def test_a_service_is_as_fast_as_it_was_on_a_calm_node():
    (api,) = rebuild(watched([cycle(second, ls(usage=1.0, p99=0.1, slo=0.3)) for second in range(6)]), Bound.LOW).scenario.workloads
    # Requests of exponential length: their p99 is ln(100) times their mean.
    assert api.service.time == pytest.approx(0.1 / math.log(100))
    assert api.slo.p99 == 0.3


def test_a_leak_goes_on_at_its_pace():
    gib = GIB
    cycles = [cycle(second, be(usage=1.0, rss=gib + second * 1024)) for second in range(61)]
    scenario = rebuild(watched(cycles), Bound.LOW)
    (etl,) = scenario.scenario.workloads
    assert etl.memory.growth == 3600 * 1024
    # A line of 1 KiB a second back from 1 GiB begins 12 days ago: that is as old as it is taken to be.
    assert (etl.memory.start, etl.age) == (0, 1 << 20)
    node = SimulatedNode(scenario, 1, 0.0)
    assert node.pods["batch/etl"].rss == GIB
    assert scenario.scenario.node.memory == 1 << 50  # none was measured: it is no reason to kill
    node.advance(600)
    assert node.pods["batch/etl"].rss == gib + 60 * 1024


def test_a_pod_is_as_old_as_it_was():
    cycles = [cycle(second, be(usage=1.0, rss=GIB + second * 1024, created=WALL - 100)) for second in range(61)]
    cycles = [replace(each, snapshot=replace(each.snapshot, pods=(*each.snapshot.pods, be("new", usage=1.0)))) for each in cycles]
    etl, new = rebuild(watched(cycles), Bound.LOW).scenario.workloads
    assert (etl.age, etl.memory.start) == (100, GIB - 100 * 1024)
    assert new.age == 366 * 86400  # not known: as old as any


def test_who_is_never_evicted_is_not_in_the_model_either():
    pods = (be("agent", usage=1.0, owner="DaemonSet"), be("bare", usage=1.0, labelled=False), be("vital", usage=1.0, critical=True))
    specs = rebuild(watched([cycle(second, *pods) for second in range(6)]), Bound.LOW).scenario.workloads
    assert [(spec.owner, spec.labelled, spec.critical) for spec in specs] == [
        ("DaemonSet", True, False),
        (None, False, False),
        (None, True, True),
    ]


def test_a_node_that_a_quota_holds_keeps_its_part_of_a_cpu():
    assert rebuild(watched([cycle(second, be(usage=1.0), cpus=2.5) for second in range(6)]), Bound.LOW).scenario.node.cpus == 2.5


def test_one_name_in_two_namespaces_is_two_pods():
    cycles = [cycle(second, ls(usage=1.0), be("api", usage=2.0)) for second in range(6)]
    assert [spec.name for spec in rebuild(watched(cycles), Bound.LOW).scenario.workloads] == ["api", "api-2"]


def test_a_successors_name_is_nobody_elses():
    pods = (ls("web", usage=1.0), ls("web-2", usage=2.0), replace(ls("web", usage=3.0), uid="other"))
    specs = rebuild(watched([cycle(second, *pods) for second in range(6)]), Bound.LOW).scenario.workloads
    assert [spec.name for spec in specs] == ["web", "web-2", "web-3"]
