from __future__ import annotations

import errno

import pytest

from acting import Bench, burst, results, unburst
from qosmanager.model.actions import Result
from qosmanager.model.qos import QoS
from qosmanager.model.workload import CgroupFile

QUOTA = "cpu.cfs_quota_us"


@pytest.fixture
def bench(tmp_path):
    """default/api: its group has 2 cores, container app 1.5, container log 0.5, container free no limit."""
    bench = Bench(tmp_path)
    bench.be_parent = None
    bench.tree.add("api", cpu_cfs_quota_us="200000")
    bench.tree.add("api/app", cpu_cfs_quota_us="150000")
    bench.tree.add("api/log", cpu_cfs_quota_us="50000")
    bench.tree.add("api/free")
    bench.pod("api", QoS.LS, "api", "app", "log", "free")
    bench.throttled = {"api/app": 0.2, "api/log": 0.01, "api/free": 0.0}
    return bench


def quotas(bench):
    return [bench.tree.text(group, QUOTA) for group in ("api", "api/app", "api/log", "api/free")]


def test_pod_first_then_its_throttled_containers_by_the_same_ratio(bench):
    receipts = bench.cycle(burst("default/api", 3.0, 2.0))
    assert bench.tree.writes == [(f"cpu:/api/{QUOTA}", "300000"), (f"cpu:/api/app/{QUOTA}", "225000")]
    assert [(each.result, each.pod, each.action) for each in receipts] == [(Result.APPLIED, "default/api", 0)] * 2


def test_all_limited_containers_when_none_is_throttled_yet(bench):
    bench.throttled = {}
    bench.cycle(burst("default/api", 3.0, 2.0))
    assert quotas(bench) == ["300000", "225000", "75000", "-1"]


def test_restore_writes_the_containers_first(bench):
    bench.cycle(burst("default/api", 3.0, 2.0))
    bench.tree.writes.clear()
    assert results(bench.cycle(unburst("default/api", 2.0))) == [Result.APPLIED, Result.APPLIED]
    assert bench.tree.writes == [(f"cpu:/api/app/{QUOTA}", "150000"), (f"cpu:/api/{QUOTA}", "200000")]
    assert results(bench.cycle(unburst("default/api", 2.0))) == [Result.UNCHANGED]


def test_pod_without_a_limit_of_its_group_has_its_containers_raised(bench):
    bench.tree.put(CgroupFile("cpu", "api", QUOTA), "-1")
    bench.cycle(burst("default/api", 3.0, 2.0))
    assert quotas(bench) == ["-1", "225000", "50000", "-1"]


def test_container_of_the_pods_own_size_stays_within_the_pod(bench):
    bench.tree.put(CgroupFile("cpu", "api/app", QUOTA), "200000")
    bench.cycle(burst("default/api", 3.0, 1.9))
    assert quotas(bench)[:2] == ["300000", "300000"]


def test_pod_that_has_more_already_is_not_lowered(bench):
    bench.tree.put(CgroupFile("cpu", "api", QUOTA), "400000")
    (receipt,) = bench.cycle(burst("default/api", 3.0, 2.0))
    assert receipt.result is Result.REFUSED
    assert "4 cores already" in receipt.detail
    assert bench.tree.writes == []


def test_limit_below_the_pods_own_is_refused(bench):
    assert results(bench.cycle(burst("default/api", 1.5, 2.0))) == [Result.REFUSED]
    assert bench.tree.writes == []


def test_be_pod_is_never_raised(bench):
    bench.tree.add("batch", cpu_cfs_quota_us="100000")
    bench.pod("batch", QoS.BE, "batch")
    assert results(bench.cycle(burst("default/batch", 1.5, 1.0))) == [Result.REFUSED]


def test_pod_without_any_limit_in_the_kernel_is_refused(bench):
    for group in ("api", "api/app", "api/log"):
        bench.tree.put(CgroupFile("cpu", group, QUOTA), "-1")
    assert results(bench.cycle(burst("default/api", 3.0, 2.0))) == [Result.REFUSED]


def test_pod_that_is_gone(bench):
    assert results(bench.cycle(burst("default/none", 3.0, 2.0))) == [Result.GONE]
    bench.tree.remove("api")
    assert results(bench.cycle(burst("default/api", 3.0, 2.0))) == [Result.GONE]


def test_failed_container_takes_the_pods_raise_back(bench):
    bench.tree.fail(QUOTA, errno.EINVAL, group="api/app")
    assert results(bench.cycle(burst("default/api", 3.0, 2.0))) == [Result.FAILED, Result.FAILED]
    assert quotas(bench) == ["200000", "150000", "50000", "-1"]
    assert bench.journal.load().entries == ()


def test_raise_that_could_not_be_undone_is_put_back_when_the_engine_knows_no_burst(bench):
    bench.tree.fail(QUOTA, errno.EINVAL, group="api/app")
    bench.tree.fail(QUOTA, errno.EIO, group="api", skip=1)
    assert results(bench.cycle(burst("default/api", 3.0, 2.0))) == [Result.FAILED, Result.FAILED]
    assert quotas(bench) == ["300000", "150000", "50000", "-1"]
    bench.raised.clear()  # what the engine makes of it
    assert results(bench.cycle()) == [Result.FAILED]
    bench.tree.heal()
    assert results(bench.cycle()) == [Result.APPLIED]
    assert quotas(bench) == ["200000", "150000", "50000", "-1"]
    assert bench.journal.load().entries == ()


def test_kubelets_value_is_the_new_original_and_the_burst_is_over(bench):
    bench.cycle(burst("default/api", 3.0, 2.0))
    bench.tree.put(CgroupFile("cpu", "api", QUOTA), "250000")
    receipts = bench.cycle()
    assert [(each.result, each.pod) for each in receipts] == [(Result.DRIFTED, "default/api"), (Result.APPLIED, "default/api")]
    # The resized file is left as it is; the container, which still held our value, has its own limit again.
    assert quotas(bench) == ["250000", "150000", "50000", "-1"]
    assert results(bench.cycle(unburst("default/api", 2.0))) == [Result.UNCHANGED]
    assert quotas(bench)[0] == "250000"
    bench.cycle(burst("default/api", 3.0, 2.5))
    bench.cycle(unburst("default/api", 2.5))
    assert quotas(bench)[0] == "250000"


def test_resize_in_the_cycle_of_the_restore_is_left_alone(bench):
    bench.cycle(burst("default/api", 3.0, 2.0))
    bench.tree.put(CgroupFile("cpu", "api", QUOTA), "100000")
    bench.tree.put(CgroupFile("cpu", "api/app", QUOTA), "100000")
    bench.cycle(unburst("default/api", 2.0))
    assert quotas(bench)[:2] == ["100000", "100000"]


def test_pod_that_ends_during_its_burst_is_forgotten(bench):
    bench.cycle(burst("default/api", 3.0, 2.0))
    bench.tree.recreate("api", cpu_cfs_quota_us="200000")
    assert set(results(bench.cycle())) == {Result.GONE}
    assert results(bench.cycle(unburst("default/api", 2.0))) == [Result.UNCHANGED]
    assert bench.tree.text("api", QUOTA) == "200000"


def test_v2_burst(tmp_path):
    bench = Bench(tmp_path, "v2")
    bench.be_parent = None
    bench.tree.add("api", cpu_max="200000 100000")
    bench.tree.add("api/app", cpu_max="50000 50000")
    bench.pod("api", QoS.LS, "api", "app")
    bench.cycle(burst("default/api", 3.0, 2.0))
    assert [bench.tree.text(group, "cpu.max") for group in ("api", "api/app")] == ["300000 100000", "75000 50000"]
    bench.cycle(unburst("default/api", 2.0))
    assert [bench.tree.text(group, "cpu.max") for group in ("api", "api/app")] == ["200000 100000", "50000 50000"]


@pytest.mark.parametrize("change", ["gone", "batch", "elsewhere"])
def test_what_was_raised_for_a_pod_that_a_reload_took_away_goes_back(bench, change):
    before = quotas(bench)
    bench.cycle(burst("default/api", 3.0, 2.0))
    bench.pods.clear()
    if change == "batch":
        bench.pod("api", QoS.BE, "api")
    elif change == "elsewhere":
        bench.tree.add("apis")  # its path begins with that of the group that was raised
        bench.pod("api", QoS.LS, "apis")
    receipts = bench.cycle()
    assert quotas(bench) == before
    assert [(each.result, each.pod, each.action) for each in receipts] == [(Result.APPLIED, "default/api", None)] * 2
    assert bench.journal.load().entries == ()
