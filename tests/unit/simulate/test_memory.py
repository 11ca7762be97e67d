"""Memory of the model: leaks, saw-teeth, page cache, reclaim, whom the kernel kills."""

import pytest

from qosmanager.simulate.memory import held
from qosmanager.simulate.scenario import MemoryDemand
from simulated import node

GIB = 1 << 30
SMALL = "{cpus: 4, memory: 8Gi, system_cpu: 0, system_memory: 0}"


def test_a_leak_grows_by_the_hour_and_a_saw_tooth_falls_back():
    assert held(MemoryDemand(start=100, growth=50), 7200) == 200
    tooth = MemoryDemand(start=100, peak=300, every=60.0)
    assert [held(tooth, age) for age in (0, 30, 59, 60)] == [100, 200, 297, 100]


def test_available_is_what_nobody_holds_less_what_the_kernel_keeps():
    made = node("name: ls, qos: LS, memory: {start: 2Gi, cache: 1Gi}", node=SMALL)
    made.advance(10)
    assert made.memory.available == round(6 * GIB - 0.01 * 8 * GIB)
    assert made.memory.cache == GIB
    assert (made.memory.kswapd, made.memory.direct, made.memory.stall) == (0, 0, 0)


def test_page_cache_gives_way_and_kswapd_scans():
    made = node("name: ls, qos: LS, memory: {start: 6Gi, cache: 4Gi}", node=SMALL)
    made.advance(10)
    assert made.memory.cache == pytest.approx(2 * GIB - 0.02 * 8 * GIB, abs=2)
    assert made.memory.kswapd > 0
    assert made.memory.direct == 0


def test_near_the_end_tasks_reclaim_for_themselves_and_stall():
    made = node("name: ls, qos: LS, memory: {start: 8150Mi}", node=SMALL)
    made.advance(100)
    assert made.memory.direct > 0
    assert 0 < made.memory.stall < 1
    assert made.memory.average == pytest.approx(made.memory.stall * 100 * (1 - 2.718281828**-1), rel=0.1)
    assert made.memory.inflation > 1


def test_the_kernel_kills_the_largest_and_batch_first_once_it_has_the_score():
    pods = ("name: ls, qos: LS, memory: {start: 5Gi}", "name: be, qos: BE, memory: {start: 4Gi}")
    without = node(*pods, node=SMALL)
    assert ("oom-killed", "default/ls") in without.happenings
    kubernetes = node(*pods, node="{cpus: 4, memory: 8Gi, system_memory: 0, layout: kubernetes}")
    assert kubernetes.happenings == [("oom-killed", "default/be")]


def test_a_pod_above_its_own_limit_is_killed_and_a_service_begins_again():
    made = node("name: ls, qos: LS, limits: {memory: 1Gi}, memory: {start: 1000Mi, growth: 3600Gi}, age: 0s", node=SMALL)
    made.advance(10)
    assert ("oom-killed", "default/ls") in made.happenings
    made.advance(10)
    assert made.pods["default/ls"].workload is not None
