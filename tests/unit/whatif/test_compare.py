"""What was measured, added up."""

import pytest
from msgspec.structs import replace

from builders import be, ls, snapshot
from qosmanager.config.settings import Settings
from qosmanager.model.state import State
from qosmanager.whatif.compare import Measured
from qosmanager.whatif.held import held_at
from records import record


def test_the_recording_is_added_up_by_the_length_of_its_cycles():
    measured = Measured(Settings())
    reading = snapshot(ls(usage=1.0, p99=0.2, slo=0.1), be(usage=2.0), cpus=8.0, cpu_usage=4.0)
    cycle = replace(record(), snapshot=reading, state=State(be_limit=2.5))
    measured.add(1.0, 1.0, cycle)
    told = measured.add(11.0, 10.0, replace(cycle, snapshot=replace(reading, pods=reading.pods[1:])))
    assert (told.truth.time, told.truth.seconds, told.truth.be_limit) == (11.0, 10.0, 2.5)


def test_what_was_not_measured_is_not_zero():
    reading = snapshot(ls(usage=1.0), be(usage=None), be("other", usage=2.0), cpus=8.0, cpu_usage=None)
    truth = Measured(Settings()).add(1.0, 1.0, replace(record(), snapshot=reading)).truth
    assert (truth.ls_cpu, truth.be_cpu, truth.node_cpu, truth.memory_available) == (1.0, None, None, None)


@pytest.mark.parametrize(
    ("state", "cores"),
    [
        (State(), None),
        (State(be_limit=2.5), 2.5),
        (State(be_limit=2.5, be_observed=True), None),
        (State(be_limit=1.5, be_cpus="0-1"), 2.0),
        (State(be_limit=0.4, be_cpus="3"), 0.4),
    ],
)
def test_batch_is_held_by_a_quota_or_by_cpus(state, cores):
    assert held_at(state) == cores
