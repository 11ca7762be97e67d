"""Readings on a grid, before anything is decided."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from builders import GIB, be, ls, snapshot
from qosmanager.model.snapshot import PodObserved
from qosmanager.model.workload import Placement
from qosmanager.record.grid import CPU, LATENCY, MEMORY, NODE, OBSERVED, QuantisedReadings, Quantiser
from worlds import snapshots


def test_a_reading_goes_to_the_nearest_step():
    taken = Quantiser().take(snapshot(ls(usage=1.23456, p99=0.0312345), cpu_usage=3.00051, time=100.00049))
    assert taken.pods[0].cpu.usage == 1264 / 1024  # 1.23456 x 1024 = 1264.19
    assert taken.pods[0].latency.p99 == 4094 / 131072  # 0.0312345 x 131072 = 4093.97
    assert taken.node.cpu_usage == 3073 / 1024  # 3072.52
    assert taken.time == 100 + 1 / 1024  # 0.50 of a step rounds up


def test_bytes_stay_whole_numbers_of_pages():
    taken = Quantiser().take(snapshot(be(rss=4096 * 1000 + 100), memory_available=8 * GIB + 300))
    assert taken.pods[0].memory.rss == 4096 * 1000
    assert taken.node.memory_available == 8 * GIB
    assert isinstance(taken.pods[0].memory.rss, int)


def test_what_is_declared_or_not_measured_stays_as_it_is():
    given_ = snapshot(ls(request=0.3333, limit=1.7777, slo=0.0123), memory_total=GIB + 1)
    taken = Quantiser().take(given_)
    assert taken.pods == given_.pods
    assert taken.node == given_.node


def test_no_step_is_coarser_than_a_tenth_of_the_finest_threshold():
    """1 percent of a core-limit of 0.1 is the finest change that the specification acts on; memory rules start at percents of gigabytes."""
    steps = {grid.field: grid.step for grid in (*NODE, *CPU, *MEMORY, *LATENCY, *OBSERVED)}
    assert steps["usage"] == steps["wait"] == steps["throttled"] <= 0.001
    assert steps["p99"] <= 0.00001
    assert steps["rss"] == 4096
    assert steps["cpu_usage"] <= 0.001


@settings(max_examples=15)
@given(snapshots())
def test_twice_is_as_good_as_once(snapshot):
    once = Quantiser().take(snapshot)
    assert Quantiser().take(once) == once


@settings(max_examples=15)
@given(snapshots())
def test_no_reading_moves_by_more_than_half_a_step(snapshot):
    once = Quantiser().take(snapshot)
    for before, after in zip(snapshot.pods, once.pods, strict=True):
        for grids, part in ((CPU, "cpu"), (MEMORY, "memory"), (LATENCY, "latency")):
            for grid in grids:
                was, now = getattr(getattr(before, part), grid.field), getattr(getattr(after, part), grid.field)
                assert (was is None) == (now is None)
                assert was is None or abs(now - was) <= grid.step / 2


def test_a_reading_that_is_still_the_same_object_is_looked_at_once():
    quantiser, pod = Quantiser(), ls(usage=1.0, p99=0.0123)
    first = quantiser.take(snapshot(pod))
    second = quantiser.take(snapshot(replace(pod, observed=PodObserved(io_read=5.0))))
    assert second.pods[0].latency is first.pods[0].latency


@given(st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=5), st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=5))
def test_pods_that_come_go_and_change_places_keep_their_own_readings(before, after):
    quantiser = Quantiser()
    pods = {name: ls(name, usage=float(place), p99=float(place), rss=4096 * place) for place, name in enumerate("abcd")}
    quantiser.take(snapshot(*(pods[name] for name in before)))
    assert quantiser.take(snapshot(*(pods[name] for name in after))).pods == tuple(pods[name] for name in after)


class _Node:
    def sample(self):
        return snapshot(ls(usage=0.12345)), Placement(workloads={}, be_parent="batch")


def test_the_port_measures_as_it_is_once_nobody_records():
    port = QuantisedReadings(_Node())
    assert port.sample()[0].pods[0].cpu.usage == 126 / 1024
    assert port.placement.be_parent == "batch"
    port.stop()
    assert port.sample()[0].pods[0].cpu.usage == 0.12345
