import pytest
from msgspec.structs import replace

from qosmanager.demo.recorded import RecordedDemo
from qosmanager.demo.recording import Recording, shipped
from qosmanager.demo.story import MANAGED, MEMORY, Interrupted

RECORDING = shipped()


def shown(recording, stopping=lambda: False):
    moments = []
    RecordedDemo(recording, moments.append, stopping).run(0.01)
    return moments


def test_every_recorded_cycle_is_decided_again():
    moments = shown(RECORDING)
    assert [moment.status.cycle for moment in moments] == [frame.cycle for frame in RECORDING.frames]
    assert {moment.stage.part for moment in moments} == {MANAGED}
    last = moments[-1]
    assert (last.index, last.count, last.stage.name) == (4, 4, MEMORY)
    assert any(entry.plugin == "MemoryEvict" and "OOM risk" in entry.reason for moment in moments for entry in moment.decisions)
    assert any(entry.kind == "set_be_cpu_limit" for moment in moments for entry in moment.decisions)


def test_the_same_readings_give_the_same_decisions():
    first, second = ([[(e.kind, e.amount, e.reason) for e in moment.decisions] for moment in shown(RECORDING)] for _ in range(2))
    assert first == second


def test_other_readings_give_other_decisions():
    calm = replace(RECORDING, frames=RECORDING.frames[:10])
    assert not any(entry.kind == "evict" for moment in shown(calm) for entry in moment.decisions)


def test_it_ends_when_asked_to():
    with pytest.raises(Interrupted):
        shown(RECORDING, lambda: True)


def test_a_recording_is_read_as_it_was_saved(tmp_path):
    RECORDING.save(tmp_path / "again")
    assert Recording.parse((tmp_path / "again").read_bytes()) == RECORDING
