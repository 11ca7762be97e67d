import math

import pytest
from msgspec.structs import replace

from builders import be, ls, snapshot
from qosmanager.config.settings import Settings
from qosmanager.model.actions import Evict, Plan, Receipt, Result
from qosmanager.model.qos import Plugin, QoS
from qosmanager.model.record import CycleRecord
from qosmanager.model.state import State
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
        observer.add(record, Settings(), None if limits is None else limits[place])
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


def test_a_clock_that_was_set_back_adds_nothing():
    cycles = [cycle(second, ls(usage=1.0)) for second in (0, 1, 2, 3, 4, 5)] + [replace(cycle(9, ls(usage=9.0)), wall=WALL + 1)]
    (api,) = watched(cycles).pods
    assert list(api.low) == [1.0, 1.0]


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


def test_a_service_is_as_fast_as_it_was_on_a_calm_node():
    (api,) = rebuild(watched([cycle(second, ls(usage=1.0, p99=0.1, slo=0.3)) for second in range(6)]), Bound.LOW).scenario.workloads
    # Requests of exponential length: their p99 is ln(100) times their mean.
    assert api.service.time == pytest.approx(0.1 / math.log(100))
    assert api.slo.p99 == 0.3


def test_a_leak_goes_on_at_its_pace():
    gib = 1 << 30
    cycles = [cycle(second, be(usage=1.0, rss=gib + second * 1024)) for second in range(61)]
    (etl,) = rebuild(watched(cycles), Bound.LOW).scenario.workloads
    assert (etl.memory.start, etl.memory.growth) == (gib, 3600 * 1024)


def test_one_name_in_two_namespaces_is_two_pods():
    cycles = [cycle(second, ls(usage=1.0), be("api", usage=2.0)) for second in range(6)]
    assert [spec.name for spec in rebuild(watched(cycles), Bound.LOW).scenario.workloads] == ["api", "api-2"]
