"""Standing properties of LS groups: by request, never lowered, somebody else's value left alone."""

from __future__ import annotations

import errno

import pytest
from msgspec.structs import replace

from acting import Bench, burst, results
from qosmanager.execute import service_knobs
from qosmanager.execute.service_knobs import weight_of
from qosmanager.model.actions import KnobState, Result, Standing
from qosmanager.model.qos import QoS
from qosmanager.model.workload import CgroupFile

ON = Standing(services=True)
LOW = Standing(memory_low=True)
GIB = 1 << 30
FILES = {"v1": ("cpu.shares", "cpu.cfs_burst_us"), "v2": ("cpu.weight", "cpu.max.burst")}
QUOTA = {"v1": {"cpu_cfs_quota_us": "50000"}, "v2": {"cpu_max": "50000 100000"}}


def bench_on(tmp_path, layout, standing=ON, **values):
    bench = Bench(tmp_path, layout)
    bench.tree.add("be")
    bench.tree.add("web/api", **(values or QUOTA[layout]))
    bench.pod("api", QoS.LS, "web/api")
    bench.pods["default/api"] = replace(bench.pods["default/api"], cpu_request=2.0, memory_request=GIB)
    bench.standing = standing
    return bench


def texts(bench, group="web/api"):
    return tuple(bench.tree.text(group, name) for name in FILES[bench.tree.layout])


def knob(bench, name):
    return next(each for each in bench.executor.knobs() if each.name == name)


@pytest.mark.parametrize(
    ("version", "cores", "weight"), [(1, 0.001, 2), (1, 2, 2048), (1, 1000, 262144), (2, 0.001, 1), (2, 2, 200), (2, 1000, 10000)]
)
def test_the_weight_of_a_request(version, cores, weight):
    assert weight_of(version, cores) == weight


@pytest.mark.parametrize(("layout", "wanted", "own"), [("v1", ("2048", "50000"), ("1024", "0")), ("v2", ("200", "50000"), ("100", "0"))])
def test_weight_and_burst_follow_request_and_limit_and_go_back(tmp_path, layout, wanted, own):
    bench = bench_on(tmp_path, layout)
    assert results(bench.cycle()) == [Result.APPLIED, Result.APPLIED]
    assert texts(bench) == wanted
    assert bench.cycle() == ()
    assert knob(bench, service_knobs.WEIGHT).state is KnobState.IN_FORCE
    bench.standing = Standing()
    bench.cycle()
    assert texts(bench) == own
    assert knob(bench, service_knobs.BURST).state is KnobState.OFF


def test_a_weight_above_that_of_the_request_stays(tmp_path):
    bench = bench_on(tmp_path, "v1", cpu_shares="4096")
    assert bench.cycle() == ()
    assert texts(bench) == ("4096", "0")


def test_what_kubelet_writes_is_left_to_it(tmp_path):
    bench = bench_on(tmp_path, "v2", Standing(services=True, memory_low=True))
    bench.kubelet_pods = frozenset({"web/api"})
    assert bench.cycle() == ()
    assert bench.tree.writes == []


@pytest.mark.parametrize("layout", ["v1", "v2"])
def test_a_value_that_somebody_else_writes_is_not_written_over(tmp_path, layout):
    bench = bench_on(tmp_path, layout)
    bench.cycle()
    bench.tree.put(CgroupFile("cpu", "web/api", FILES[layout][0]), "500")
    said = [receipt for _ in range(10) for receipt in bench.cycle()]
    assert results(said) == [Result.DRIFTED]
    assert said[0].pod is None  # no burst of the pod ends with it
    for _ in range(20):
        assert bench.cycle() == ()
    assert texts(bench)[0] == "500"
    bench.executor.restore_all()
    assert texts(bench) == ("500", "0")


def test_what_was_left_to_somebody_else_is_forgotten_with_its_group(tmp_path):
    bench = bench_on(tmp_path, "v1")
    bench.cycle()
    bench.tree.put(CgroupFile("cpu", "web/api", "cpu.shares"), "500")
    for _ in range(42):
        bench.cycle()
    left = "left to somebody else: cpu:/web/api/cpu.shares"
    assert left in knob(bench, service_knobs.WEIGHT).detail
    # No service for a while, and the same group still: what somebody wrote stays.
    away = bench.pods.pop("default/api")
    bench.cycle()
    bench.pods["default/api"] = away
    bench.cycle()
    assert texts(bench)[0] == "500"
    bench.tree.remove("web/api")
    bench.pods.clear()
    bench.cycle()
    assert left not in knob(bench, service_knobs.WEIGHT).detail


@pytest.mark.parametrize("layout", ["v1", "v2"])
def test_a_cpu_burst_above_them_comes_and_goes(tmp_path, layout):
    bench = bench_on(tmp_path, layout)
    bench.cycle()
    bench.cycle(burst("default/api", 0.75, 0.5))
    quota = CgroupFile("cpu", "web/api", "cpu.max" if layout == "v2" else "cpu.cfs_quota_us")
    assert bench.tree.read(quota).split()[0] == "75000"
    bench.raised.clear()
    bench.cycle()
    assert bench.tree.read(quota).split()[0] == "50000"
    assert texts(bench)[1] == "50000"


def test_they_outlive_a_clean_stop_and_are_taken_over(tmp_path):
    bench = bench_on(tmp_path, "v1")
    bench.cycle()
    bench.executor.leave()
    assert texts(bench) == ("2048", "50000")
    bench.restarted().adopt()
    assert bench.cycle() == ()
    bench.executor.restore_all()
    assert texts(bench) == ("1024", "0")


def test_a_pod_that_is_no_service_any_more_gets_its_own_values_back(tmp_path):
    bench = bench_on(tmp_path, "v1")
    bench.cycle()
    bench.pods.clear()
    bench.cycle()
    assert texts(bench) == ("1024", "0")


def test_groups_that_end_are_forgotten(tmp_path):
    bench = bench_on(tmp_path, "v1")
    bench.cycle()
    bench.tree.remove("web/api")
    bench.pods.clear()
    bench.cycle()
    assert bench.executor.restore_all() == ()


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EACCES])
def test_what_the_kernel_refuses_is_told(tmp_path, code):
    bench = bench_on(tmp_path, "v1")
    bench.tree.fail("cpu.cfs_burst_us", code)
    bench.cycle()
    assert knob(bench, service_knobs.BURST).state is KnobState.REFUSED
    assert texts(bench) == ("2048", "0")
    bench.executor.restore_all()
    assert texts(bench) == ("1024", "0")


def test_memory_is_protected_in_the_group_and_in_those_above_it(tmp_path):
    bench = bench_on(tmp_path, "v2", LOW)
    bench.tree.add("web/db")
    bench.pod("db", QoS.LSR, "web/db")
    bench.pods["default/db"] = replace(bench.pods["default/db"], memory_request=GIB)
    bench.cycle()
    assert [bench.tree.text(group, "memory.low") for group in ("web", "web/api", "web/db")] == [str(2 * GIB), str(GIB), str(GIB)]
    del bench.pods["default/db"]
    for _ in range(31):
        bench.cycle()
    assert [bench.tree.text(group, "memory.low") for group in ("web", "web/api", "web/db")] == [str(GIB), str(GIB), "0"]
    bench.restarted().adopt()
    bench.executor.restore_all()
    assert [bench.tree.text(group, "memory.low") for group in ("web", "web/api")] == ["0", "0"]


def test_v1_protects_no_memory(tmp_path):
    bench = bench_on(tmp_path, "v1", LOW)
    assert bench.cycle() == ()
    assert knob(bench, service_knobs.LOW).state is KnobState.IMPOSSIBLE
