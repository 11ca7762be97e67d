"""Cycles through the encoder and the decoder come back as they were."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from builders import be, ls, snapshot
from qosmanager.config.settings import Settings
from qosmanager.model.attribution import Attribution, Suspect
from qosmanager.model.forecast import Forecast
from qosmanager.model.own_use import OwnUse
from qosmanager.model.pause import Pause
from qosmanager.model.snapshot import CpuId, PodCpu, PodLatency, PodMemory, PodObserved, Snapshot
from qosmanager.model.state import State
from qosmanager.model.workload import Placement, Workload
from qosmanager.record.decoder import Decoder
from qosmanager.record.encoder import Encoder
from qosmanager.record.file import Header
from qosmanager.record.grid import CPU, LATENCY, MEMORY, OBSERVED, OWN, Quantiser
from qosmanager.record.messages import Message, Place, decode, encode
from recordings import SETTINGS, decided, follow_each_other, run
from worlds import snapshots


def back(cycles):
    encoder, decoder = Encoder(), Decoder(Header(version="1.2.3", begun=0.0))
    for cycle in cycles:
        yield decoder.take(decode(encode(encoder.encode(cycle)))), decoder.snapshot()


def test_a_run_comes_back_as_it_was():
    cycles = run(60)
    assert follow_each_other(cycles)
    for cycle, (recorded, reading) in zip(cycles, back(cycles), strict=True):
        record = cycle.record
        assert reading == record.snapshot
        assert (recorded.plan, recorded.receipts, recorded.outcomes) == (record.plan, record.receipts, record.outcomes)
        assert (recorded.number, recorded.wall, recorded.own) == (record.number, record.wall, record.own)
        assert (recorded.durations, recorded.settings, recorded.version) == (record.durations, cycle.settings, "1.2.3")


def test_only_the_first_of_a_run_holds_the_state():
    cycles = run(5)
    assert [recorded.before for recorded, _ in back(cycles)] == [State(), None, None, None, None]


def test_a_cycle_after_lost_ones_holds_the_state_again():
    cycles = run(6)
    del cycles[2:4]
    assert [recorded.before for recorded, _ in back(cycles)] == [State(), None, cycles[2].before, None]


@settings(max_examples=15)
@given(st.lists(snapshots(), min_size=1, max_size=3))
def test_any_readings_come_back(some):
    quantiser, cycles = Quantiser(), []
    for number, measured in enumerate(some, 1):
        cycles.append(decided(quantiser.take(measured), cycles[-1].record.state if cycles else State(), SETTINGS, number))
    for cycle, (recorded, reading) in zip(cycles, back(cycles), strict=True):
        assert reading == cycle.record.snapshot
        assert recorded.plan == cycle.record.plan


def changed(**changes):
    first, second = run(2)
    return [first, replace(second, record=replace(second.record, **changes))]


def test_who_is_suspected_stands_until_it_changes():
    first, second, third = run(3)
    suspected = (Attribution("shop/api", (Suspect("batch/etl", "cpu", 0.62),)),)
    cycles = [
        first,
        *(
            replace(each, record=replace(each.record, snapshot=replace(each.record.snapshot, attributions=suspected)))
            for each in (second, third)
        ),
        replace(first, record=replace(first.record, number=4)),
    ]
    assert [reading.attributions for _, reading in back(cycles)] == [(), suspected, suspected, ()]


def test_what_is_foretold_stands_until_it_changes():
    first, second = run(2)
    foretold = (Forecast("shop/api", ("shop/api-0",), cores=3.0, error=0.1),)
    cycles = [first, replace(second, record=replace(second.record, snapshot=replace(second.record.snapshot, forecasts=foretold)))]
    assert [reading.forecasts for _, reading in back(cycles)] == [(), foretold]


def test_why_a_cycle_came_early_comes_back():
    assert [recorded.cause for recorded, _ in back(changed(cause="waited for CPU: shop/api"))] == ["", "waited for CPU: shop/api"]


def test_a_pause_comes_and_goes():
    first, second, third = run(3)
    pause = Pause(boot_id="b", ends=5.0, since=1.0, until=2.0, by="root", reason="maintenance")
    second = replace(second, record=replace(second.record, pause=pause, snapshot=replace(second.record.snapshot, paused=True)))
    found = list(back([first, second, third]))
    assert [(recorded.pause, reading.paused) for recorded, reading in found] == [(None, False), (pause, True), (None, False)]


def test_other_stages_and_none_of_its_own_use_come_back():
    found = [recorded for recorded, _ in back(changed(durations={"total": 3.0}, own=None))]
    assert (found[1].durations, found[1].own) == ({"total": 3.0}, None)


def test_settings_node_and_places_are_taken_when_they_change():
    first, second = run(2)
    placement = Placement(workloads={"shop/api": Workload(name="api", qos=ls().qos, cgroup="other", grace=5.0)}, kubelet_owned=True)
    node = replace(second.record.snapshot.node, cpus=8.0, topology=(CpuId(cpu=0, numa=1),))
    reading = replace(second.record.snapshot, node=node, be_cpus=(1, 2), be_shielded=True, be_memory=1 << 30, pods_age=4.2)
    second = replace(second, settings=Settings(sync_period=2.0), placement=placement, record=replace(second.record, snapshot=reading))
    (_, _), (recorded, taken) = back([first, second])
    assert taken == reading
    assert recorded.settings.sync_period == 2.0
    assert (recorded.places.pods, recorded.places.kubelet_owned) == ({"shop/api": Place("other", 5.0)}, True)


def test_a_limit_that_changes_is_taken_though_the_pod_stays():
    readings = [snapshot(ls(usage=1.0, limit=2.0), be()), snapshot(ls(usage=1.0, limit=3.0), be())]
    cycles = [decided(reading, State(), SETTINGS, number) for number, reading in enumerate(readings)]
    assert [reading.pods[0].cpu.limit for _, reading in back(cycles)] == [2.0, 3.0]


def test_names_that_are_no_text_come_back():
    cycle = decided(snapshot(ls("caf\udce9", usage=1.0, limit=1.0), be(usage=20.0), cpu_usage=15.75), State(), SETTINGS, 1)
    ((recorded, reading),) = back([cycle])
    assert reading == cycle.record.snapshot
    assert recorded.plan == cycle.record.plan
    assert recorded.plan.refusals or recorded.plan.actions


def test_fields_of_a_later_version_are_passed_over():
    message = encode(Encoder().encode(run(1)[0]))
    later = {**msgspec.msgpack.decode(message[1:]), "weather": "fine"}
    assert isinstance(decode(b"m" + msgspec.msgpack.encode(later)), Message)


@pytest.mark.parametrize("data", [b"", b"x", b"m", b"j{", b"m\x80", b"j" + b"[" * 100_000])
def test_a_message_that_is_none_is_refused(data):
    with pytest.raises((ValueError, RecursionError)):
        decode(data)


@pytest.mark.parametrize(
    ("kind", "grids", "declared"),
    [
        (PodCpu, CPU, {"request", "limit"}),
        (PodMemory, MEMORY, {"request", "limit", "growth_before"}),
        (PodLatency, LATENCY, {"slo"}),
        (PodObserved, OBSERVED, set()),
        (
            Snapshot,
            (),
            {
                "node",
                "pods",
                "be_cpus",
                "be_shielded",
                "be_memory",
                "time",
                "node_age",
                "pods_age",
                "paused",
                "missing",
                "attributions",
                "forecasts",
            },
        ),
        (OwnUse, OWN, {"thrift", "reason"}),
    ],
)
def test_a_field_that_is_added_to_the_model_is_not_forgotten(kind, grids, declared):
    assert set(kind.__struct_fields__) == {grid.field for grid in grids} | declared, "record it: grid.py, encoder.py, decoder.py"
